//! An uplink and the scheduler that decides whose frame it sends next.

use std::io;

use isolane_sched::{BackPressure, Config, FlowSettings, Handover, Kind, Packet, Scheduler};

use crate::{
    NetHeader, UplinkCounters,
    admission::{Admission, AdmissionProgram, Gate},
    interface::{Interface, UPLINK_SLOTS},
    poller::{Interest, Poller},
    port::Port,
    sharing::{LinkSettings, Pace, Refused, wire_bytes},
    staging::SLOTS,
    xdp_socket::XdpSocket,
};

/// A frame that waits for its turn; where, the flow says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Staged {
    pub(crate) flow: u32,
    pub(crate) wire_bytes: u32,
}

impl Packet for Staged {
    fn flow(&self) -> u32 {
        self.flow
    }

    fn len_bytes(&self) -> u32 {
        self.wire_bytes
    }
}

/// A scheduler without frames, with the settings that it is to have.
pub(crate) type Planned = Scheduler<Staged>;

/// What an uplink is made of.
#[derive(Debug)]
pub struct UplinkSettings {
    /// Index of the interface in the calling thread's network namespace.
    pub ifindex: u32,
    /// Decides what is let in; None: all is, until the ring is full.
    pub program: Option<AdmissionProgram>,
    /// Hand over frames that the kernel has made no packets of.
    pub sockets: Vec<XdpSocket>,
}

#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) uplink: Interface,
    /// What it lets in; None: all.
    pub(crate) admission: Option<Admission>,
    scheduler: Scheduler<Staged>,
    back_pressure: BackPressure,
    pace: Pace,
    /// Flow of the scheduler -> port.
    ports: Vec<usize>,
    /// Frames sent in one round: half of what one port stages, so that none with more in its guest's
    /// ring runs dry meanwhile, and loses its turn and what it is owed. With many ports a round costs
    /// more, and sends more.
    batch: u32,
    /// Frames wait for the interface.
    blocked: bool,
    /// Whether that is what the poller waits for.
    watched: bool,
    /// Frames wait for this time.
    until_ns: Option<u64>,
}

/// Between two tries to send by an interface that is said to be up and is not, and by one that is full.
const AGAIN_NS: u64 = 10_000_000;
pub(crate) const FULL_NS: u64 = 100_000;

impl Output {
    /// Sends by an interface, for these ports, which have no settings yet.
    pub(crate) fn open(
        settings: UplinkSettings,
        link: &LinkSettings,
        ports: Vec<usize>,
    ) -> io::Result<Self> {
        let refused = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        let mut uplink = Interface::new(UPLINK_SLOTS)?;
        let admission = settings.program.as_ref().map(|program| {
            uplink.filter_by(&program.filter)?;
            Admission::new(&program.entries, ports.len(), UPLINK_SLOTS.receive)
        });
        let admission = admission.transpose()?;
        uplink.bind(settings.ifindex)?;
        uplink.take_from(settings.sockets);
        Ok(Self {
            uplink,
            admission,
            scheduler: scheduler(&link.scheduler, ports.len()).map_err(refused)?,
            back_pressure: link.back_pressure,
            pace: Pace::new(link, 0),
            batch: u32::try_from(ports.len().max(SLOTS / 2)).expect("ports are few"),
            ports,
            blocked: false,
            watched: false,
            until_ns: None,
        })
    }

    /// What its uplink lets in for each of its ports, by their number.
    pub(crate) fn gates(&self) -> Vec<(usize, Gate)> {
        let gates = self.admission.iter().flat_map(|admission| {
            self.ports.iter().enumerate().map(|(flow, &port)| (port, admission.gate(flow)))
        });
        gates.collect()
    }

    /// What became of its uplink's frames so far.
    pub(crate) fn counters(&mut self) -> UplinkCounters {
        let mut counters = self.uplink.counters();
        if let Some(admission) = &self.admission {
            counters.received += admission.refused();
            counters.ring_full += admission.refused_others();
        }
        counters
    }

    /// Stages a frame of a port, which has space for it.
    pub(crate) fn stage(&mut self, port: &mut Port, number: usize, frame: &[u8], now_ns: u64) {
        let flow = self.flow(number);
        port.staging.push(frame);
        enqueue(&mut self.scheduler, flow, frame.len(), now_ns);
    }

    /// Sends what may be sent. Returns the frames.
    pub(crate) fn send(&mut self, ports: &mut [Port], now_ns: u64) -> u32 {
        let mut sent = 0;
        (self.blocked, self.until_ns) = (false, None);
        while sent < self.batch {
            let free_ns = self.pace.free_ns(now_ns);
            if free_ns > now_ns && self.back_pressure == BackPressure::On {
                let waits = self.scheduler.totals().backlog.packets > 0;
                self.until_ns = waits.then_some(free_ns);
                break;
            }
            let free = u32::from(free_ns <= now_ns && self.uplink.takes_frames());
            match self.scheduler.hand_over(free, self.back_pressure, now_ns) {
                Handover::Packet(staged) => {
                    let port = &mut ports[self.ports[staged.flow as usize]];
                    let frame = port.staging.pop().expect("as many as were scheduled");
                    self.uplink.push(frame, NetHeader::NONE);
                    self.pace.sent(staged.wire_bytes, now_ns);
                    port.counters.sent += 1;
                    port.counters.link_bytes += u64::from(staged.wire_bytes);
                }
                Handover::Lost(lost) => {
                    let port = &mut ports[self.ports[lost.packet.flow as usize]];
                    let _ = port.staging.pop();
                    port.counters.output_full += 1;
                }
                Handover::OutputFull => {
                    self.blocked = true;
                    break;
                }
                Handover::Wait { until_ns } => {
                    self.until_ns = Some(until_ns);
                    break;
                }
                Handover::Empty => break,
            }
            sent += 1;
        }
        // Whoever sent a whole batch comes again before anybody rests.
        if sent < self.batch {
            self.uplink.flush();
        }
        if !self.uplink.has_carrier() {
            self.blocked = false; // the kernel tells when it has one
        } else if self.uplink.is_stuck() {
            (self.blocked, self.until_ns) = (false, Some(now_ns + AGAIN_NS));
        } else if self.uplink.is_full() {
            (self.blocked, self.until_ns) = (false, Some(now_ns + FULL_NS));
        }
        sent
    }

    /// What sends as told, for ports with these settings; empty.
    pub(crate) fn planned(
        &self,
        link: &LinkSettings,
        settings: &[FlowSettings],
        now_ns: u64,
    ) -> Result<Planned, Refused> {
        let refused = |port| move |why| Refused::Port { port, why };
        let first = self.ports.first().copied().unwrap_or(0);
        let mut planned = scheduler(&link.scheduler, self.ports.len()).map_err(refused(first))?;
        for &port in &self.ports {
            planned.set(self.flow(port), settings[port], now_ns).map_err(refused(port))?;
        }
        Ok(planned)
    }

    /// Sends like this from now on; `planned` is of the same settings. Frames that are staged stay.
    pub(crate) fn change(
        &mut self,
        link: &LinkSettings,
        planned: Planned,
        ports: &[Port],
        now_ns: u64,
    ) {
        self.back_pressure = link.back_pressure;
        self.pace.change(link, now_ns);
        if self.scheduler.kind().name() == planned.kind().name() {
            for flow in 0..self.ports.len().try_into().expect("checked when it was opened") {
                let settings = *planned.settings(flow).expect("as many flows");
                self.scheduler.set(flow, settings, now_ns).expect("the planned one took them");
            }
            return;
        }
        self.scheduler = planned;
        // Each port's oldest frame first: in which order they came is known of each port alone.
        for slot in 0..SLOTS {
            for (flow, &port) in (0..).zip(&self.ports) {
                if let Some(bytes) = ports[port].staging.length(slot) {
                    enqueue(&mut self.scheduler, flow, bytes, now_ns);
                }
            }
        }
    }

    /// When the scheduler lets go of the next frame; None: nothing waits for a time.
    pub(crate) fn sends_at_ns(&self) -> Option<u64> {
        self.until_ns
    }

    /// Has the poller wait for the interface exactly while frames wait for it.
    pub(crate) fn watch(&mut self, poller: &Poller, number: u64) -> io::Result<()> {
        let wanted = self.blocked;
        if wanted != self.watched {
            let interest = if wanted { Interest::ReadAndWrite } else { Interest::Read };
            poller.change(self.uplink.readable(), number, interest)?;
            self.watched = wanted;
        }
        Ok(())
    }

    fn flow(&self, port: usize) -> u32 {
        let flow = self.ports.binary_search(&port).expect("only its own ports are asked for");
        u32::try_from(flow).expect("checked when it was opened")
    }
}

/// An empty scheduler for so many ports.
fn scheduler(kind: &Kind, ports: usize) -> isolane_sched::Result<Scheduler<Staged>> {
    let flows = u32::try_from(ports.max(1)).expect("ports are few");
    let slots = u32::try_from(SLOTS).expect("a few");
    Scheduler::new(Config {
        flows,
        // With one queue for all it has to hold what all ports stage.
        queue_packets: slots * flows,
        pool_packets: slots * flows,
        kind: kind.clone(),
    })
}

fn enqueue(scheduler: &mut Scheduler<Staged>, flow: u32, frame_bytes: usize, now_ns: u64) {
    let bytes = u32::try_from(frame_bytes).expect("a frame is shorter than 4 GiB");
    let queued = scheduler.enqueue(Staged { flow, wire_bytes: wire_bytes(bytes) }, now_ns);
    debug_assert!(queued.is_ok(), "its queue is as long as the staging area");
}
