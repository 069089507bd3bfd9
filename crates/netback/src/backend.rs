//! The back-end at work: one thread that takes frames from uplinks and guests, decides, and sends.

use std::{
    collections::VecDeque,
    io,
    os::{fd::AsFd, unix::net::UnixStream},
    sync::mpsc::{self, Receiver},
    time::Duration,
};

use crate::{
    Attachment, CutOff, MIN_FRAME_BYTES, NetHeader, PortSettings,
    backlog::Backlogs,
    carrier::Carriers,
    clock::monotonic_ns,
    contain_cut_files,
    delivery::{Buffers, Delivery, Given, Work},
    forwarding::{Forwarding, Origin},
    guest::GuestSide,
    handle::{Command, Counters, Handle},
    output::{Output, Planned},
    poller::{Interest, Poller},
    port::Port,
    segmentation::MAX_MERGED_BYTES,
    sharing::{Refused, Sharing},
    staging::{SLOTS, frames_of},
};

/// Frames taken from one guest before the next one's turn.
const GUEST_BATCH: u32 = 64;
/// Messages of one front-end carried out before the next one's turn.
const MESSAGES: u32 = 16;
/// Rounds of work between two looks at sockets.
const ROUNDS: u32 = 64;
/// Rounds of work between two looks at carriers: an interface that has lost its own drops what it is given.
const CARRIER_ROUNDS: u32 = 8;

/// Between two looks whether routers that frames wait for have provided buffers.
const LOOK_NS: u64 = 50_000;

/// Between two looks at rings whose guests do not say when they transmit.
const POLL_NS: u64 = 1_000_000;

/// Between two questions to the kernel what it lost, which it counts in 32 bits: enough for 400 million
/// frames a second.
const LOSSES_NS: u64 = 10_000_000_000;

/// Kinds of descriptors that are waited for: the upper half of their numbers.
const COMMAND: u64 = 0;
const UPLINK: u64 = 1;
const LISTENER: u64 = 2;
const CONNECTION: u64 = 3;
const KICK: u64 = 4;
const INTERFACE: u64 = 5;
const CARRIER: u64 = 6;

/// What the poller calls a descriptor.
fn token(kind: u64, number: usize) -> u64 {
    kind << 32 | number as u64
}

/// The back-end.
#[derive(Debug)]
pub struct Netback {
    ports: Vec<Port>,
    outputs: Vec<Output>,
    forwarding: Forwarding,
    poller: Poller,
    carriers: Carriers,
    commands: Receiver<Command>,
    wake: UnixStream,
    /// How it is to share from when on, ns, the earliest first.
    later: VecDeque<(u64, Sharing)>,
    /// Staging slots of a port that are to be free before more is taken from its guest. Among many
    /// ports each sends a frame now and then, and to fetch single ones from so many guests' memory
    /// takes longer than all else.
    refill: usize,
    /// Frames that wait for ports.
    backlogs: Backlogs,
    /// When the kernel is asked next what it lost.
    losses_at_ns: u64,
    /// Guests that are to be cut off at the end of the round.
    failed: Vec<(usize, CutOff)>,
    /// The frame at hand.
    frame: Vec<u8>,
    buffers: Buffers,
}

impl Netback {
    /// A back-end with these uplinks, by their index in the calling thread's network namespace, and
    /// ports.
    pub fn new(
        uplinks: &[u32],
        ports: Vec<(PortSettings, Attachment)>,
        sharing: &Sharing,
    ) -> io::Result<(Self, Handle)> {
        let refused = |why| io::Error::new(io::ErrorKind::InvalidInput, why);
        if sharing.links.len() != uplinks.len() {
            return Err(refused(Refused::Count));
        }
        let (commands, told) = mpsc::channel();
        let (wake, woken) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        let poller = Poller::new()?;
        poller.add(woken.as_fd(), token(COMMAND, 0), Interest::Read)?;
        let settings: Vec<PortSettings> = ports.iter().map(|(one, _)| one.clone()).collect();
        let forwarding = Forwarding::of(&settings);
        let carriers = Carriers::new()?;
        poller.add(carriers.readable(), token(CARRIER, 0), Interest::Read)?;
        let mut outputs = Vec::new();
        for (number, (&uplink, link)) in uplinks.iter().zip(&sharing.links).enumerate() {
            let flows: Vec<usize> =
                (0..settings.len()).filter(|&port| settings[port].uplink == number).collect();
            let output = Output::open(uplink, link, flows)?;
            carriers.ask(uplink)?;
            poller.add(output.uplink.readable(), token(UPLINK, number), Interest::Read)?;
            outputs.push(output);
        }
        let mut opened = Vec::new();
        for (number, (settings, attachment)) in ports.into_iter().enumerate() {
            let mut port = Port::new(settings, attachment, &carriers)?;
            if let Some(guest) = port.guest() {
                poller.add(guest.listener(), token(LISTENER, number), Interest::Read)?;
            }
            if let Some(interface) = port.interface_mut() {
                poller.add(interface.readable(), token(INTERFACE, number), Interest::Read)?;
            }
            opened.push(port);
        }
        let mut netback = Self {
            ports: opened,
            outputs,
            forwarding,
            poller,
            carriers,
            commands: told,
            wake: woken,
            later: VecDeque::new(),
            refill: (settings.len() / 4).clamp(1, 3 * SLOTS / 4),
            backlogs: Backlogs::new(settings.len(), sharing.clone()),
            losses_at_ns: 0,
            failed: Vec::new(),
            frame: vec![0; MAX_MERGED_BYTES],
            buffers: Buffers::new(),
        };
        netback.share(sharing).map_err(refused)?;
        netback.hear_of_carriers();
        Ok((netback, Handle::new(commands, wake)))
    }

    /// What sends like this, by uplink.
    fn planned(&self, sharing: &Sharing, now_ns: u64) -> Result<Vec<Planned>, Refused> {
        let Sharing { links, ports } = sharing;
        if links.len() != self.outputs.len() || ports.len() != self.ports.len() {
            return Err(Refused::Count);
        }
        let outputs = self.outputs.iter().zip(links);
        outputs.map(|(output, link)| output.planned(link, ports, now_ns)).collect()
    }

    /// Shares its uplinks like this from a moment on, or refuses and changes nothing.
    fn share_from(&mut self, sharing: Sharing, from_ns: Option<u64>) -> Result<(), Refused> {
        let Some(from_ns) = from_ns else {
            self.share(&sharing)?;
            self.later.clear();
            return Ok(());
        };
        self.planned(&sharing, monotonic_ns())?;
        let position = self.later.partition_point(|&(other_ns, _)| other_ns <= from_ns);
        self.later.insert(position, (from_ns, sharing));
        Ok(())
    }

    /// Shares as it is to by now.
    fn share_in_time(&mut self, now_ns: u64) {
        while self.later.front().is_some_and(|&(from_ns, _)| from_ns <= now_ns) {
            let (_, sharing) = self.later.pop_front().expect("looked at just now");
            self.share(&sharing).expect("it was planned before");
        }
    }

    /// Shares its uplinks like this from now on, or changes nothing.
    fn share(&mut self, sharing: &Sharing) -> Result<(), Refused> {
        let now_ns = monotonic_ns();
        let planned = self.planned(sharing, now_ns)?;
        let links = &sharing.links;
        for ((output, link), planned) in self.outputs.iter_mut().zip(links).zip(planned) {
            output.change(link, planned, &self.ports, now_ns);
        }
        self.backlogs.share(sharing, &self.ports, now_ns);
        Ok(())
    }

    /// Works until it is told to stop.
    pub fn run(&mut self) -> io::Result<()> {
        ignore_sigpipe();
        sleep_exactly();
        contain_cut_files()?;
        loop {
            let mut worked = 0;
            for _ in 0..ROUNDS {
                if self.round(monotonic_ns()) == 0 {
                    break;
                }
                worked += 1;
                if worked % CARRIER_ROUNDS == 0 {
                    self.hear_of_carriers();
                }
            }
            let limit = if worked == ROUNDS { Some(Duration::ZERO) } else { self.rest() };
            if self.wait(limit)? {
                return Ok(());
            }
        }
    }

    /// One round: what arrived, what guests transmit, what is scheduled. Returns the frames moved.
    fn round(&mut self, now_ns: u64) -> u32 {
        let mut moved = 0;
        self.share_in_time(now_ns);
        for number in 0..self.outputs.len() {
            moved += self.arrivals(number, now_ns);
        }
        if !self.backlogs.is_empty() {
            moved += self.backlogs.serve(&mut self.ports, &mut self.failed, now_ns);
        }
        for port in 0..self.ports.len() {
            moved += self.transmissions(port, now_ns);
        }
        for output in &mut self.outputs {
            moved += output.send(&mut self.ports, now_ns);
        }
        for (number, port) in self.ports.iter_mut().enumerate() {
            if !port.finish(now_ns) {
                self.failed.push((number, CutOff::CutShort));
            }
        }
        for (port, reason) in std::mem::take(&mut self.failed) {
            self.detach(port);
            self.ports[port].cut_off(&reason);
        }
        moved
    }

    /// Gives frames that arrived by an uplink to their ports.
    fn arrivals(&mut self, number: usize, now_ns: u64) -> u32 {
        let Self { ports, outputs, forwarding, failed, buffers, backlogs, .. } = self;
        let mut delivery = Delivery { ports, forwarding, buffers, backlogs, now_ns, failed };
        let from = Origin { uplink: number, port: None };
        outputs[number].uplink.receive(|frame, header| {
            frame.len() < MIN_FRAME_BYTES || delivery.arrived(from, frame, header)
        })
    }

    /// Takes frames from a guest: for other guests at once, for the uplink to be scheduled.
    fn transmissions(&mut self, number: usize, now_ns: u64) -> u32 {
        if self.ports[number].staging.free() < self.refill {
            return 0;
        }
        let mut frame = std::mem::take(&mut self.frame);
        let mut taken = 0;
        while taken < GUEST_BATCH && !self.ports[number].staging.is_full() {
            match self.ports[number].next_frame(&mut frame) {
                Ok(Some((0, _))) => {} // not to be sent, and counted
                Ok(Some((bytes, header))) if header.asks_for_offload() => {
                    if self.work(number, &mut frame, (bytes, header), now_ns) {
                        self.forward(number, &frame[..bytes], now_ns);
                    }
                    taken += frames_of(bytes) - 1;
                }
                Ok(Some((bytes, _))) => self.forward(number, &frame[..bytes], now_ns),
                Ok(None) => break,
                Err(reason) => {
                    self.failed.push((number, reason));
                    break;
                }
            }
            taken += 1;
        }
        self.frame = frame;
        taken
    }

    /// Does what a guest has left to do for a frame, or has that done. True: the frame can be forwarded.
    fn work(
        &mut self,
        from: usize,
        frame: &mut Vec<u8>,
        (bytes, header): (usize, NetHeader),
        now_ns: u64,
    ) -> bool {
        let Self { ports, forwarding, failed, buffers, backlogs, .. } = self;
        let origin = Origin { uplink: ports[from].settings.uplink, port: Some(from) };
        let mut delivery = Delivery { ports, forwarding, buffers, backlogs, now_ns, failed };
        let work = delivery.work(origin, &mut frame[..bytes], header);
        let port = &mut self.ports[from];
        match work {
            Work::Done => return true,
            Work::Given(Given::Waits) => {}
            Work::Given(_) => port.counters.sent += 1,
            Work::Impossible => port.counters.malformed += 1,
            Work::Divide(division) if division.packet_bytes() > port.settings.nic.mtu.into() => {
                port.counters.malformed += 1;
            }
            Work::Divide(division) => {
                port.counters.transmitted += division.segments() as u64 - 1;
                port.merged.begin(frame, bytes, division);
            }
        }
        false
    }

    fn forward(&mut self, from: usize, frame: &[u8], now_ns: u64) {
        let Self { ports, outputs, forwarding, failed, buffers, backlogs, .. } = self;
        let uplink = ports[from].settings.uplink;
        let origin = Origin { uplink, port: Some(from) };
        let mut delivery = Delivery { ports, forwarding, buffers, backlogs, now_ns, failed };
        match delivery.spread(origin, frame) {
            Given::Handed => ports[from].counters.sent += 1,
            Given::Waits => {}
            Given::Nowhere => outputs[uplink].stage(&mut ports[from], from, frame, now_ns),
        }
    }

    /// Prepares for a pause: guests kick from now on. Returns how long it may be.
    fn rest(&mut self) -> Option<Duration> {
        for number in 0..self.ports.len() {
            match self.ports[number].enable_kicks() {
                Ok(false) => {}
                Ok(true) if self.ports[number].staging.free() < self.refill => {}
                Ok(true) => return Some(Duration::ZERO),
                Err(reason) => {
                    self.detach(number);
                    self.ports[number].cut_off(&reason);
                }
            }
        }
        let due = self.ports.iter().filter_map(Port::due_ns);
        let scheduled = self.outputs.iter().filter_map(Output::sends_at_ns);
        let later = self.later.front().map(|&(from_ns, _)| from_ns);
        let next_ns = due.chain(scheduled).chain(later).chain([self.losses_at_ns]).min();
        let limit = next_ns.map(|next_ns| next_ns.saturating_sub(monotonic_ns()));
        // Nobody tells when a router provides buffers again.
        let looks = (!self.backlogs.is_empty()).then_some(LOOK_NS);
        let polls = self.ports.iter_mut().any(Port::is_polled).then_some(POLL_NS);
        limit.into_iter().chain(looks).chain(polls).min().map(Duration::from_nanos)
    }

    /// Waits for descriptors, and does what they are about. Returns whether it is to end.
    fn wait(&mut self, limit: Option<Duration>) -> io::Result<bool> {
        for (number, output) in self.outputs.iter_mut().enumerate() {
            output.watch(&self.poller, token(UPLINK, number))?;
        }
        for (number, port) in self.ports.iter_mut().enumerate() {
            let can_take = port.staging.free() >= self.refill;
            if let Some(interface) = port.interface_mut() {
                interface.watch(&self.poller, token(INTERFACE, number), can_take)?;
            }
        }
        let mut ready = Vec::new();
        self.poller
            .wait(limit, |token| ready.push((token >> 32, (token & 0xffff_ffff) as usize)))?;
        // Kicks first: what follows may replace the descriptor that was ready by another one.
        for &(_, number) in ready.iter().filter(|(kind, _)| *kind == KICK) {
            if !self.ports[number].guest().is_none_or(GuestSide::take_kick) {
                self.forget_kick(number);
            }
        }
        for (kind, number) in ready {
            match kind {
                LISTENER => self.changed(number, |port| {
                    if let Some(guest) = port.guest_mut() {
                        guest.accept();
                    }
                }),
                INTERFACE => {
                    if let Some(interface) = self.ports[number].interface_mut() {
                        interface.take_error();
                    }
                }
                CONNECTION => self.changed(number, |port| port.serve(MESSAGES)),
                // What has arrived is taken in the next round.
                UPLINK => self.outputs[number].uplink.take_error(),
                COMMAND if self.obey() => return Ok(true),
                CARRIER => self.hear_of_carriers(),
                _ => {}
            }
        }
        let now_ns = monotonic_ns();
        for port in &mut self.ports {
            port.disable_kicks();
            port.in_time(now_ns, &self.carriers);
        }
        self.count_losses(now_ns);
        Ok(false)
    }

    /// Takes over what the kernel counted as lost, if it is time for that.
    fn count_losses(&mut self, now_ns: u64) {
        if now_ns < self.losses_at_ns {
            return;
        }
        self.losses_at_ns = now_ns + LOSSES_NS;
        self.outputs.iter_mut().for_each(|output| output.uplink.count_losses());
        for interface in self.ports.iter_mut().filter_map(Port::interface_mut) {
            interface.count_losses();
        }
    }

    /// Does something that may change a port's descriptors: none is closed while it is waited for.
    fn changed(&mut self, number: usize, act: impl FnOnce(&mut Port)) {
        self.detach(number);
        act(&mut self.ports[number]);
        if let Err(source) = self.watch_guest(number) {
            // The kernel waits neither for every kind of descriptor nor for an epoll instance in four
            // others: that is the matter of whoever gave us this one.
            self.detach(number);
            let action = "waiting for a descriptor of its front-end";
            self.ports[number].cut_off(&CutOff::System { action, source });
        }
    }

    /// Has the poller wait for what a port's guest sends by.
    fn watch_guest(&self, number: usize) -> io::Result<()> {
        let Some(guest) = self.ports[number].guest() else {
            return Ok(());
        };
        if let Some(connection) = guest.connection() {
            let unsent = guest.has_unsent();
            let what = if unsent { Interest::ReadAndWrite } else { Interest::Read };
            self.poller.add(connection, token(CONNECTION, number), what)?;
        }
        if let Some(kick) = guest.kick() {
            self.poller.add(kick, token(KICK, number), Interest::Read)?;
        }
        Ok(())
    }

    /// A descriptor that stays readable would keep the loop awake.
    fn forget_kick(&self, number: usize) {
        if let Some(kick) = self.ports[number].guest().and_then(GuestSide::kick) {
            let _ = self.poller.remove(kick);
        }
    }

    fn detach(&self, number: usize) {
        if let Some(guest) = self.ports[number].guest() {
            for fd in [guest.connection(), guest.kick()].into_iter().flatten() {
                let _ = self.poller.remove(fd);
            }
        }
    }

    /// Has interfaces know whether they have a carrier.
    fn hear_of_carriers(&mut self) {
        let Self { carriers, outputs, ports, .. } = self;
        let now_ns = monotonic_ns();
        if carriers.hear(|ifindex, is_there| set_carrier(outputs, ports, ifindex, is_there, now_ns))
        {
            return;
        }
        for ifindex in self.ifindices() {
            if self.carriers.ask(ifindex).is_err() {
                // As where the kernel answers with an error.
                set_carrier(&mut self.outputs, &mut self.ports, ifindex, true, now_ns);
            }
        }
    }

    /// Its interfaces.
    fn ifindices(&mut self) -> Vec<u32> {
        let uplinks = self.outputs.iter().map(|output| output.uplink.ifindex());
        let interfaces = self.ports.iter_mut().filter_map(Port::interface_mut);
        uplinks.chain(interfaces.map(|interface| interface.ifindex())).collect()
    }

    /// Carries out commands; returns whether it is to end.
    fn obey(&mut self) -> bool {
        use std::io::Read;
        let mut seen = [0; 64];
        while (&self.wake).read(&mut seen).is_ok_and(|bytes| bytes > 0) {}
        loop {
            match self.commands.try_recv() {
                Ok(Command::Counters(told)) => {
                    let _ = told.send(self.counters());
                }
                Ok(Command::Share(sharing, from_ns, told)) => {
                    let _ = told.send(self.share_from(sharing, from_ns));
                }
                Ok(Command::Stop) | Err(mpsc::TryRecvError::Disconnected) => return true,
                Err(mpsc::TryRecvError::Empty) => return false,
            }
        }
    }

    fn counters(&mut self) -> Counters {
        self.hear_of_carriers();
        let ports = self.ports.iter_mut().map(Port::counted).collect();
        (ports, self.outputs.iter_mut().map(|output| output.uplink.counters()).collect())
    }
}

/// Has an interface know whether it has a carrier, wherever it is used.
fn set_carrier(
    outputs: &mut [Output],
    ports: &mut [Port],
    ifindex: u32,
    is_there: bool,
    now_ns: u64,
) {
    let uplinks = outputs.iter_mut().map(|output| &mut output.uplink);
    uplinks.filter(|one| one.ifindex() == ifindex).for_each(|one| one.set_carrier(is_there));
    for interface in ports.iter_mut().filter_map(Port::interface_mut) {
        interface.set_carrier(ifindex, is_there, now_ns);
    }
}

/// Else the kernel may let the thread sleep 50 us longer than it wants to, which is as long as the first
/// pause before a guest is signalled again, or before backlogs are looked at.
fn sleep_exactly() {
    // SAFETY: no pointers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

/// A guest's pipe whose reader is gone is an error, not the end of the process.
fn ignore_sigpipe() {
    // SAFETY: no handler is installed.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

#[cfg(test)]
mod tests;
