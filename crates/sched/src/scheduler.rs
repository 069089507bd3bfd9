//! The scheduler: queues, one discipline, packet accounting.

use crate::{
    config::{BackPressure, Config, FlowSettings, Kind},
    counters::{DropReason, FlowCounters, Totals},
    discipline::{Choice, Discipline},
    error::{Error, Result},
    packet::Packet,
    queues::{Queues, Sharing},
};

/// A packet that was dropped, given back to its owner, and why. It is counted already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dropped<P> {
    /// The packet.
    pub packet: P,
    /// Why.
    pub reason: DropReason,
}

/// Answer to "what goes next?".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next<P> {
    /// This packet.
    Packet(P),
    /// Packets are waiting, but none may go before this time; ask again then, or after the next
    /// enqueue or change of settings. `u64::MAX`: not before such a change.
    Wait {
        /// When, ns.
        until_ns: u64,
    },
    /// No packet is waiting.
    Empty,
}

/// Answer to "what goes next into an output with so much room?".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handover<P> {
    /// This packet; the output has room for it.
    Packet(P),
    /// This packet was scheduled and lost, because the output had no room.
    Lost(Dropped<P>),
    /// No room: nothing was scheduled.
    OutputFull,
    /// As [`Next::Wait`].
    Wait {
        /// When, ns.
        until_ns: u64,
    },
    /// As [`Next::Empty`].
    Empty,
}

/// A packet scheduler. Times are in ns since any fixed moment and must not go back.
#[derive(Debug, Clone)]
pub struct Scheduler<P> {
    queues: Queues<P>,
    discipline: Discipline,
    kind: Kind,
    settings: Vec<FlowSettings>,
}

impl<P: Packet> Scheduler<P> {
    /// A scheduler with empty queues, all flows at their default settings.
    pub fn new(config: Config) -> Result<Self> {
        config.check()?;
        let sharing = match config.kind {
            Kind::Fifo => Sharing::One,
            _ => Sharing::PerFlow,
        };
        Ok(Self {
            queues: Queues::new(&config, sharing),
            discipline: Discipline::new(&config),
            settings: vec![FlowSettings::default(); config.flows as usize],
            kind: config.kind,
        })
    }

    /// Queues a packet, or gives it back.
    #[inline]
    pub fn enqueue(&mut self, packet: P, now_ns: u64) -> std::result::Result<(), Dropped<P>> {
        match self.queues.push(packet) {
            Ok((list, was_empty)) => {
                if was_empty {
                    self.discipline.backlogged(&self.queues, list, now_ns);
                }
                Ok(())
            }
            Err((packet, reason)) => Err(Dropped { packet, reason }),
        }
    }

    /// What goes next into an output that has room.
    #[inline]
    pub fn dequeue(&mut self, now_ns: u64) -> Next<P> {
        match self.discipline.choose(&self.queues, now_ns) {
            Choice::Serve(list) => {
                let (packet, flow) = self.serve(list, now_ns);
                self.queues.count_sent(flow, packet.len_bytes());
                Next::Packet(packet)
            }
            Choice::Wait { until_ns } => Next::Wait { until_ns },
            Choice::Empty => Next::Empty,
        }
    }

    /// What goes next into an output that has room for `free_packets`: with back-pressure nothing is
    /// scheduled without room, without it what is scheduled may be lost.
    pub fn hand_over(
        &mut self,
        free_packets: u32,
        back_pressure: BackPressure,
        now_ns: u64,
    ) -> Handover<P> {
        if free_packets == 0 && back_pressure == BackPressure::On {
            return Handover::OutputFull;
        }
        match self.discipline.choose(&self.queues, now_ns) {
            Choice::Serve(list) => {
                let (packet, flow) = self.serve(list, now_ns);
                if free_packets > 0 {
                    self.queues.count_sent(flow, packet.len_bytes());
                    Handover::Packet(packet)
                } else {
                    self.queues.count_lost(flow, packet.len_bytes());
                    Handover::Lost(Dropped { packet, reason: DropReason::OutputFull })
                }
            }
            Choice::Wait { until_ns } => Handover::Wait { until_ns },
            Choice::Empty => Handover::Empty,
        }
    }

    /// Changes what a flow is guaranteed, from the next decision on; queued packets stay.
    pub fn set(&mut self, flow: u32, settings: FlowSettings, now_ns: u64) -> Result<()> {
        let Some(current) = self.settings.get_mut(flow as usize) else {
            let last = u32::try_from(self.settings.len() - 1).unwrap_or(u32::MAX);
            return Err(Error::NoSuchFlow { flow, last });
        };
        settings.check(&self.kind)?;
        *current = settings;
        self.discipline.set(&self.queues, flow, &settings, now_ns);
        Ok(())
    }

    /// What a flow is guaranteed.
    #[must_use]
    pub fn settings(&self, flow: u32) -> Option<&FlowSettings> {
        self.settings.get(flow as usize)
    }

    /// Its kind, as configured.
    #[must_use]
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// What became of all packets.
    #[must_use]
    pub fn totals(&self) -> &Totals {
        self.queues.totals()
    }

    /// What became of a flow's packets.
    #[must_use]
    pub fn counters(&self, flow: u32) -> Option<FlowCounters> {
        self.queues.counters(flow)
    }

    /// How many of a flow's packets are queued.
    #[inline]
    #[must_use]
    pub fn queued(&self, flow: u32) -> Option<u32> {
        self.queues.queued(flow)
    }

    /// Takes the list's head, and tells the discipline.
    #[inline]
    fn serve(&mut self, list: u32, now_ns: u64) -> (P, u32) {
        let (packet, flow) = self.queues.pop(list);
        self.discipline.served(&self.queues, list, packet.len_bytes(), now_ns);
        (packet, flow)
    }

    #[cfg(test)]
    pub(crate) fn discipline_mut(&mut self) -> &mut Discipline {
        &mut self.discipline
    }
}
