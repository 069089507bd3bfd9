//! A frame, as the simulator has it: what it counts for, not its bytes.

use super::ids::{ConnectionId, FlowId, Id, RouterId};

/// Later than anything.
pub(crate) const NEVER: u64 = u64::MAX;

/// A frame: 16 bytes, because it is copied from queue to queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame {
    /// When its first bit left its sender, ns; of a request when it was due.
    pub(crate) stamp_ns: u64,
    /// Entry of the traffic.
    pub(crate) flow: FlowId,
    pub(crate) router: RouterId,
    pub(crate) bytes: u16,
    pub(crate) mark: Mark,
}

/// What a frame belongs to besides, in two bytes: the sender's connection in whose socket buffer it is, or the
/// turn of a request that it is; or nothing, which is the first turn as well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Mark(i16);

impl Mark {
    /// Numbers of connections, and of turns, that a mark can tell apart.
    pub(crate) const MAX: usize = i16::MAX as usize;

    pub(crate) fn of_connection(id: ConnectionId) -> Self {
        Self(i16::try_from(id.index() + 1).expect("checked when the model was built"))
    }

    pub(crate) fn of_turn(number: usize) -> Self {
        Self(-i16::try_from(number).expect("checked when the model was built"))
    }

    #[inline]
    pub(crate) fn connection(self) -> Option<ConnectionId> {
        (self.0 > 0).then(|| ConnectionId::at(usize::from(self.0.unsigned_abs()) - 1))
    }

    /// Of a frame of requests.
    #[inline]
    pub(crate) fn turn(self) -> usize {
        usize::from(self.0.min(0).unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_small() {
        assert_eq!(size_of::<Frame>(), 16);
    }

    #[test]
    fn a_mark_is_a_connection_or_a_turn() {
        let last = ConnectionId::at(Mark::MAX - 1);
        assert_eq!(Mark::of_connection(last).connection(), Some(last));
        assert_eq!(Mark::of_connection(last).turn(), 0);
        assert_eq!(Mark::of_turn(Mark::MAX).turn(), Mark::MAX);
        assert_eq!(Mark::of_turn(7).connection(), None);
        assert_eq!((Mark::default().connection(), Mark::default().turn()), (None, 0));
        assert_eq!(Mark::of_turn(0), Mark::default());
    }
}
