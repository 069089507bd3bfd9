//! Workers: what takes frames from one place, works on them, and puts them into the next. A worker is a
//! stage with a ring or a queue, together with the stages that follow it without one; or a
//! connection of a sender; or a load. Here is what each does and what that costs; when it does it, and where its
//! frames come from and go, is in [`super::frame_path`].

use std::ops::{Index, IndexMut};

use super::{
    cpu::PS,
    frame::{Frame, NEVER},
    ids::{
        BacklogId, ConnectionId, FlowId, LoadId, QueueId, RingId, RouterId, StageId, Table,
        WorkerId,
    },
    load::Load,
    network::Output,
    senders::Connection,
};

/// Where a worker's frames come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    Ring(RingId),
    Queue(QueueId),
    /// A backlog that several stages share.
    Backlog(BacklogId),
    Connection(ConnectionId),
    Load(LoadId),
}

/// What a worker does with a router's frames: the stages of the path from one queue to the next.
#[derive(Debug, Clone)]
pub(crate) struct Segment {
    pub(crate) frame_ps: u64,
    pub(crate) byte_ps: u64,
    pub(crate) cold_ps: u64,
    /// The first stage looks for room behind it before it works; a frame without costs this.
    pub(crate) drop_ps: Option<u64>,
    pub(crate) output: Output,
    /// The stages in it.
    pub(crate) stages: Vec<StageId>,
    /// Those of them that capture.
    pub(crate) captures: Vec<StageId>,
    pub(crate) account: SegmentAccount,
}

/// CPU accounting of a segment, in the window.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SegmentAccount {
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
    pub(crate) cache_misses: u64,
    /// Not in `frames`.
    pub(crate) refused: u64,
}

impl Segment {
    #[inline]
    fn cost_ps(&self, frame: &Frame) -> u64 {
        self.frame_ps + self.byte_ps * u64::from(frame.bytes)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Worker {
    pub(crate) input: Input,
    pub(crate) batch: u32,
    pub(crate) poll_ps: u64,
    pub(crate) segments: Table<RouterId, Option<Segment>>,
    /// The first stage; none for a load.
    pub(crate) stage: Option<StageId>,
    /// Frames of this poll so far.
    polled: u32,
    /// The frame at hand.
    frame: Option<Frame>,
    /// Whether it finds caches cold.
    cache_miss: bool,
    /// Whether the cost of waking the next context is part of it.
    wake_up_charged: bool,
    /// Part of a ns not yet spent.
    remainder_ps: u64,
    /// Deferred cost: work that must be done before the next frame, waking others.
    deferred_ps: u64,
    /// When it is woken at the latest, if that is planned.
    retry_ns: u64,
    pub(crate) account: WorkerAccount,
}

/// CPU accounting of a worker, in the window.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct WorkerAccount {
    pub(crate) polls: u64,
    pub(crate) notify_ps: u64,
}

impl Worker {
    pub(crate) fn new(input: Input, batch: u32, routers: usize) -> Self {
        Self {
            input,
            batch,
            poll_ps: 0,
            segments: Table::filled(None, routers),
            stage: None,
            polled: 0,
            frame: None,
            cache_miss: false,
            wake_up_charged: false,
            remainder_ps: 0,
            deferred_ps: 0,
            retry_ns: NEVER,
            account: WorkerAccount::default(),
        }
    }

    /// What it does with this router's frames.
    #[inline]
    pub(super) fn segment(&self, router: RouterId) -> &Segment {
        self.segments[router].as_ref().expect("frames follow paths")
    }

    #[inline]
    fn segment_mut(&mut self, router: RouterId) -> &mut Segment {
        self.segments[router].as_mut().expect("frames follow paths")
    }

    /// Whole ns of this cost; the rest is carried.
    #[inline]
    fn spend(&mut self, cost_ps: u64) -> u64 {
        let ps = cost_ps + self.remainder_ps;
        self.remainder_ps = ps % PS;
        ps / PS
    }

    /// A poll begins: what it costs by itself, ns.
    #[inline]
    pub(super) fn begin_poll(&mut self) -> Option<u64> {
        self.polled = 0;
        self.account.polls += 1;
        (self.poll_ps > 0).then(|| self.spend(self.poll_ps))
    }

    /// What a poll of the backlog that it is part of lets it do is a poll of its own.
    #[inline]
    pub(super) fn poll_for_backlog(&mut self) {
        self.polled = 0;
    }

    /// A frame or a piece of a load counts for this poll.
    #[inline]
    pub(super) fn count(&mut self) {
        self.polled += 1;
    }

    #[inline]
    pub(super) fn polled(&self) -> u32 {
        self.polled
    }

    /// Whether this poll has taken all that a poll may take.
    #[inline]
    pub(super) fn is_batch_full(&self) -> bool {
        self.polled >= self.batch
    }

    /// Work that must be done before the next frame, ns.
    #[inline]
    pub(super) fn pay_deferred(&mut self) -> Option<u64> {
        if self.deferred_ps == 0 {
            return None;
        }
        self.account.notify_ps += self.deferred_ps;
        let deferred_ps = std::mem::take(&mut self.deferred_ps);
        Some(self.spend(deferred_ps))
    }

    /// Takes on a frame: what it costs, ns. `notify_ps`: waking the next context, if that is asleep; `finds_cold`:
    /// whether caches are cold, asked only where that costs something.
    #[inline]
    pub(super) fn take_on(
        &mut self,
        frame: Frame,
        notify_ps: u64,
        finds_cold: impl FnOnce() -> bool,
    ) -> u64 {
        let segment = self.segment(frame.router);
        let (mut cost_ps, cold_ps) = (segment.cost_ps(&frame) + notify_ps, segment.cold_ps);
        self.polled += 1;
        self.frame = Some(frame);
        self.wake_up_charged = notify_ps > 0;
        self.account.notify_ps += notify_ps;
        if cold_ps > 0 {
            self.cache_miss = finds_cold();
            cost_ps += if self.cache_miss { cold_ps } else { 0 };
        }
        self.spend(cost_ps)
    }

    /// Refuses a frame for which there is no room: what that costs, ns.
    #[inline]
    pub(super) fn refuse(&mut self, router: RouterId, drop_ps: u64) -> u64 {
        self.polled += 1;
        self.segment_mut(router).account.refused += 1;
        self.spend(drop_ps)
    }

    /// The frame at hand is done: it, and what was done with it.
    #[inline]
    pub(super) fn finish(&mut self) -> (Frame, &Segment) {
        let frame = self.frame.take().expect("work on a frame has one");
        let cache_miss = std::mem::take(&mut self.cache_miss);
        let segment = self.segment_mut(frame.router);
        segment.account.frames += 1;
        segment.account.bytes += u64::from(frame.bytes);
        segment.account.cache_misses += u64::from(cache_miss);
        (frame, segment)
    }

    /// It has woken the next context: paid before its next frame, unless it was charged with the one before.
    #[inline]
    pub(super) fn defer_wake_up(&mut self, notify_ps: u64) {
        if !self.wake_up_charged {
            self.deferred_ps += notify_ps;
        }
    }

    /// It is to be woken then: whether that is not planned already.
    #[inline]
    pub(super) fn plan_retry(&mut self, at_ns: u64) -> bool {
        let is_new = at_ns != NEVER && self.retry_ns != at_ns;
        if is_new {
            self.retry_ns = at_ns;
        }
        is_new
    }

    /// It is woken now, as was planned.
    pub(super) fn retry(&mut self, now_ns: u64) {
        if self.retry_ns == now_ns {
            self.retry_ns = NEVER;
        }
    }

    /// What the frame at hand costs in all, without waking others, ns.
    pub(super) fn frame_ns(&self) -> u64 {
        let frame = self.frame.as_ref().expect("work on a frame has one");
        let segment = self.segment(frame.router);
        (segment.cost_ps(frame) + if self.cache_miss { segment.cold_ps } else { 0 }) / PS
    }
}

/// All workers, with what they work for: each found by its own kind of number.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    all: Table<WorkerId, Worker>,
    connections: Table<ConnectionId, Connection>,
    loads: Table<LoadId, Load>,
}

impl Workers {
    pub(super) fn add(&mut self, worker: Worker) -> WorkerId {
        self.all.push(worker)
    }

    pub(crate) fn add_connection(&mut self, connection: Connection) {
        self.connections.push(connection);
    }

    pub(crate) fn add_load(&mut self, load: Load) {
        self.loads.push(load);
    }

    pub(crate) fn workers(&self) -> &Table<WorkerId, Worker> {
        &self.all
    }

    pub(crate) fn connections(&self) -> &Table<ConnectionId, Connection> {
        &self.connections
    }

    pub(crate) fn loads(&self) -> &Table<LoadId, Load> {
        &self.loads
    }

    /// The window begins.
    pub(super) fn begin_window(&mut self) {
        for worker in &mut self.all {
            worker.account = WorkerAccount::default();
            for segment in worker.segments.iter_mut().flatten() {
                segment.account = SegmentAccount::default();
            }
        }
        for load in &mut self.loads {
            load.done_ns = 0;
        }
    }

    pub(super) fn set_rate(&mut self, flow: FlowId, rate_millipps: u64) {
        for connection in &mut self.connections {
            connection.set_rate(flow, rate_millipps);
        }
    }

    /// Takes out the frames that are worked on, and tells their flows.
    pub(super) fn drain(&mut self, tell: &mut impl FnMut(FlowId)) {
        for worker in &mut self.all {
            if let Some(frame) = worker.frame.take() {
                tell(frame.flow);
            }
        }
    }
}

macro_rules! found_by {
    ($($id:ident: $table:ident of $row:ident),*) => {$(
        impl Index<$id> for Workers {
            type Output = $row;

            #[inline]
            fn index(&self, id: $id) -> &$row {
                &self.$table[id]
            }
        }

        impl IndexMut<$id> for Workers {
            #[inline]
            fn index_mut(&mut self, id: $id) -> &mut $row {
                &mut self.$table[id]
            }
        }
    )*};
}

found_by!(WorkerId: all of Worker, ConnectionId: connections of Connection, LoadId: loads of Load);
