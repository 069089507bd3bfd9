//! A queue of frames, first in first out or under a packet scheduler.

use std::{collections::VecDeque, num::NonZeroU32};

use isolane_sched::{FlowSettings, Next, Packet, Scheduler};

use crate::engine::{frame::Frame, ids::FlowId};

/// A frame in a scheduler, with the flow it counts for there, plus one: `Option` then needs no space
/// of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queued {
    frame: Frame,
    flow_and_one: NonZeroU32,
    /// What it counts for.
    bytes: u32,
}

impl Packet for Queued {
    fn len_bytes(&self) -> u32 {
        self.bytes
    }

    fn flow(&self) -> u32 {
        self.flow_and_one.get() - 1
    }
}

#[derive(Debug)]
pub(crate) struct Scheduled {
    pub(crate) scheduler: Scheduler<Queued>,
    /// By traffic entry rather than by router.
    pub(crate) by_traffic: bool,
    /// Per flow.
    pub(crate) capacity: u32,
    pub(crate) len: usize,
    /// What each frame counts for besides its size.
    pub(crate) overhead_bytes: u32,
}

#[derive(Debug)]
pub(crate) enum Qdisc {
    Fifo { frames: VecDeque<Frame>, capacity: usize },
    Scheduled(Box<Scheduled>),
}

impl Scheduled {
    #[inline]
    fn flow_of(&self, frame: &Frame) -> u32 {
        if self.by_traffic { frame.flow.into() } else { frame.router.into() }
    }
}

impl Qdisc {
    pub(crate) fn fifo(capacity: u32) -> Self {
        let capacity = capacity as usize;
        Self::Fifo { frames: VecDeque::with_capacity(capacity), capacity }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Fifo { frames, .. } => frames.len(),
            Self::Scheduled(scheduled) => scheduled.len,
        }
    }

    /// Whether it was taken.
    #[inline]
    pub(super) fn enqueue(&mut self, frame: Frame, now_ns: u64) -> bool {
        match self {
            Self::Fifo { frames, capacity } => {
                let fits = frames.len() < *capacity;
                if fits {
                    frames.push_back(frame);
                }
                fits
            }
            Self::Scheduled(scheduled) => {
                let flow_and_one = NonZeroU32::MIN.saturating_add(scheduled.flow_of(&frame));
                let bytes = u32::from(frame.bytes) + scheduled.overhead_bytes;
                let queued = Queued { frame, flow_and_one, bytes };
                let fits = scheduled.scheduler.enqueue(queued, now_ns).is_ok();
                scheduled.len += usize::from(fits);
                fits
            }
        }
    }

    /// What goes next. Times must not go back.
    #[inline]
    pub(super) fn dequeue(&mut self, now_ns: u64) -> Next<Frame> {
        match self {
            Self::Fifo { frames, .. } => frames.pop_front().map_or(Next::Empty, Next::Packet),
            Self::Scheduled(scheduled) => match scheduled.scheduler.dequeue(now_ns) {
                Next::Packet(queued) => {
                    scheduled.len -= 1;
                    Next::Packet(queued.frame)
                }
                Next::Wait { until_ns } => Next::Wait { until_ns },
                Next::Empty => Next::Empty,
            },
        }
    }

    /// How many frames wait where this one would.
    pub(super) fn waiting(&self, frame: &Frame) -> usize {
        match self {
            Self::Fifo { frames, .. } => frames.len(),
            Self::Scheduled(scheduled) => {
                let queued = scheduled.scheduler.queued(scheduled.flow_of(frame));
                queued.map_or(0, |queued| queued as usize)
            }
        }
    }

    /// Whether a frame of this flow and router would be taken.
    #[inline]
    pub(super) fn has_space(&self, frame: &Frame) -> bool {
        match self {
            Self::Fifo { frames, capacity } => frames.len() < *capacity,
            Self::Scheduled(scheduled) => scheduled
                .scheduler
                .queued(scheduled.flow_of(frame))
                .is_some_and(|queued| queued < scheduled.capacity),
        }
    }

    pub(super) fn set(&mut self, flow: u32, settings: FlowSettings, now_ns: u64) {
        if let Self::Scheduled(scheduled) = self {
            let set = scheduled.scheduler.set(flow, settings, now_ns);
            set.expect("checked when the model was built");
        }
    }

    /// Takes everything out, whatever the scheduler would say, and tells each frame's flow.
    pub(super) fn drain(&mut self, mut tell: impl FnMut(FlowId)) {
        match self {
            Self::Fifo { frames, .. } => frames.drain(..).for_each(|frame| tell(frame.flow)),
            Self::Scheduled(scheduled) => {
                let mut now_ns = 0;
                loop {
                    match scheduled.scheduler.dequeue(now_ns) {
                        Next::Packet(queued) => tell(queued.frame.flow),
                        Next::Wait { until_ns: u64::MAX } | Next::Empty => break,
                        Next::Wait { until_ns } => now_ns = until_ns,
                    }
                }
            }
        }
    }
}
