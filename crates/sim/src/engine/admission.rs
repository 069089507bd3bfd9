//! Who is let into a queue: by room, by rate, by the CPU time of whoever serves it. What a demultiplexer looks
//! at before it spends anything on a frame (`bpf/demux.bpf.c`).

use isolane_sched::TokenBucket;

use super::{
    Engine,
    core::Context,
    ids::{ContextId, RouterId, Table, WorkerId},
    sources::Frame,
    worker::{Exit, Step, Work},
};

const SECOND_NS: i128 = 1_000_000_000;

/// For one router's frames.
#[derive(Debug)]
pub(crate) struct Admission {
    /// Frames that may wait.
    pub(crate) capacity: usize,
    /// Frames that may wait if none was refused for want of room lately.
    pub(crate) burst: usize,
    /// Lately, ns.
    pub(crate) calm_ns: u64,
    /// When one was refused for want of room.
    pub(crate) overflowed_ns: Option<u64>,
    /// A token is a frame, as a byte of the bucket.
    pub(crate) frames: Option<TokenBucket>,
    pub(crate) bytes: Option<TokenBucket>,
    /// What each frame takes on the wire besides its size.
    pub(crate) overhead_bytes: u32,
    pub(crate) budget: Option<Budget>,
}

/// CPU time that a context may use.
#[derive(Debug)]
pub(crate) struct Budget {
    pub(crate) context: ContextId,
    /// ns per second.
    pub(crate) rate_ns: u64,
    /// The most that is saved, ns.
    pub(crate) depth_ns: u64,
    /// ns / 10^9.
    pub(crate) left: i128,
    pub(crate) at_ns: u64,
    pub(crate) seen_ns: u64,
}

impl Budget {
    /// Whether there is time left.
    fn has_left(&mut self, contexts: &Table<ContextId, Context>, now_ns: u64) -> bool {
        let spent_ns = contexts[self.context].ran_ns();
        self.left += i128::from(now_ns - self.at_ns) * i128::from(self.rate_ns);
        self.left -= i128::from(spent_ns - self.seen_ns) * SECOND_NS;
        self.left = self.left.min(i128::from(self.depth_ns) * SECOND_NS);
        (self.at_ns, self.seen_ns) = (now_ns, spent_ns);
        self.left > 0
    }
}

impl Admission {
    /// Whether a frame is let in; its tokens are taken then.
    pub(crate) fn admits(
        &mut self,
        waiting: usize,
        frame: &Frame,
        contexts: &Table<ContextId, Context>,
        now_ns: u64,
    ) -> bool {
        self.has_room(waiting, now_ns)
            && self.frames.as_mut().is_none_or(|bucket| bucket.take(1, now_ns))
            && self.bytes.as_mut().is_none_or(|bucket| {
                bucket.take(u32::from(frame.bytes) + self.overhead_bytes, now_ns)
            })
            && self.budget.as_mut().is_none_or(|budget| budget.has_left(contexts, now_ns))
    }

    fn has_room(&mut self, waiting: usize, now_ns: u64) -> bool {
        let calm = self.overflowed_ns.is_none_or(|at_ns| now_ns - at_ns > self.calm_ns);
        let room = waiting < self.capacity || (calm && waiting < self.burst);
        if !room {
            self.overflowed_ns = Some(now_ns);
        }
        room
    }
}

/// What is known of a router here; nothing where all are welcome.
pub(crate) fn of<'a>(
    all: &'a mut Table<RouterId, Option<Box<Admission>>>,
    frame: &Frame,
) -> Option<&'a mut Admission> {
    all.get_mut(frame.router)?.as_deref_mut()
}

impl Engine {
    /// For a stage that looks before it works: the work of refusing the frame if there is no place for it
    /// behind the stage.
    pub(crate) fn refuse(
        &mut self,
        index: WorkerId,
        frame: Frame,
        drop_ps: u64,
        now_ns: u64,
    ) -> Option<Step> {
        let route = self.workers[index].routes[frame.router].as_ref();
        let Some(Exit::Queue(queue)) = route.map(|route| route.exit) else { return None };
        let room = self.queue_has_room(queue, &frame);
        let queue = &mut self.queues[queue];
        let let_in = room
            && of(&mut queue.admission, &frame).is_none_or(|admission| {
                admission.admits(queue.backlog.waiting(&frame), &frame, &self.contexts, now_ns)
            });
        if let_in {
            return None;
        }
        queue.entered += 1;
        let place = queue.drop_point;
        self.lose(frame, place, now_ns);
        let worker = &mut self.workers[index];
        worker.polled += 1;
        if let Some(route) = &mut worker.routes[frame.router] {
            route.refused += 1;
        }
        Some(Step::Work(Work::Refuse(index), worker.spend(drop_ps)))
    }
}
