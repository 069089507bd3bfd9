//! An uplink and the scheduler that decides whose frame it sends next.

use std::io;

use isolane_sched::{BackPressure, Config, FlowSettings, Handover, Kind, Packet, Scheduler};

use crate::{
    poller::{Interest, Poller},
    port::Port,
    staging::SLOTS,
    uplink::Uplink,
};

/// Frames sent in one round.
const BATCH: u32 = 256;

/// What an uplink is made of.
#[derive(Clone, Debug)]
pub struct UplinkSettings {
    /// Index of the interface.
    pub ifindex: u32,
    /// Who sends next.
    pub scheduler: Kind,
    /// Whether the interface's ring is looked at before a frame is scheduled.
    pub back_pressure: BackPressure,
}

/// A frame that lies in its port's staging area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Staged {
    flow: u32,
    bytes: u32,
}

impl Packet for Staged {
    fn flow(&self) -> u32 {
        self.flow
    }

    fn len_bytes(&self) -> u32 {
        self.bytes
    }
}

#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) uplink: Uplink,
    scheduler: Scheduler<Staged>,
    back_pressure: BackPressure,
    /// Flow of the scheduler -> port.
    ports: Vec<usize>,
    /// Frames wait for the interface.
    blocked: bool,
    /// Whether that is what the poller waits for.
    watched: bool,
    /// Frames wait for this time.
    until_ns: Option<u64>,
}

/// Between two tries to send by an interface that is down.
const AGAIN_NS: u64 = 10_000_000;

impl Output {
    pub(crate) fn open(settings: UplinkSettings, ports: Vec<usize>) -> io::Result<Self> {
        let flows = u32::try_from(ports.len().max(1)).map_err(|_| io::ErrorKind::InvalidInput)?;
        let slots = u32::try_from(SLOTS).expect("a few");
        let config = Config {
            flows,
            // With one queue for all it has to hold what all ports stage.
            queue_packets: slots * flows,
            pool_packets: slots * flows,
            kind: settings.scheduler,
        };
        let refused = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        Ok(Self {
            uplink: Uplink::open(settings.ifindex)?,
            scheduler: Scheduler::new(config).map_err(refused)?,
            back_pressure: settings.back_pressure,
            ports,
            blocked: false,
            watched: false,
            until_ns: None,
        })
    }

    /// Stages a frame of a port, which has space for it.
    pub(crate) fn stage(&mut self, port: &mut Port, number: usize, frame: &[u8], now_ns: u64) {
        let flow = self.flow(number);
        let bytes = u32::try_from(frame.len()).expect("a frame is shorter than 4 GiB");
        port.staging.push(frame);
        let queued = self.scheduler.enqueue(Staged { flow, bytes }, now_ns);
        debug_assert!(queued.is_ok(), "its queue is as long as the staging area");
    }

    /// Sends what may be sent. Returns the frames.
    pub(crate) fn send(&mut self, ports: &mut [Port], now_ns: u64) -> u32 {
        let mut sent = 0;
        (self.blocked, self.until_ns) = (false, None);
        while sent < BATCH {
            let free = u32::from(self.uplink.has_free_slot());
            match self.scheduler.hand_over(free, self.back_pressure, now_ns) {
                Handover::Packet(staged) => {
                    let port = &mut ports[self.ports[staged.flow as usize]];
                    let frame = port.staging.pop().expect("as many as were scheduled");
                    self.uplink.push(frame);
                    port.counters.sent += 1;
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
        self.uplink.flush();
        if self.uplink.is_stuck() {
            (self.blocked, self.until_ns) = (false, Some(now_ns + AGAIN_NS));
        }
        sent
    }

    /// Changes what a port is guaranteed.
    pub(crate) fn set(
        &mut self,
        port: usize,
        settings: FlowSettings,
        now_ns: u64,
    ) -> isolane_sched::Result<()> {
        let flow = self.flow(port);
        self.scheduler.set(flow, settings, now_ns)
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
