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
    handle::{Command, Counters, Handle},
    output::{Output, Planned, UplinkSettings},
    poller::{Interest, Poller},
    port::Port,
    segmentation::MAX_MERGED_BYTES,
    sharing::{Refused, Sharing},
    staging::{SLOTS, frames_of},
    token::{CARRIER, COMMAND, INTERFACE, LISTENER, UPLINK, token},
};

mod waiting;

/// Frames taken from one guest before the next one's turn.
const GUEST_BATCH: u32 = 64;
/// Rounds of work between two looks at sockets.
const ROUNDS: u32 = 64;
/// Rounds of work between two looks at carriers: an interface that has lost its own drops what it is given.
const CARRIER_ROUNDS: u32 = 8;

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
    /// A back-end with these uplinks and ports.
    pub fn new(
        uplinks: Vec<UplinkSettings>,
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
        for (number, (uplink, link)) in uplinks.into_iter().zip(&sharing.links).enumerate() {
            let flows: Vec<usize> =
                (0..settings.len()).filter(|&port| settings[port].uplink == number).collect();
            let output = Output::open(uplink, link, flows)?;
            carriers.ask(output.uplink.ifindex())?;
            poller.add(output.uplink.readable(), token(UPLINK, number), Interest::Read)?;
            for socket in output.uplink.also_readable() {
                poller.add(socket, token(UPLINK, number), Interest::Read)?;
            }
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
        for (port, gate) in outputs.iter().flat_map(Output::gates) {
            opened[port].gate = Some(gate);
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
        let Output { uplink, admission, .. } = &mut outputs[number];
        let mut taken = 0;
        let moved = uplink.receive(|frame, header| {
            if frame.len() < MIN_FRAME_BYTES {
                return true;
            }
            taken += 1;
            let owner = delivery.forwarding.owner(number, frame);
            match (owner, &admission) {
                (Some((port, _)), Some(_)) => delivery.ports[port].took(),
                (None, Some(admission)) => admission.took_other(),
                (_, None) => {}
            }
            delivery.arrived(from, owner, frame, header)
        });
        if let Some(admission) = admission {
            admission.took(taken, now_ns);
        }
        moved
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
        let owner = delivery.forwarding.owner(origin.uplink, &frame[..bytes]);
        let work = delivery.work(origin, owner, &mut frame[..bytes], header);
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
        (ports, self.outputs.iter_mut().map(Output::counters).collect())
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
