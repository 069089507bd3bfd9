//! A frame, as the simulator has it: what it counts for, not its bytes.

use super::ids::{ConnectionId, FlowId, RouterId};

/// Later than anything.
pub(crate) const NEVER: u64 = u64::MAX;

/// A frame: 16 bytes, because it is copied from queue to queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame {
    /// When its first bit left its sender, ns.
    pub(crate) stamp_ns: u64,
    /// Entry of the traffic.
    pub(crate) flow: FlowId,
    pub(crate) router: RouterId,
    pub(crate) bytes: u16,
    /// The sender's connection in whose socket buffer it is.
    pub(crate) connection: Option<ConnectionId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_small() {
        assert_eq!(size_of::<Frame>(), 16);
    }
}
