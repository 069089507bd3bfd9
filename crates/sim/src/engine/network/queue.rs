//! A queue of frames that wait for a stage.

use super::{
    admission::Admissions,
    buffer::{Buffer, Occupancy},
    qdisc::Qdisc,
};
use crate::engine::{
    frame::Frame,
    ids::{BacklogId, WorkerId},
};

#[derive(Debug)]
pub(crate) struct Queue {
    pub(super) qdisc: Qdisc,
    /// Who serves it; none while no path leads through it.
    pub(super) worker: Option<WorkerId>,
    /// The backlog that decides when its frames are served, and how many may wait.
    pub(super) shared: Option<BacklogId>,
    /// Whether its stage looks for room behind it before it takes a frame.
    pub(super) back_pressure: bool,
    /// What it costs to wake who serves it.
    pub(super) notify_ps: u64,
    pub(super) admissions: Admissions,
    /// Workers that wait for room.
    pub(super) waiting: Vec<WorkerId>,
    occupancy: Occupancy,
}

impl Queue {
    pub(crate) fn new(qdisc: Qdisc, shared: Option<BacklogId>, admissions: Admissions) -> Self {
        Self {
            qdisc,
            worker: None,
            shared,
            back_pressure: false,
            notify_ps: 0,
            admissions,
            waiting: Vec::new(),
            occupancy: Occupancy::default(),
        }
    }

    /// With back-pressure, and what it costs to wake who serves it.
    pub(crate) fn with(mut self, back_pressure: bool, notify_ps: u64) -> Self {
        (self.back_pressure, self.notify_ps) = (back_pressure, notify_ps);
        self
    }
}

impl Buffer for Queue {
    #[inline]
    fn accept(&mut self, frame: Frame, now_ns: u64) -> bool {
        self.qdisc.enqueue(frame, now_ns)
    }

    #[inline]
    fn len(&self) -> usize {
        self.qdisc.len()
    }

    #[inline]
    fn occupancy(&self) -> Occupancy {
        self.occupancy
    }

    #[inline]
    fn occupancy_mut(&mut self) -> &mut Occupancy {
        &mut self.occupancy
    }
}
