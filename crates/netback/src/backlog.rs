//! Frames of other ports that wait for a router to provide receive buffers, and whose is next.
//!
//! Frames between ports go straight across as long as there are buffers. Who is too slow for what all
//! others send to it is shared like an uplink: by its scheduler, with the senders' weights and priorities.

use std::collections::VecDeque;

use isolane_sched::{Config, FlowSettings, Kind, Next, Scheduler};

use crate::{
    CutOff, Delivered, NetHeader, PortSettings, Sharing, output::Staged, port::Port,
    sharing::wire_bytes,
};

/// Frames of one sender that wait at most; the rest is lost. A router that comes back from a pause provides
/// as many buffers at once as its ring has, 256 as a rule, and nearly all may be those of a sender with short
/// frames: with fewer waiting than it has a right to, it would get less.
const OF_ONE: usize = 256;
/// Memory that the frames for one port may take, bytes, and those for all ports together; as much again is
/// kept for senders that have less than an equal part of it waiting.
const OF_A_PORT_BYTES: usize = 4 << 20;
const OF_ALL_BYTES: usize = 256 << 20;

#[derive(Debug)]
struct Waiting {
    frame: Vec<u8>,
    header: NetHeader,
    since_ns: u64,
}

/// Frames of one sender, and their bytes.
#[derive(Debug, Default)]
struct Flow {
    waiting: VecDeque<Waiting>,
    bytes: usize,
}

/// What became of a frame that waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The router has it, or lost it for a reason that its port has counted.
    Given,
    /// It waited too long, and the router took nothing meanwhile.
    Late,
}

/// Frames that wait for one port.
#[derive(Debug)]
pub(crate) struct Backlog {
    /// Flow of the scheduler -> port.
    senders: Vec<usize>,
    scheduler: Scheduler<Staged>,
    flows: Vec<Flow>,
    /// The flow whose turn it is: its first frame was scheduled, and found no buffer.
    turn: Option<u32>,
    frames: usize,
    bytes: usize,
    max_bytes: usize,
    /// How long frames wait while the router takes none. Who has a small share waits longer for his turn,
    /// and would lose it if that counted.
    max_wait_ns: u64,
    /// When the router last took one.
    taken_ns: u64,
}

impl Backlog {
    /// Of a port where frames wait so long at most, from these ports, of so many in all.
    pub(crate) fn new(max_wait_ns: u64, senders: Vec<usize>, ports: usize) -> Self {
        Self {
            scheduler: scheduler(&Kind::Fifo, senders.len()),
            flows: senders.iter().map(|_| Flow::default()).collect(),
            senders,
            turn: None,
            frames: 0,
            bytes: 0,
            max_bytes: OF_A_PORT_BYTES.min(OF_ALL_BYTES / ports.max(1)),
            max_wait_ns,
            taken_ns: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frames == 0
    }

    /// Shares like this from now on: an uplink's scheduler, and what all ports are guaranteed. Minima and
    /// maxima are those of the uplink, and say nothing here.
    pub(crate) fn share(&mut self, kind: &Kind, ports: &[FlowSettings], now_ns: u64) {
        self.scheduler = scheduler(kind, self.senders.len());
        for (flow, &port) in (0..).zip(&self.senders) {
            let FlowSettings { weight, priority, .. } = ports[port];
            let settings = FlowSettings { weight, priority, ..FlowSettings::default() };
            let taken = self.scheduler.set(flow, settings, now_ns);
            debug_assert!(taken.is_ok(), "the uplink's scheduler takes them, and more");
        }
        // Which frame came first is known of each sender alone.
        for number in 0..OF_ONE {
            for (flow, Flow { waiting, .. }) in (0..).zip(&self.flows) {
                let is_scheduled = number == 0 && self.turn == Some(flow);
                if let Some(one) = waiting.get(number).filter(|_| !is_scheduled) {
                    schedule(&mut self.scheduler, flow, one.frame.len(), now_ns);
                }
            }
        }
    }

    /// Has a frame wait; false: it cannot.
    pub(crate) fn push(
        &mut self,
        sender: usize,
        frame: &[u8],
        header: NetHeader,
        now_ns: u64,
    ) -> bool {
        let Ok(flow) = self.senders.binary_search(&sender) else {
            return false;
        };
        if self.max_wait_ns == 0 || !self.has_space(flow, frame.len()) {
            return false;
        }
        let kept = Waiting { frame: frame.to_vec(), header, since_ns: now_ns };
        self.flows[flow].waiting.push_back(kept);
        self.flows[flow].bytes += frame.len();
        self.frames += 1;
        self.bytes += frame.len();
        let flow = u32::try_from(flow).expect("ports are few");
        schedule(&mut self.scheduler, flow, frame.len(), now_ns);
        true
    }

    /// Whether one more frame of a sender may wait. What loud senders have filled up is full for them: who
    /// has less than an equal part of it waiting is still taken in, until there is twice as much.
    fn has_space(&self, flow: usize, frame_bytes: usize) -> bool {
        let Flow { waiting, bytes } = &self.flows[flow];
        let is_small = *bytes < self.max_bytes / self.senders.len();
        let limit = if is_small { 2 * self.max_bytes } else { self.max_bytes };
        waiting.len() < OF_ONE && self.bytes + frame_bytes <= limit
    }

    /// Gives frames to the router, in their turn, until it takes no more; and tells of each whose it was and
    /// what became of it. Returns how many there were.
    pub(crate) fn serve(
        &mut self,
        now_ns: u64,
        mut give: impl FnMut(&[u8], NetHeader) -> Result<Delivered, CutOff>,
        mut tell: impl FnMut(usize, Ended),
    ) -> Result<u32, CutOff> {
        let mut served = 0;
        while let Some(flow) = self.next_flow(now_ns) {
            let Flow { waiting, bytes } = &mut self.flows[flow as usize];
            let first = waiting.front().expect("as many as were scheduled");
            let idle_ns = now_ns.saturating_sub(first.since_ns.max(self.taken_ns));
            let ended = match give(&first.frame, first.header)? {
                Delivered::Full if idle_ns <= self.max_wait_ns => break,
                Delivered::Full => Ended::Late,
                _ => {
                    self.taken_ns = now_ns;
                    Ended::Given
                }
            };
            self.turn = None;
            self.frames -= 1;
            self.bytes -= first.frame.len();
            *bytes -= first.frame.len();
            let _ = waiting.pop_front();
            tell(self.senders[flow as usize], ended);
            served += 1;
        }
        Ok(served)
    }

    /// The flow whose first frame is next.
    fn next_flow(&mut self, now_ns: u64) -> Option<u32> {
        if self.turn.is_none() {
            // Without rates none waits for a time.
            if let Next::Packet(staged) = self.scheduler.dequeue(now_ns) {
                self.turn = Some(staged.flow);
            }
        }
        self.turn
    }
}

/// The backlogs of all ports: made where they are needed, which is seldom.
#[derive(Debug)]
pub(crate) struct Backlogs {
    of: Vec<Option<Box<Backlog>>>,
    /// The ports that frames wait for.
    busy: Vec<usize>,
    sharing: Sharing,
}

impl Backlogs {
    pub(crate) fn new(ports: usize, sharing: Sharing) -> Self {
        Self { of: (0..ports).map(|_| None).collect(), busy: Vec::new(), sharing }
    }

    /// Whether frames wait for any port.
    pub(crate) fn is_empty(&self) -> bool {
        self.busy.is_empty()
    }

    /// Whether frames wait for this port.
    #[inline]
    pub(crate) fn is_busy(&self, port: usize) -> bool {
        // Looked at for each frame, and seldom true for any port.
        !self.busy.is_empty() && self.busy.contains(&port)
    }

    /// Shares like this from now on.
    pub(crate) fn share(&mut self, sharing: &Sharing, ports: &[Port], now_ns: u64) {
        self.sharing = sharing.clone();
        for (port, backlog) in ports.iter().zip(&mut self.of) {
            if let Some(backlog) = backlog {
                let kind = &sharing.links[port.settings.uplink].scheduler;
                backlog.share(kind, &sharing.ports, now_ns);
            }
        }
    }

    /// Has a frame wait for a port; false: it cannot.
    pub(crate) fn push(
        &mut self,
        ports: &[Port],
        (from, to): (usize, usize),
        (frame, header): (&[u8], NetHeader),
        now_ns: u64,
    ) -> bool {
        let Sharing { links, ports: guarantees } = &self.sharing;
        let backlog = self.of[to].get_or_insert_with(|| {
            let PortSettings { uplink, max_wait_ns, .. } = ports[to].settings;
            let beside = (0..ports.len()).filter(|&port| ports[port].settings.uplink == uplink);
            let mut made = Backlog::new(max_wait_ns, beside.collect(), ports.len());
            made.share(&links[uplink].scheduler, guarantees, now_ns);
            Box::new(made)
        });
        if backlog.is_empty() {
            self.busy.push(to);
        }
        let waits = backlog.push(from, frame, header, now_ns);
        if backlog.is_empty() {
            let _ = self.busy.pop();
        }
        waits
    }

    /// Gives routers what they take by now, and drops what has waited too long. Returns the frames.
    pub(crate) fn serve(
        &mut self,
        ports: &mut [Port],
        failed: &mut Vec<(usize, CutOff)>,
        now_ns: u64,
    ) -> u32 {
        let (mut served, mut told) = (0, Vec::new());
        let of = &mut self.of;
        self.busy.retain(|&to| {
            let backlog = of[to].as_mut().expect("it is busy");
            let offer = |frame: &[u8], header| {
                // Another guest may have attached meanwhile, which does less.
                if header != NetHeader::NONE && !ports[to].takes(&header) {
                    ports[to].counters.too_long += 1;
                    return Ok(Delivered::TooLong);
                }
                ports[to].offer(frame, header)
            };
            match backlog.serve(now_ns, offer, |from, ended| told.push((from, to, ended))) {
                Ok(frames) => served += frames,
                Err(reason) => failed.push((to, reason)),
            }
            !backlog.is_empty()
        });
        for (from, to, ended) in told {
            ports[from].held -= 1;
            ports[from].counters.sent += 1;
            ports[to].counters.ring_full += u64::from(ended == Ended::Late);
        }
        served
    }
}

fn scheduler(kind: &Kind, senders: usize) -> Scheduler<Staged> {
    let flows = u32::try_from(senders.max(1)).expect("ports are few");
    let packets = u32::try_from(OF_ONE).expect("a few") * flows;
    let config =
        Config { flows, queue_packets: packets, pool_packets: packets, kind: kind.clone() };
    Scheduler::new(config).expect("as that of the uplink, which has more")
}

fn schedule(scheduler: &mut Scheduler<Staged>, flow: u32, frame_bytes: usize, now_ns: u64) {
    let bytes = u32::try_from(frame_bytes).expect("a frame is shorter than 4 GiB");
    let queued = scheduler.enqueue(Staged { flow, wire_bytes: wire_bytes(bytes) }, now_ns);
    debug_assert!(queued.is_ok(), "its queue is as long as what may wait");
}

#[cfg(test)]
mod tests {
    use isolane_sched::Kind;
    use proptest::prelude::*;

    use super::*;

    const WAIT_NS: u64 = 1_000_000;
    /// Ports of the senders; a port between them is on another uplink.
    const SENDERS: [usize; 3] = [0, 2, 3];

    fn backlog(kind: &Kind, weights: [u32; 4]) -> Backlog {
        let mut made = Backlog::new(WAIT_NS, SENDERS.to_vec(), 4);
        made.share(kind, &guarantees(weights), 0);
        made
    }

    fn guarantees(weights: [u32; 4]) -> [FlowSettings; 4] {
        // Minima and maxima of the uplink, which mean nothing between ports.
        let rates = FlowSettings { rate_max_bps: Some(8_000), ..FlowSettings::default() };
        weights.map(|weight| FlowSettings { weight, ..rates })
    }

    fn drr() -> Kind {
        Kind::by_name("drr").unwrap()
    }

    /// Serves a router with so many buffers; returns the frames that it got, and what was told.
    fn serve(
        backlog: &mut Backlog,
        now_ns: u64,
        mut buffers: usize,
    ) -> (Vec<Vec<u8>>, Vec<(usize, Ended)>) {
        let (mut got, mut told) = (Vec::new(), Vec::new());
        let give = |frame: &[u8], _| {
            if buffers == 0 {
                return Ok(Delivered::Full);
            }
            buffers -= 1;
            got.push(frame.to_vec());
            Ok(Delivered::Written { buffers: 1 })
        };
        let served = backlog.serve(now_ns, give, |from, ended| told.push((from, ended))).unwrap();
        assert_eq!(told.len(), served as usize);
        (got, told)
    }

    #[test]
    fn buffers_are_shared_by_the_senders_weights() {
        let mut backlog = backlog(&drr(), [3, 9, 1, 0].map(|weight| weight.max(1)));
        let mut got = [0; 4];
        for round in 0..2_000 {
            for sender in [0, 2] {
                while backlog.push(sender, &[0; 1_000], NetHeader::NONE, round) {}
            }
            for (from, ended) in serve(&mut backlog, round, 5).1 {
                assert_eq!(ended, Ended::Given);
                got[from] += 1;
            }
        }
        assert_eq!(got.iter().sum::<u32>(), 10_000);
        assert!(got[0].abs_diff(7_500) <= 16, "3 to 1 but for what waits: {got:?}");
    }

    #[test]
    fn what_was_scheduled_and_found_no_buffer_goes_first() {
        let mut backlog = backlog(&Kind::by_name("strict-priority").unwrap(), [1; 4]);
        assert!(backlog.push(2, &[2; 60], NetHeader::NONE, 0));
        assert_eq!(serve(&mut backlog, 0, 0), (Vec::new(), Vec::new()));
        assert!(backlog.push(0, &[0; 60], NetHeader::NONE, 0));
        // As when the scheduler is exchanged meanwhile.
        backlog.share(&drr(), &guarantees([1; 4]), 0);
        let (got, told) = serve(&mut backlog, 0, 9);
        assert_eq!(got, [[2; 60], [0; 60]]);
        assert_eq!(told, [(2, Ended::Given), (0, Ended::Given)]);
        assert!(backlog.is_empty());
    }

    #[test]
    fn nothing_waits_longer_while_the_router_takes_nothing() {
        let mut backlog = backlog(&drr(), [1; 4]);
        assert!(backlog.push(0, &[1; 60], NetHeader::NONE, 0));
        assert!(backlog.push(0, &[2; 60], NetHeader::NONE, 10));
        let (got, told) = serve(&mut backlog, WAIT_NS + 1, 0);
        assert_eq!((got, told), (Vec::new(), vec![(0, Ended::Late)]));
        let (got, told) = serve(&mut backlog, WAIT_NS + 10, 1);
        assert_eq!((got, told), (vec![vec![2; 60]], vec![(0, Ended::Given)]));
    }

    #[test]
    fn who_waits_for_his_turn_is_not_late() {
        let mut backlog = backlog(&drr(), [1; 4]);
        for sender in [0, 2, 3] {
            assert!(backlog.push(sender, &[0; 1_500], NetHeader::NONE, 0));
        }
        for (turn, sender) in (1..).zip([0, 2, 3]) {
            assert_eq!(serve(&mut backlog, turn * WAIT_NS, 1).1, [(sender, Ended::Given)]);
        }
    }

    #[test]
    fn what_may_wait_is_bounded_for_each_sender_and_for_all() {
        let mut backlog = backlog(&drr(), [1; 4]);
        let pushed = |backlog: &mut Backlog, sender, bytes| {
            let frame = vec![0; bytes];
            (0..400).filter(|_| backlog.push(sender, &frame, NetHeader::NONE, 0)).count()
        };
        assert_eq!(pushed(&mut backlog, 0, 60), OF_ONE);
        assert_eq!(pushed(&mut backlog, 1, 60), 0, "on another uplink");
        assert_eq!(pushed(&mut backlog, 2, 60), OF_ONE);
        let mut many = Backlog::new(WAIT_NS, (0..256).collect(), 256);
        let frames: usize = (0..256).map(|sender| pushed(&mut many, sender, 60_000)).sum();
        assert_eq!(frames, 2 * OF_ALL_BYTES / 256 / 60_000);
        let mut never = Backlog::new(0, SENDERS.to_vec(), 4);
        assert_eq!(pushed(&mut never, 0, 60), 0);
    }

    #[test]
    fn loud_senders_leave_each_other_one_its_part() {
        // Segments that were merged: 4 MB are fewer than one sender's frames may be.
        let merged = vec![0; 60_000];
        let mut backlog = Backlog::new(WAIT_NS, SENDERS.to_vec(), 4);
        let mut pushed =
            |sender| (0..400).filter(|_| backlog.push(sender, &merged, NetHeader::NONE, 0)).count();
        assert_eq!(pushed(0), OF_A_PORT_BYTES / merged.len());
        let part = (OF_A_PORT_BYTES / SENDERS.len()).div_ceil(merged.len());
        assert_eq!([pushed(2), pushed(3)], [part, part]);
        assert_eq!([pushed(0), pushed(2), pushed(3)], [0; 3]);
        let mut gone = [0; 4];
        for (from, _) in serve(&mut backlog, 0, usize::MAX).1 {
            gone[from] += 1;
        }
        assert_eq!(gone, [69, 0, part, part]);
        assert_eq!(backlog.flows.iter().map(|flow| flow.bytes).sum::<usize>(), 0);
    }

    proptest! {
        #[test]
        fn each_frame_is_given_once_in_its_senders_order(
            name in prop::sample::select(vec!["fifo", "drr", "wfq", "strict-priority", "hierarchical", "credit", "credit-random"]),
            steps in prop::collection::vec((0usize..3, 60usize..2_000, 0usize..4, any::<bool>()), 1..300),
        ) {
            let kind = Kind::by_name(name).unwrap();
            // Another one refuses what it does not look at.
            let weigh = |weights| if matches!(name, "drr" | "wfq" | "hierarchical") { weights } else { [1; 4] };
            let mut backlog = backlog(&kind, weigh([1, 1, 5, 2]));
            let mut kept: [VecDeque<Vec<u8>>; 4] = Default::default();
            for (number, (sender, bytes, buffers, again)) in (0u64..).zip(steps) {
                let sender = SENDERS[sender];
                let mut frame = vec![7; bytes];
                frame[..8].copy_from_slice(&number.to_le_bytes());
                if backlog.push(sender, &frame, NetHeader::NONE, 0) {
                    kept[sender].push_back(frame);
                }
                if again {
                    backlog.share(&kind, &guarantees(weigh([2, 1, 1, 1])), 0);
                }
                let (got, told) = serve(&mut backlog, 0, buffers);
                for (frame, (from, ended)) in got.into_iter().zip(told) {
                    prop_assert_eq!(ended, Ended::Given);
                    prop_assert_eq!(Some(frame), kept[from].pop_front());
                }
            }
            let waiting: usize = kept.iter().map(VecDeque::len).sum();
            prop_assert_eq!(serve(&mut backlog, 0, usize::MAX).0.len(), waiting);
            prop_assert!(backlog.is_empty());
            prop_assert_eq!(backlog.bytes, 0);
        }
    }
}
