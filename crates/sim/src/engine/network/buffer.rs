//! Where frames wait: what rings, queues and ports have in common.

use crate::engine::frame::Frame;

/// How many frames came, and how many were there at once.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Occupancy {
    /// Frames that came, also those for which there was no room.
    pub(crate) entered: u64,
    /// Maximum number that were there at a time.
    pub(crate) max_len: usize,
}

/// Where frames wait.
pub(super) trait Buffer {
    /// Takes the frame if there is room.
    fn accept(&mut self, frame: Frame, now_ns: u64) -> bool;

    /// Frames that wait.
    fn len(&self) -> usize;

    fn occupancy(&self) -> Occupancy;

    fn occupancy_mut(&mut self) -> &mut Occupancy;

    /// Puts a frame in, and counts it; whether there was room.
    #[inline]
    fn put(&mut self, frame: Frame, now_ns: u64) -> bool {
        let taken = self.accept(frame, now_ns);
        let len = self.len();
        let occupancy = self.occupancy_mut();
        occupancy.entered += 1;
        // What was not taken does not make it longer than it was.
        occupancy.max_len = occupancy.max_len.max(len);
        taken
    }
}
