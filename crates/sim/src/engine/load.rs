//! Load besides the traffic: computing, periodic work, disk requests.

use isolane_sched::Prng;

use super::{cpu::PS, ids::WorkerId};
use crate::{model::LoadKind, random::exponential_ns};

/// How long a computing process is left alone before it is asked whether it is to stop, ns.
const CHUNK_NS: u64 = 1_000_000;

#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) name: String,
    kind: LoadKind,
    pub(crate) worker: WorkerId,
    pub(crate) start_ns: u64,
    stop_ns: u64,
    prng: Prng,
    /// Pieces of work that wait.
    ready: u32,
    cpu_ps: u64,
    /// In the window, ns.
    pub(crate) done_ns: u64,
    /// The piece under way, ns.
    pub(crate) piece_ns: u64,
}

/// What follows a piece of a load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pause {
    /// When the next piece is there.
    pub(crate) until_ns: u64,
    /// Whether it blocks its context until then.
    pub(crate) blocks: bool,
}

impl Load {
    pub(crate) fn new(
        name: &str,
        kind: LoadKind,
        worker: WorkerId,
        times_ns: (u64, u64),
        prng: Prng,
    ) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            worker,
            start_ns: times_ns.0,
            stop_ns: times_ns.1,
            prng,
            ready: 0,
            cpu_ps: 0,
            done_ns: 0,
            piece_ns: 0,
        }
    }

    /// What a piece of it costs, if that is always the same.
    pub(crate) fn with_cost(mut self, cpu_ps: u64) -> Self {
        self.cpu_ps = cpu_ps;
        self
    }

    /// Its next piece of work: how long it takes, ns.
    #[inline]
    pub(super) fn next(&mut self, now_ns: u64) -> Option<u64> {
        if now_ns >= self.stop_ns || self.ready == 0 {
            return None;
        }
        self.piece_ns = match self.kind {
            LoadKind::Cpu => CHUNK_NS.min(self.stop_ns - now_ns),
            LoadKind::Periodic { .. } | LoadKind::Disk { .. } => {
                self.ready -= 1;
                self.cpu_ps / PS
            }
        };
        Some(self.piece_ns)
    }

    /// A piece of it is done.
    pub(super) fn finish(&mut self, now_ns: u64) -> Option<Pause> {
        self.done_ns += self.piece_ns;
        match self.kind {
            LoadKind::Cpu => None,
            LoadKind::Periodic { idle_ns, .. } => {
                let idle_ns = exponential_ns(&mut self.prng, idle_ns as f64);
                Some(Pause { until_ns: now_ns + idle_ns, blocks: false })
            }
            LoadKind::Disk { disk_ns, blocking_permille, .. } => {
                let blocks = self.prng.below(1_000) < blocking_permille;
                let until_ns = now_ns + exponential_ns(&mut self.prng, disk_ns as f64);
                Some(Pause { until_ns, blocks })
            }
        }
    }

    /// It begins, or a piece of work is there again; whether there is something to do.
    pub(super) fn wake(&mut self, now_ns: u64) -> bool {
        if now_ns >= self.stop_ns {
            return false;
        }
        self.ready += match self.kind {
            LoadKind::Disk { depth, .. } if now_ns == self.start_ns && self.ready == 0 => depth,
            _ => 1,
        };
        true
    }
}
