//! The client's loop: one thread, all connections, every request at its time.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    os::fd::OwnedFd,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};

use rustix::{
    buffer::spare_capacity,
    event::{Timespec, epoll},
    io::Errno,
    thread::set_current_timer_slack,
    time::{ClockId, clock_gettime},
};

use crate::{
    Arrivals, Error, Failure, Plan, Report, Result, Schedule,
    connection::{Connection, Outcome, Stage},
};

/// So long before a request is due the client no longer sleeps: waking up takes tens of us.
const SPIN_NS: u64 = 60_000;
/// It looks at least so often whether it is to stop.
const MAX_SLEEP_NS: u64 = 20_000_000;
/// So long after its answer, at most, a server is left to close a connection.
const CLOSING_NS: u64 = 1_000_000_000;
const MAX_EVENTS: usize = 512;
const BUFFER_BYTES: usize = 256 * 1024;

/// What others see and set while a client runs.
#[derive(Debug, Default)]
pub struct Control {
    /// Ends the window now; what is under way is waited for no longer.
    pub stop: AtomicBool,
    /// Complete answers so far, warm-up included.
    pub answers: AtomicU64,
}

/// `CLOCK_MONOTONIC`, ns.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

#[derive(Default)]
struct Slot {
    connection: Option<Connection>,
    /// Goes up with each connection, so that events of earlier ones are told apart.
    opened: u32,
    /// When it is looked at next, ns: not after its request's deadline. None: not at all.
    looked_at_ns: Option<u64>,
}

struct Client<'a> {
    plan: &'a Plan,
    control: &'a Control,
    request: Vec<u8>,
    epoll: OwnedFd,
    slots: Vec<Slot>,
    free: Vec<u32>,
    idle: Vec<u32>,
    in_flight: usize,
    schedule: Option<Schedule>,
    /// Intended times of requests that are due, first come first.
    due: VecDeque<u64>,
    /// Times at which slots are looked at, one for each and not for each request.
    deadlines: BinaryHeap<Reverse<(u64, u32)>>,
    start_ns: u64,
    window_ns: u64,
    end_ns: u64,
    buffer: Vec<u8>,
    report: Report,
}

/// Sends the requests of a plan and waits for their answers, on the calling thread.
pub fn run(plan: &Plan, control: &Control) -> Result<Report> {
    plan.check()?;
    // Else the kernel lets sleepers lie 50 us longer.
    let _ = set_current_timer_slack(1.try_into().ok());
    let mut client = Client::new(plan, control)?;
    client.run()?;
    Ok(client.report)
}

impl<'a> Client<'a> {
    fn new(plan: &'a Plan, control: &'a Control) -> Result<Self> {
        let epoll =
            epoll::create(epoll::CreateFlags::CLOEXEC).map_err(Error::kernel("epoll_create1"))?;
        let start_ns = plan.start_ns.unwrap_or_else(now_ns);
        let schedule = match plan.arrivals {
            Arrivals::Open { rate_millirps, poisson_seed } => {
                Some(Schedule::new(rate_millirps, poisson_seed))
            }
            Arrivals::Closed { .. } => None,
        };
        let window_ns = start_ns + plan.warm_up_ns;
        let mut client = Self {
            plan,
            control,
            request: plan.request(),
            epoll,
            slots: Vec::new(),
            free: Vec::new(),
            idle: Vec::new(),
            in_flight: 0,
            schedule,
            due: VecDeque::new(),
            deadlines: BinaryHeap::new(),
            start_ns,
            window_ns,
            end_ns: window_ns + plan.window_ns,
            buffer: vec![0; BUFFER_BYTES],
            report: Report::default(),
        };
        if let Arrivals::Closed { requests } = plan.arrivals {
            (0..requests).for_each(|_| client.ask_again(start_ns));
        }
        Ok(client)
    }

    fn run(&mut self) -> Result<()> {
        let mut events = Vec::with_capacity(MAX_EVENTS);
        self.await_start();
        loop {
            let now_ns = now_ns();
            if self.control.stop.load(Ordering::Relaxed) {
                self.cut_off(now_ns);
                break;
            }
            self.let_in(now_ns);
            self.expire(now_ns);
            self.begin_due()?;
            if now_ns >= self.end_ns && self.in_flight == 0 && self.due.is_empty() {
                break;
            }
            self.wait(&mut events)?;
            for event in events.drain(..) {
                self.look_at(event.data.u64(), event.flags)?;
                if self.schedule.is_none() {
                    self.begin_due()?; // at once: the server is to have something to do
                }
            }
        }
        self.report.window_ns = self.end_ns.saturating_sub(self.window_ns);
        Ok(())
    }

    /// Sleeps until the first requests are near.
    fn await_start(&self) {
        while !self.control.stop.load(Ordering::Relaxed) {
            let left_ns = self.start_ns.saturating_sub(now_ns());
            if left_ns == 0 {
                break;
            }
            thread::sleep(Duration::from_nanos(left_ns.min(MAX_SLEEP_NS)));
        }
    }

    /// Ends the window; nobody is to be blamed for requests that are not waited for.
    fn cut_off(&mut self, now_ns: u64) {
        self.end_ns = self.end_ns.min(now_ns);
        self.report.offered = self.report.answered + self.report.failed_in_all();
    }

    /// Counts the requests that are due.
    fn let_in(&mut self, now_ns: u64) {
        let Some(schedule) = &mut self.schedule else { return };
        loop {
            let at_ns = self.start_ns + schedule.next_ns();
            if at_ns > now_ns || at_ns >= self.end_ns {
                return;
            }
            schedule.go_on();
            self.due.push_back(at_ns);
            if at_ns >= self.window_ns {
                self.report.offered += 1;
            }
        }
    }

    fn counts(&self, at_ns: u64) -> bool {
        (self.window_ns..self.end_ns).contains(&at_ns)
    }

    /// Fails the requests whose time is over.
    fn expire(&mut self, now_ns: u64) {
        while let Some(&intended_ns) = self.due.front() {
            if intended_ns + self.plan.timeout_ns > now_ns {
                break;
            }
            self.due.pop_front();
            self.count_failure(intended_ns, Failure::TimedOut);
        }
        while let Some(&Reverse((at_ns, slot))) = self.deadlines.peek() {
            if at_ns > now_ns {
                break;
            }
            self.deadlines.pop();
            let found = &mut self.slots[slot as usize];
            if found.looked_at_ns != Some(at_ns) {
                continue; // an earlier look was called for meanwhile
            }
            found.looked_at_ns = None;
            let Some(connection) = &found.connection else { continue };
            let deadline_ns = connection.intended_ns + self.plan.timeout_ns;
            match connection.stage {
                Stage::Idle => {}
                Stage::Closing => self.close(slot),
                _ if deadline_ns > now_ns => self.look_again(slot, deadline_ns),
                _ => self.fail(slot, Failure::TimedOut),
            }
        }
    }

    /// Has a slot looked at by then; its present request may be one of many.
    fn look_again(&mut self, slot: u32, at_ns: u64) {
        let found = &mut self.slots[slot as usize];
        if found.looked_at_ns.is_none_or(|before_ns| at_ns < before_ns) {
            found.looked_at_ns = Some(at_ns);
            self.deadlines.push(Reverse((at_ns, slot)));
        }
    }

    /// Begins the requests that are due, as far as there are connections for them.
    fn begin_due(&mut self) -> Result<()> {
        // What fails at once in a closed loop is asked for again, but not at once.
        for _ in 0..self.due.len() {
            if self.in_flight == self.plan.max_connections {
                break;
            }
            let Some(intended_ns) = self.due.pop_front() else { break };
            self.begin(intended_ns)?;
        }
        Ok(())
    }

    fn begin(&mut self, intended_ns: u64) -> Result<()> {
        let now_ns = now_ns();
        if self.counts(intended_ns) {
            self.report.late.add(now_ns - intended_ns);
        }
        if let Some(slot) = self.idle.pop() {
            let connection = self.slots[slot as usize].connection.as_mut();
            connection.expect("idle ones have a connection").reuse(intended_ns, now_ns);
            self.note_begun(slot, intended_ns);
            return self.go_on(slot, epoll::EventFlags::empty());
        }
        self.begin_afresh(intended_ns, now_ns)
    }

    /// Begins a request on a connection of its own.
    fn begin_afresh(&mut self, intended_ns: u64, now_ns: u64) -> Result<()> {
        match Connection::begin(&self.plan.server, intended_ns, now_ns) {
            Ok(connection) => self.add(connection),
            Err(error) => {
                self.count_failure(intended_ns, Failure::of(error));
                Ok(())
            }
        }
    }

    fn add(&mut self, connection: Connection) -> Result<()> {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            u32::try_from(self.slots.len() - 1).expect("descriptors are 32 bits")
        });
        let flags = epoll::EventFlags::IN
            | epoll::EventFlags::OUT
            | epoll::EventFlags::RDHUP
            | epoll::EventFlags::ET;
        let found = &mut self.slots[slot as usize];
        found.opened = found.opened.wrapping_add(1);
        let data = u64::from(found.opened) << 32 | u64::from(slot);
        let data = epoll::EventData::new_u64(data);
        epoll::add(&self.epoll, connection.socket(), data, flags)
            .map_err(Error::kernel("epoll_ctl"))?;
        let intended_ns = connection.intended_ns;
        if self.counts(intended_ns) {
            self.report.connections += 1;
        }
        self.slots[slot as usize].connection = Some(connection);
        self.note_begun(slot, intended_ns);
        Ok(())
    }

    fn note_begun(&mut self, slot: u32, intended_ns: u64) {
        self.look_again(slot, intended_ns + self.plan.timeout_ns);
        self.in_flight += 1;
        if self.counts(intended_ns) {
            self.report.max_in_flight = self.report.max_in_flight.max(self.in_flight);
        }
    }

    fn wait(&self, events: &mut Vec<epoll::Event>) -> Result<()> {
        let now_ns = now_ns();
        let awaited = self.plan.own_core && self.in_flight > 0;
        let mut next_ns = now_ns + if awaited { 0 } else { MAX_SLEEP_NS };
        if let Some(&Reverse((at_ns, _))) = self.deadlines.peek() {
            next_ns = next_ns.min(at_ns);
        }
        if let Some(schedule) = &self.schedule {
            let at_ns = self.start_ns + schedule.next_ns();
            if at_ns < self.end_ns {
                next_ns = next_ns.min(at_ns.saturating_sub(SPIN_NS));
            }
        }
        if now_ns < self.end_ns {
            next_ns = next_ns.min(self.end_ns);
        }
        let sleep_ns = next_ns.saturating_sub(now_ns);
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::try_from(sleep_ns).unwrap_or(0) };
        match epoll::wait(&self.epoll, spare_capacity(events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(Error::kernel("epoll_pwait2")(error)),
        }
    }

    fn look_at(&mut self, data: u64, seen: epoll::EventFlags) -> Result<()> {
        let half = |bits: u64| u32::try_from(bits & u64::from(u32::MAX)).expect("32 bits");
        let (slot, opened) = (half(data), half(data >> 32));
        // Closed while other events were looked at, and perhaps in use again.
        if self.slots[slot as usize].opened != opened {
            return Ok(());
        }
        self.go_on(slot, seen)
    }

    fn go_on(&mut self, slot: u32, seen: epoll::EventFlags) -> Result<()> {
        loop {
            let Some(connection) = self.slots[slot as usize].connection.as_mut() else {
                return Ok(());
            };
            match connection.go_on(seen, &self.request, &mut self.buffer) {
                Outcome::Waiting => return Ok(()),
                Outcome::Connected => {
                    let (begun_ns, intended_ns) = (connection.begun_ns, connection.intended_ns);
                    if self.counts(intended_ns) {
                        self.report.connect.add(now_ns() - begun_ns);
                    }
                }
                Outcome::Answered => {
                    // The end of the connection, too, where the kernel has told of it.
                    let closing = seen.contains(epoll::EventFlags::RDHUP);
                    if self.finish(slot) || !closing {
                        return Ok(());
                    }
                }
                Outcome::Failed(failure) => {
                    if !connection.may_retry(failure) {
                        self.fail(slot, failure);
                        return Ok(());
                    }
                    let intended_ns = connection.intended_ns;
                    if self.counts(intended_ns) {
                        self.report.retried += 1;
                    }
                    self.in_flight -= 1;
                    self.close(slot);
                    return self.begin_afresh(intended_ns, now_ns());
                }
                Outcome::Closed => {
                    if connection.stage == Stage::Idle {
                        self.idle.retain(|&idle| idle != slot);
                    }
                    self.close(slot);
                    return Ok(());
                }
            }
        }
    }

    /// Counts a complete answer; returns whether the connection ended with it.
    fn finish(&mut self, slot: u32) -> bool {
        let now_ns = now_ns();
        self.in_flight -= 1;
        self.control.answers.fetch_add(1, Ordering::Relaxed);
        let connection = self.slots[slot as usize].connection.as_mut();
        let connection = connection.expect("an answer came by it");
        let (status, intended_ns) = (connection.answer.status(), connection.intended_ns);
        let body_bytes = connection.answer.body_bytes();
        let closed = connection.stage == Stage::Closing;
        let keeps = self.plan.keep_alive && connection.answer.keeps_alive() && !closed;
        connection.stage = if keeps { Stage::Idle } else { Stage::Closing };
        if status >= 400 {
            if self.counts(intended_ns) {
                *self.report.statuses.entry(status).or_default() += 1;
            }
            self.count_failure(intended_ns, Failure::Status);
        } else {
            if self.counts(now_ns) {
                self.report.completed += 1;
                self.report.completed_bytes += body_bytes;
            }
            if self.counts(intended_ns) {
                self.report.answered += 1;
                self.report.latency.add(now_ns - intended_ns);
                self.report.latency_sum_ns += now_ns - intended_ns;
            }
            self.ask_again(now_ns);
        }
        if keeps {
            self.idle.push(slot);
        } else if closed {
            self.close(slot);
        } else {
            self.look_again(slot, now_ns + CLOSING_NS);
        }
        closed
    }

    fn fail(&mut self, slot: u32, failure: Failure) {
        let connection = self.slots[slot as usize].connection.as_ref();
        let intended_ns = connection.expect("a request was on it").intended_ns;
        self.in_flight -= 1;
        self.close(slot);
        self.count_failure(intended_ns, failure);
    }

    fn count_failure(&mut self, intended_ns: u64, failure: Failure) {
        if self.counts(intended_ns) {
            self.report.failed[failure as usize] += 1;
        }
        self.ask_again(now_ns());
    }

    /// In a closed loop the next request follows at once.
    fn ask_again(&mut self, now_ns: u64) {
        if self.schedule.is_none() && now_ns < self.end_ns {
            self.due.push_back(now_ns);
            if self.counts(now_ns) {
                self.report.offered += 1;
            }
        }
    }

    fn close(&mut self, slot: u32) {
        self.slots[slot as usize].connection = None;
        self.free.push(slot);
    }
}
