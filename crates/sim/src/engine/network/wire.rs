//! A NIC's wire, updated lazily: its frames are put into their rings when something needs to know what is there.

use super::{
    line::Line,
    sources::{Feed, Source},
};
use crate::engine::{
    frame::{Frame, NEVER},
    ids::{FlowId, RingId},
};

/// A wire, with the sources that send on it.
#[derive(Debug)]
pub(crate) struct Wire {
    feed: Feed<RingId>,
    line: Line,
    latency_ns: u64,
    /// When the latest transmission ends.
    free_ns: u64,
    /// When the next frame is in its ring.
    due_ns: u64,
}

impl Wire {
    pub(crate) fn new(line: Line, latency_ns: u64) -> Self {
        Self { feed: Feed::default(), line, latency_ns, free_ns: 0, due_ns: NEVER }
    }

    pub(super) fn add_source(&mut self, source: Source<RingId>) {
        self.feed.add(source);
    }

    pub(super) fn set_rate(&mut self, flow: FlowId, rate_millipps: u64) {
        self.feed.set_rate(flow, rate_millipps);
    }

    /// After all sources are there.
    pub(super) fn begin(&mut self) {
        self.feed.sort();
        self.plan();
    }

    fn plan(&mut self) {
        let next_ns = self.feed.next_ns();
        self.due_ns =
            if next_ns == NEVER { NEVER } else { self.arrival_ns(next_ns, self.feed.next_bytes()) };
    }

    /// The earliest time at which a frame that is due then could be in its ring.
    fn arrival_ns(&self, due_ns: u64, bytes: u16) -> u64 {
        due_ns.max(self.free_ns) + self.line.at_least_ns(bytes) + self.latency_ns
    }

    /// A lower bound for this ring's next frame. Nothing comes before what is first on the wire.
    pub(super) fn next_for(&self, ring: RingId) -> Option<u64> {
        let (due_ns, bytes) = self.feed.next_for(ring)?;
        Some(self.arrival_ns(due_ns, bytes).max(self.due_ns))
    }

    /// The next frame that is in its ring by now: it, its ring, and when it came.
    #[inline]
    pub(super) fn next_arrival(&mut self, now_ns: u64) -> Option<(Frame, RingId, u64)> {
        (self.due_ns <= now_ns).then(|| self.send())
    }

    #[inline]
    fn send(&mut self) -> (Frame, RingId, u64) {
        let (mut frame, ring) = self.feed.pop();
        // The sender's time stamp is that of the first bit.
        frame.stamp_ns = frame.stamp_ns.max(self.free_ns);
        self.free_ns = frame.stamp_ns + self.line.transmission_ns(frame.bytes);
        let arrival_ns = self.free_ns + self.latency_ns;
        self.plan();
        (frame, ring, arrival_ns)
    }
}
