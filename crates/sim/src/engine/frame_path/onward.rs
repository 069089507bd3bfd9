//! Steps 6 to 8: into the next ring, queue or port, out of a port, and the end of a frame.

use super::Host;
use crate::engine::{
    frame::{Frame, Mark},
    ids::{ConnectionId, DropPointId, PortId, QueueId, WorkerId},
    network::{DropPoint, Output, port::Beyond},
};

/// 6. Into the next ring, queue or port.
impl Host {
    /// Puts a frame where it waits next, or drops it if there is no room: the one way into a ring, queue or port.
    #[expect(
        clippy::inline_always,
        reason = "the kind of drop point is known where it is called: 5 % faster"
    )]
    #[inline(always)]
    pub(super) fn put(&mut self, at: DropPoint, frame: Frame, now_ns: u64) -> bool {
        let cpu = &self.cpu;
        let taken = self.network.put(at, frame, |context| cpu.ran_ns(context), now_ns);
        if !taken {
            self.lose(self.network.drop_point(at), frame, now_ns);
        }
        taken
    }

    /// To the next worker, which is woken.
    #[inline]
    pub(super) fn hand_on(
        &mut self,
        queue: QueueId,
        frame: Frame,
        producer: WorkerId,
        now_ns: u64,
    ) {
        if !self.put(DropPoint::Queue(queue), frame, now_ns) {
            return;
        }
        let (consumer, notify_ps) = self.network.consumer_of(queue);
        if !self.cpu.is_scheduled(consumer) {
            self.workers[producer].defer_wake_up(notify_ps);
            self.schedule_poll(consumer, now_ns);
        }
    }

    /// To a port.
    #[inline]
    pub(super) fn send(&mut self, port: PortId, frame: Frame, now_ns: u64) {
        self.advance_port(port, now_ns);
        self.put_into_port(port, frame, now_ns);
    }

    #[inline]
    fn put_into_port(&mut self, port: PortId, frame: Frame, now_ns: u64) {
        if self.put(DropPoint::Port(port), frame, now_ns) {
            self.network.plan_departure(port, &mut self.events);
        }
    }
}

/// 7. Out of a port: to the receiver, or to another host's ring, where it goes on at 1.
impl Host {
    /// Brings a port up to now: takes in what its own sources have sent, and completes departures.
    #[inline]
    pub(crate) fn advance_port(&mut self, port: PortId, now_ns: u64) {
        while let Some(frame) = self.network.next_from_source(port, now_ns) {
            self.accounting.offer(frame.flow, frame.bytes, frame.stamp_ns);
            self.depart(port, frame.stamp_ns, now_ns);
            self.put_into_port(port, frame, frame.stamp_ns);
        }
        self.depart(port, now_ns, now_ns);
    }

    /// Completes the port's departures until then. Senders that wait for them are woken now.
    #[inline]
    fn depart(&mut self, port: PortId, until_ns: u64, now_ns: u64) {
        while let Some(mut departure) = self.network.next_departure(port, until_ns) {
            // It leaves its socket buffer here, also where it goes on to another host.
            let connection = departure.frame.mark.connection();
            if connection.is_some() {
                departure.frame.mark = Mark::default();
            }
            let frame = departure.frame;
            match self.network.beyond(port, frame.router) {
                Beyond::Receiver => {
                    let arrival_ns = departure.arrival_ns;
                    if self.take_turn(frame, arrival_ns, now_ns) {
                        continue;
                    }
                    self.accounting.receive(frame.flow, frame.bytes, frame.stamp_ns, arrival_ns);
                }
                Beyond::Ring(ring) => {
                    self.network.go_on(ring, departure, &mut self.events, now_ns);
                }
            }
            if let Some(connection) = connection {
                self.release(connection, now_ns);
            }
        }
    }

    /// A departure that a sender or another host's ring waits for may be due.
    pub(crate) fn port_due(&mut self, port: PortId, now_ns: u64) {
        if self.network.port_is_due(port, now_ns) {
            self.advance_port(port, now_ns);
            self.wake_waiting(Output::Port(port), now_ns);
            self.network.plan_port(port, &mut self.events);
        }
    }
}

/// 8. The end of a frame.
impl Host {
    /// It is dropped.
    #[inline]
    pub(super) fn lose(&mut self, drop_point: DropPointId, frame: Frame, now_ns: u64) {
        if self.come_again(drop_point, frame, now_ns) {
            return;
        }
        self.accounting.drop_at(drop_point, frame.flow, frame.stamp_ns);
        if let Some(connection) = frame.mark.connection() {
            self.release(connection, now_ns);
        }
    }

    /// It leaves its sender's socket buffer: there is room for another one.
    #[inline]
    pub(super) fn release(&mut self, connection: ConnectionId, now_ns: u64) {
        let connection = &mut self.workers[connection];
        connection.in_flight -= 1;
        let worker = connection.worker;
        self.schedule_poll(worker, now_ns);
    }
}
