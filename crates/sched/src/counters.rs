//! Packet accounting: packets are conserved, and every drop has its reason.

/// Why a packet was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// At enqueue: its flow is not one of the scheduler's.
    NoSuchFlow,
    /// At enqueue: longer than [`MAX_PACKET_BYTES`](crate::MAX_PACKET_BYTES).
    TooLong,
    /// At enqueue: the queue was full (drop tail).
    QueueFull,
    /// At enqueue: all queues together were full.
    PoolFull,
    /// At dequeue: it was scheduled, but the output had no room, and nobody had looked.
    OutputFull,
}

impl DropReason {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::NoSuchFlow, Self::TooLong, Self::QueueFull, Self::PoolFull, Self::OutputFull];

    /// Whether it happens before the packet was queued.
    #[must_use]
    pub fn is_at_enqueue(self) -> bool {
        self != Self::OutputFull
    }
}

/// A number of packets and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Their lengths, bytes.
    pub bytes: u64,
}

impl Count {
    pub(crate) fn add(&mut self, bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(bytes);
    }

    pub(crate) fn subtract(&mut self, bytes: u32) {
        self.packets -= 1;
        self.bytes -= u64::from(bytes);
    }

    fn plus(self, other: Self) -> Self {
        Self { packets: self.packets + other.packets, bytes: self.bytes + other.bytes }
    }
}

/// What became of all packets since the beginning. Each number is counted where it happens; none
/// is computed from the others, so that [`Totals::is_conserved`] says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Handed to [`Scheduler::enqueue`](crate::Scheduler::enqueue).
    pub offered: Count,
    /// Handed out with room in the output.
    pub sent: Count,
    /// In the queues now.
    pub backlog: Count,
    pub(crate) dropped: [Count; DropReason::ALL.len()],
}

impl Totals {
    /// Dropped for this reason.
    #[must_use]
    pub fn dropped(&self, reason: DropReason) -> Count {
        self.dropped[reason as usize]
    }

    /// Dropped before they were queued, all reasons together.
    #[must_use]
    pub fn dropped_at_enqueue(&self) -> Count {
        self.sum(DropReason::is_at_enqueue)
    }

    /// Dropped after they were scheduled, all reasons together.
    #[must_use]
    pub fn dropped_at_dequeue(&self) -> Count {
        self.sum(|reason| !reason.is_at_enqueue())
    }

    /// Whether offered = sent + dropped at enqueue + dropped at dequeue + backlog, in packets and
    /// in bytes.
    #[must_use]
    pub fn is_conserved(&self) -> bool {
        let lost = self.dropped_at_enqueue().plus(self.dropped_at_dequeue());
        self.offered == self.sent.plus(lost).plus(self.backlog)
    }

    fn sum(&self, wanted: impl Fn(DropReason) -> bool) -> Count {
        DropReason::ALL
            .into_iter()
            .filter(|&reason| wanted(reason))
            .fold(Count::default(), |sum, reason| sum.plus(self.dropped(reason)))
    }
}

/// What became of one flow's packets. Reasons of drops are in [`Totals`] and with each drop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FlowCounters {
    /// Packets offered.
    pub offered: u64,
    /// Packets handed out with room in the output.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets dropped before they were queued.
    pub dropped_at_enqueue: u64,
    /// Packets dropped after they were scheduled.
    pub dropped_at_dequeue: u64,
    /// Packets in the queue now.
    pub backlog: u32,
}

impl FlowCounters {
    /// As [`Totals::is_conserved`], in packets.
    #[must_use]
    pub fn is_conserved(&self) -> bool {
        let lost = self.dropped_at_enqueue + self.dropped_at_dequeue;
        self.offered == self.sent + lost + u64::from(self.backlog)
    }
}
