//! Requests in turns, such as a web request through a load balancer. A request is one frame that goes through the
//! router once for each turn: a connection's first frame, the question, what the server behind says, and so on.
//! From one turn to the next it is outside of the model, with the client or the server. When it has come out of
//! the router for the last time, the request is answered.

use super::{
    frame::Frame,
    ids::{FlowId, Id, OutsideId, RingId, RouterId, Table},
};

/// One of the times that a request goes through the router.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    /// Where it comes in, by which path it goes on, and how large it is then.
    pub(crate) ring: RingId,
    pub(crate) router: RouterId,
    pub(crate) bytes: u16,
    /// How long it is outside before it comes in.
    pub(crate) outside_ns: u64,
    /// How long it keeps client and server busy before, who serve one after the other.
    pub(crate) busy_ns: u64,
}

/// An entry of the traffic whose frames are requests.
#[derive(Debug, Clone)]
pub(crate) struct RequestFlow {
    pub(crate) turns: Vec<Turn>,
    /// A frame that is lost comes again so long afterwards.
    pub(crate) again_ns: u64,
    pub(crate) stop_ns: u64,
    /// So many are always under way, from then on, ns.
    pub(crate) closed: Option<(u32, u64)>,
    /// Entries of which a request begins when one of this is answered.
    pub(crate) followers: Vec<FlowId>,
}

/// What becomes of a request that has come out of the router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// It goes out as this frame, to come in again.
    Turn(Frame),
    Answered,
}

impl RequestFlow {
    /// The frame of a request's first turn.
    pub(crate) fn first(&self, flow: FlowId, stamp_ns: u64) -> Frame {
        let Turn { router, bytes, .. } = self.turns[0];
        Frame { stamp_ns, flow, router, bytes, mark: super::frame::Mark::default() }
    }

    /// What follows the turn that this frame is.
    pub(crate) fn after(&self, frame: Frame) -> Next {
        let number = frame.mark.turn() + 1;
        self.turns.get(number).map_or(Next::Answered, |turn| {
            let mark = super::frame::Mark::of_turn(number);
            Next::Turn(Frame { router: turn.router, bytes: turn.bytes, mark, ..frame })
        })
    }
}

/// All of them, and what is outside just now.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// By entry of the traffic; empty where no entry has requests.
    flows: Table<FlowId, Option<RequestFlow>>,
    outside: Vec<Option<Frame>>,
    free: Vec<usize>,
    /// Until when client and server are busy with what came to them so far.
    busy_until_ns: u64,
}

impl Requests {
    pub(crate) fn add(&mut self, flow: FlowId, of: RequestFlow, flows: usize) {
        if self.flows.len() == 0 {
            self.flows = Table::filled(None, flows);
        }
        self.flows[flow] = Some(of);
    }

    /// A request of one entry begins whenever one of the other is answered.
    pub(crate) fn follow(&mut self, flow: FlowId, answered: FlowId) -> bool {
        match self.flows.get_mut(answered) {
            Some(Some(of)) => {
                of.followers.push(flow);
                true
            }
            _ => false,
        }
    }

    /// An entry's requests; none where its frames are no requests.
    #[inline]
    pub(crate) fn of(&self, flow: FlowId) -> Option<&RequestFlow> {
        self.flows.get(flow)?.as_ref()
    }

    /// Entries of which so many requests are always under way: their number, and since when.
    pub(crate) fn closed(&self) -> Vec<(FlowId, u32, u64)> {
        let of = |(flow, of): (FlowId, &Option<RequestFlow>)| {
            of.as_ref()?.closed.map(|(requests, start_ns)| (flow, requests, start_ns))
        };
        self.flows.enumerate().filter_map(of).collect()
    }

    /// Client or server have a request's frame from then on: when the next one of it comes in.
    pub(crate) fn serve(&mut self, frame: Frame, at_ns: u64) -> u64 {
        let of = self.of(frame.flow).expect("only requests are outside");
        let Turn { outside_ns, busy_ns, .. } = of.turns[frame.mark.turn()];
        if busy_ns == 0 {
            return at_ns + outside_ns;
        }
        self.busy_until_ns = self.busy_until_ns.max(at_ns) + busy_ns;
        self.busy_until_ns + outside_ns
    }

    pub(crate) fn go_out(&mut self, frame: Frame) -> OutsideId {
        if let Some(index) = self.free.pop() {
            self.outside[index] = Some(frame);
            return OutsideId::at(index);
        }
        self.outside.push(Some(frame));
        OutsideId::at(self.outside.len() - 1)
    }

    /// The frame that comes in now, and its ring.
    pub(crate) fn come_in(&mut self, id: OutsideId) -> (Frame, RingId) {
        let frame = self.outside[id.index()].take().expect("it comes in once");
        self.free.push(id.index());
        let of = self.of(frame.flow).expect("only requests are outside");
        (frame, of.turns[frame.mark.turn()].ring)
    }

    pub(crate) fn drain(&mut self, mut tell: impl FnMut(FlowId)) {
        self.outside.drain(..).flatten().for_each(|frame| tell(frame.flow));
    }
}
