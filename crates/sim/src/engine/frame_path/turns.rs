//! Requests: from one turn to the next, and when one is answered.

use super::Host;
use crate::engine::{
    events::Event,
    frame::Frame,
    ids::{DropPointId, FlowId, OutsideId},
    network::port::Departure,
    requests::Next,
};

/// Of a closed loop the requests begin one after the other at first, as a client opens its connections.
const SPACING_NS: u64 = 10_000;

impl Host {
    /// The first requests of closed loops.
    pub(super) fn begin_requests(&mut self) {
        for (flow, requests, start_ns) in self.requests.closed() {
            for number in 0..requests {
                self.begin_request(flow, start_ns + u64::from(number) * SPACING_NS, 0);
            }
        }
    }

    /// A request is due at `at_ns`, and comes in after its time outside.
    fn begin_request(&mut self, flow: FlowId, at_ns: u64, now_ns: u64) {
        let of = self.requests.of(flow).expect("it has requests");
        if at_ns >= of.stop_ns {
            return;
        }
        let frame = of.first(flow, at_ns);
        self.accounting.offer(flow, frame.bytes, at_ns);
        let until_ns = self.requests.serve(frame, at_ns);
        self.go_out(frame, until_ns.max(now_ns));
    }

    fn go_out(&mut self, frame: Frame, until_ns: u64) {
        let id = self.requests.go_out(frame);
        self.events.push(until_ns, Event::Outside(id));
    }

    /// A frame has come out of the router: whether it was a request's, which then has its next turn, or is answered.
    #[inline]
    pub(super) fn take_turn(&mut self, frame: Frame, arrival_ns: u64, now_ns: u64) -> bool {
        let Some(of) = self.requests.of(frame.flow) else { return false };
        match of.after(frame) {
            Next::Turn(frame) => {
                let until_ns = self.requests.serve(frame, arrival_ns);
                self.go_out(frame, until_ns.max(now_ns));
            }
            Next::Answered => self.answered(frame, arrival_ns, now_ns),
        }
        true
    }

    fn answered(&mut self, frame: Frame, at_ns: u64, now_ns: u64) {
        let of = self.requests.of(frame.flow).expect("it has requests");
        let (first, closed) = (of.first(frame.flow, at_ns), of.closed.is_some());
        let followers = of.followers.clone();
        self.accounting.receive(frame.flow, first.bytes, frame.stamp_ns, at_ns);
        for flow in followers {
            self.begin_request(flow, at_ns, now_ns);
        }
        if closed {
            self.begin_request(frame.flow, at_ns, now_ns);
        }
    }

    /// A request's frame was lost: whether it was one; it comes again later, as TCP has it.
    #[inline]
    pub(super) fn come_again(&mut self, at: DropPointId, frame: Frame, now_ns: u64) -> bool {
        let Some(of) = self.requests.of(frame.flow) else { return false };
        let again_ns = of.again_ns;
        self.accounting.repeat(at, frame.flow);
        self.go_out(frame, now_ns + again_ns);
        true
    }

    /// A request comes in, for its next turn.
    pub(crate) fn come_in(&mut self, id: OutsideId, now_ns: u64) {
        let (frame, ring) = self.requests.come_in(id);
        let departure = Departure { frame, arrival_ns: now_ns };
        self.network.go_on(ring, departure, &mut self.events, now_ns);
    }
}
