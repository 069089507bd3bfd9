//! Load besides the traffic: computing, periodic work, disk requests.

use isolane_sched::Prng;

use super::{
    Engine,
    events::Event,
    ids::{LoadId, WorkerId},
    worker::{PS, Step, Work},
};
use crate::{model::LoadKind, random::exponential_ns};

/// How long a computing process is left alone before it is asked whether it is to stop, ns.
const CHUNK_NS: u64 = 1_000_000;

#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) name: String,
    pub(crate) kind: LoadKind,
    pub(crate) worker: WorkerId,
    pub(crate) start_ns: u64,
    pub(crate) stop_ns: u64,
    pub(crate) prng: Prng,
    /// Pieces of work that wait.
    pub(crate) ready: u32,
    pub(crate) cpu_ps: u64,
    /// In the window, ns.
    pub(crate) done_ns: u64,
    /// The piece under way, ns.
    pub(crate) piece_ns: u64,
}

impl Engine {
    /// Its next piece of work.
    #[inline]
    pub(crate) fn next_load(&mut self, index: LoadId, now_ns: u64) -> Step {
        let load = &mut self.loads[index];
        if now_ns >= load.stop_ns || load.ready == 0 {
            return Step::Over;
        }
        load.piece_ns = match load.kind {
            LoadKind::Cpu => CHUNK_NS.min(load.stop_ns - now_ns),
            LoadKind::Periodic { .. } | LoadKind::Disk { .. } => {
                load.ready -= 1;
                load.cpu_ps / PS
            }
        };
        let piece_ns = load.piece_ns;
        self.workers[load.worker].polled += 1;
        Step::Work(Work::Load(index), piece_ns)
    }

    pub(crate) fn finish_load(&mut self, index: LoadId, now_ns: u64) {
        let load = &mut self.loads[index];
        load.done_ns += load.piece_ns;
        match load.kind {
            LoadKind::Cpu => {}
            LoadKind::Periodic { idle_ns, .. } => {
                let idle_ns = exponential_ns(&mut load.prng, idle_ns as f64);
                self.events.push(now_ns + idle_ns, Event::Load(index));
            }
            LoadKind::Disk { disk_ns, blocking_permille, .. } => {
                let blocks = load.prng.below(1_000) < blocking_permille;
                let back_ns = now_ns + exponential_ns(&mut load.prng, disk_ns as f64);
                self.events.push(back_ns, Event::Load(index));
                if blocks {
                    self.events.push(back_ns, Event::Unblock(index));
                    let context = self.workers[self.loads[index].worker].context;
                    self.contexts[context].blocked += 1;
                }
            }
        }
    }

    /// It begins, or a piece of work is there again.
    pub(crate) fn load_due(&mut self, index: LoadId, now_ns: u64) {
        let load = &mut self.loads[index];
        if now_ns >= load.stop_ns {
            return;
        }
        load.ready += match load.kind {
            LoadKind::Disk { depth, .. } if now_ns == load.start_ns && load.ready == 0 => depth,
            _ => 1,
        };
        let worker = load.worker;
        self.raise(worker, now_ns);
    }

    pub(crate) fn unblock(&mut self, index: LoadId, now_ns: u64) {
        let context = self.workers[self.loads[index].worker].context;
        self.contexts[context].blocked -= 1;
        if self.contexts[context].has_work() {
            self.rouse(context, now_ns);
        }
    }
}
