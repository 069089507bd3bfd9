//! The books: what became of every frame. Nothing here is computed from something else here.

use crate::histogram::Histogram;

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
    /// By place.
    pub(crate) drops: Vec<u64>,
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
pub(crate) struct FlowBook {
    pub(crate) total: Tally,
    pub(crate) window: Tally,
    pub(crate) delays: Histogram,
    /// By stage; only of stages on the way that capture.
    pub(crate) captures: Vec<(usize, Histogram)>,
    pub(crate) bins: Vec<Bin>,
    offered_at: Cursor,
    received_at: Cursor,
}

impl FlowBook {
    /// One with as many places and bins, and nothing in it.
    pub(crate) fn empty_like(&self) -> Self {
        let tally = Tally { drops: vec![0; self.total.drops.len()], ..Tally::default() };
        Self {
            total: tally.clone(),
            window: tally,
            delays: Histogram::default(),
            captures: Vec::new(),
            bins: vec![Bin::default(); self.bins.len()],
            offered_at: Cursor::default(),
            received_at: Cursor::default(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Books {
    pub(crate) flows: Vec<FlowBook>,
    pub(crate) window_ns: (u64, u64),
    bin_ns: u64,
}

impl Books {
    pub(crate) fn new(
        flows: usize,
        places: usize,
        window_ns: (u64, u64),
        bins_ns: Option<(u64, u64)>,
    ) -> Self {
        let bins = bins_ns.map_or(0, |(bin_ns, end_ns)| end_ns.div_ceil(bin_ns));
        let tally = Tally { drops: vec![0; places], ..Tally::default() };
        let flow = FlowBook {
            total: tally.clone(),
            window: tally,
            delays: Histogram::default(),
            captures: Vec::new(),
            bins: vec![Bin::default(); usize::try_from(bins).unwrap_or(usize::MAX)],
            offered_at: Cursor::default(),
            received_at: Cursor::default(),
        };
        Self {
            flows: vec![flow; flows],
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
    pub(crate) fn offer(&mut self, flow: u16, bytes: u16, now_ns: u64) {
        let in_window = self.in_window(now_ns);
        let book = &mut self.flows[flow as usize];
        book.total.offered.add(bytes);
        if in_window {
            book.window.offered.add(bytes);
        }
        if !book.bins.is_empty() {
            let bin = book.offered_at.at(now_ns, self.bin_ns, book.bins.len());
            book.bins[bin].offered += 1;
        }
    }

    #[inline]
    pub(crate) fn receive(&mut self, flow: u16, bytes: u16, stamp_ns: u64, now_ns: u64) {
        let in_window = self.in_window(stamp_ns);
        let book = &mut self.flows[flow as usize];
        book.total.received.add(bytes);
        if in_window {
            book.window.received.add(bytes);
            book.delays.add(now_ns - stamp_ns);
        }
        if !book.bins.is_empty() {
            let bin = book.received_at.at(now_ns, self.bin_ns, book.bins.len());
            book.bins[bin].received += 1;
            book.bins[bin].received_bytes += u64::from(bytes);
        }
    }

    #[inline]
    pub(crate) fn drop_at(&mut self, place: usize, flow: u16, stamp_ns: u64) {
        let in_window = self.in_window(stamp_ns);
        let book = &mut self.flows[flow as usize];
        book.total.drops[place] += 1;
        if in_window {
            book.window.drops[place] += 1;
        }
    }

    pub(crate) fn capture(&mut self, stage: usize, flow: u16, stamp_ns: u64, now_ns: u64) {
        if !self.in_window(stamp_ns) {
            return;
        }
        let captures = &mut self.flows[flow as usize].captures;
        if let Some((_, histogram)) = captures.iter_mut().find(|(at, _)| *at == stage) {
            histogram.add(now_ns - stamp_ns);
        } else {
            let mut histogram = Histogram::default();
            histogram.add(now_ns - stamp_ns);
            captures.push((stage, histogram));
        }
    }
}
