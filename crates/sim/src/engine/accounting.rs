//! Frame accounting: what became of every frame. Each figure is counted by itself, and none is computed from
//! another, so that sums which do not match show a mistake.

use super::ids::{DropPointId, FlowId, StageId, Table};
use crate::histogram::{Coarse, Histogram};

/// A number of frames and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
}

impl Count {
    #[inline]
    fn add(&mut self, bytes: u16) {
        self.frames += 1;
        self.bytes += u64::from(bytes);
    }
}

/// The whole run's, or the window's.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally {
    pub(crate) offered: Count,
    pub(crate) received: Count,
    /// By drop point.
    pub(crate) drops: Table<DropPointId, u64>,
    /// Lost, and sent again: they are in `drops`, too.
    pub(crate) again: u64,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Bin {
    pub(crate) offered: u64,
    pub(crate) received: u64,
    pub(crate) received_bytes: u64,
}

/// Where in the bins a series of times is: no division per frame.
#[derive(Debug, Clone, Copy, Default)]
struct Cursor {
    bin: usize,
    end_ns: u64,
}

impl Cursor {
    #[inline]
    fn at(&mut self, now_ns: u64, bin_ns: u64, bins: usize) -> usize {
        if now_ns >= self.end_ns {
            let bin = usize::try_from(now_ns / bin_ns).unwrap_or(usize::MAX);
            self.bin = bin.min(bins - 1);
            self.end_ns = (self.bin as u64 + 1).saturating_mul(bin_ns);
        }
        self.bin
    }
}

#[derive(Debug, Clone)]
pub(crate) struct FlowAccount {
    pub(crate) total: Tally,
    pub(crate) window: Tally,
    pub(crate) delays: Histogram,
    /// By stage; only of stages on the way that capture.
    pub(crate) captures: Vec<(StageId, Histogram)>,
    pub(crate) bins: Vec<Bin>,
    /// By bin of their arrival.
    pub(crate) bin_delays: Vec<Coarse>,
    offered_at: Cursor,
    received_at: Cursor,
}

impl FlowAccount {
    /// One with as many drop points and bins, and nothing in it.
    pub(crate) fn empty_like(&self) -> Self {
        let tally = Tally { drops: Table::filled(0, self.total.drops.len()), ..Tally::default() };
        Self {
            total: tally.clone(),
            window: tally,
            delays: Histogram::default(),
            captures: Vec::new(),
            bins: vec![Bin::default(); self.bins.len()],
            bin_delays: vec![Coarse::default(); self.bins.len()],
            offered_at: Cursor::default(),
            received_at: Cursor::default(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct FrameAccounting {
    pub(crate) flows: Table<FlowId, FlowAccount>,
    pub(crate) window_ns: (u64, u64),
    bin_ns: u64,
}

impl FrameAccounting {
    pub(crate) fn new(
        flows: usize,
        drop_points: usize,
        window_ns: (u64, u64),
        bins_ns: Option<(u64, u64)>,
    ) -> Self {
        let bins = bins_ns.map_or(0, |(bin_ns, end_ns)| end_ns.div_ceil(bin_ns));
        let bins = usize::try_from(bins).unwrap_or(usize::MAX);
        let tally = Tally { drops: Table::filled(0, drop_points), ..Tally::default() };
        let flow = FlowAccount {
            total: tally.clone(),
            window: tally,
            delays: Histogram::default(),
            captures: Vec::new(),
            bins: vec![Bin::default(); bins],
            bin_delays: vec![Coarse::default(); bins],
            offered_at: Cursor::default(),
            received_at: Cursor::default(),
        };
        Self {
            flows: Table::filled(flow, flows),
            window_ns,
            bin_ns: bins_ns.map_or(u64::MAX, |(bin_ns, _)| bin_ns),
        }
    }

    /// A frame counts for the window if its first bit was sent in it, whenever it arrives.
    #[inline]
    fn in_window(&self, stamp_ns: u64) -> bool {
        stamp_ns >= self.window_ns.0 && stamp_ns < self.window_ns.1
    }

    #[inline]
    pub(crate) fn offer(&mut self, flow: FlowId, bytes: u16, now_ns: u64) {
        let in_window = self.in_window(now_ns);
        let account = &mut self.flows[flow];
        account.total.offered.add(bytes);
        if in_window {
            account.window.offered.add(bytes);
        }
        if !account.bins.is_empty() {
            let bin = account.offered_at.at(now_ns, self.bin_ns, account.bins.len());
            account.bins[bin].offered += 1;
        }
    }

    #[inline]
    pub(crate) fn receive(&mut self, flow: FlowId, bytes: u16, stamp_ns: u64, now_ns: u64) {
        let in_window = self.in_window(stamp_ns);
        let account = &mut self.flows[flow];
        account.total.received.add(bytes);
        if in_window {
            account.window.received.add(bytes);
            account.delays.add(now_ns - stamp_ns);
        }
        if !account.bins.is_empty() {
            let bin = account.received_at.at(now_ns, self.bin_ns, account.bins.len());
            account.bins[bin].received += 1;
            account.bins[bin].received_bytes += u64::from(bytes);
            account.bin_delays[bin].add(now_ns - stamp_ns);
        }
    }

    #[inline]
    pub(crate) fn drop_at(&mut self, drop_point: DropPointId, flow: FlowId, stamp_ns: u64) {
        let in_window = self.in_window(stamp_ns);
        let account = &mut self.flows[flow];
        account.total.drops[drop_point] += 1;
        if in_window {
            account.window.drops[drop_point] += 1;
        }
    }

    /// A request's frame is lost, and comes again.
    pub(crate) fn repeat(&mut self, drop_point: DropPointId, flow: FlowId) {
        let total = &mut self.flows[flow].total;
        total.drops[drop_point] += 1;
        total.again += 1;
    }

    pub(crate) fn capture(&mut self, stage: StageId, flow: FlowId, stamp_ns: u64, now_ns: u64) {
        if !self.in_window(stamp_ns) {
            return;
        }
        let captures = &mut self.flows[flow].captures;
        if let Some((_, histogram)) = captures.iter_mut().find(|(at, _)| *at == stage) {
            histogram.add(now_ns - stamp_ns);
        } else {
            let mut histogram = Histogram::default();
            histogram.add(now_ns - stamp_ns);
            captures.push((stage, histogram));
        }
    }
}
