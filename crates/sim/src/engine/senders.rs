//! Processes that send: a connection each, with a socket buffer.

use super::{
    frame::{Frame, Mark},
    ids::{ConnectionId, FlowId, RouterId, WorkerId},
    network::sources::{Pace, Sizes},
};

/// A connection of a sender.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) worker: WorkerId,
    pub(crate) flow: FlowId,
    pub(crate) router: RouterId,
    pub(crate) sizes: Sizes,
    /// Sent, but not yet out of the socket buffer.
    pub(crate) in_flight: u32,
    /// Frames that the socket buffer holds.
    pub(crate) window: u32,
    pub(crate) released_when_sent: bool,
    pub(crate) pace: Option<Pace>,
    pub(crate) catch_up_ns: u64,
    /// When it wants to send next.
    pub(crate) due_ns: u64,
    pub(crate) stop_ns: u64,
    /// The next frame's size.
    pub(crate) bytes: u16,
}

/// Whether a connection can send.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sending {
    /// This frame, if there is room for it.
    Ready(Frame),
    /// Not before then.
    Later(u64),
    /// Not before a frame leaves the socket buffer, or never again.
    Blocked,
}

impl Connection {
    /// What it would send.
    #[inline]
    pub(super) fn next(&self, id: ConnectionId, now_ns: u64) -> Sending {
        if self.due_ns >= self.stop_ns || self.in_flight >= self.window {
            return Sending::Blocked;
        }
        if self.due_ns > now_ns {
            return Sending::Later(self.due_ns);
        }
        if now_ns >= self.stop_ns {
            return Sending::Blocked;
        }
        Sending::Ready(Frame {
            stamp_ns: now_ns,
            flow: self.flow,
            router: self.router,
            bytes: self.bytes,
            mark: Mark::of_connection(id),
        })
    }

    /// It has sent that.
    #[inline]
    pub(super) fn sent(&mut self, now_ns: u64) {
        self.in_flight += 1;
        self.bytes = self.sizes.next();
        self.due_ns = match &mut self.pace {
            Some(pace) => {
                let due_ns = self.due_ns + pace.next_ns();
                due_ns.max(now_ns.saturating_sub(self.catch_up_ns))
            }
            None => now_ns,
        };
    }

    /// From now on it sends at this rate, if it keeps one.
    pub(super) fn set_rate(&mut self, flow: FlowId, rate_millipps: u64) {
        if self.flow == flow && self.pace.is_some() {
            self.pace = Some(Pace::new(rate_millipps));
        }
    }
}
