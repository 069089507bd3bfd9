//! A receive ring: where a NIC puts frames, until a poll takes them.

use std::collections::VecDeque;

use super::buffer::{Buffer, Occupancy};
use crate::{
    engine::{
        frame::{Frame, NEVER},
        ids::{WireId, WorkerId},
    },
    model,
};

#[derive(Debug)]
pub(crate) struct Ring {
    frames: VecDeque<Frame>,
    capacity: usize,
    /// So many empty slots are given back at a time.
    refill: usize,
    /// Taken, but not given back yet.
    empty_slots: usize,
    pub(super) wire: WireId,
    moderation_ns: u64,
    /// Whether a timer takes the place of interrupts.
    timer: bool,
    irq_ns: u64,
    /// Who polls it; none while no path leads through it.
    pub(super) worker: Option<WorkerId>,
    /// Whether it raises an interrupt when a frame comes.
    armed: bool,
    /// When it may raise the next.
    quiet_until_ns: u64,
    /// When it is looked at next, if armed.
    check_ns: u64,
    /// Frames on the wire from another host's port, and when they are here.
    on_the_wire: VecDeque<(u64, Frame)>,
    occupancy: Occupancy,
}

/// What a ring's interrupt asks of the CPU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Interrupt {
    /// Whose poll it schedules.
    pub(crate) worker: WorkerId,
    pub(crate) cost_ns: u64,
}

impl Ring {
    pub(crate) fn new(wire: WireId, ring: &model::Ring, irq_ns: u64) -> Self {
        Self {
            frames: VecDeque::with_capacity(ring.capacity as usize),
            capacity: ring.capacity as usize,
            refill: ring.refill as usize,
            empty_slots: 0,
            wire,
            moderation_ns: ring.moderation_ns,
            timer: ring.timer,
            irq_ns,
            worker: None,
            armed: false,
            quiet_until_ns: 0,
            check_ns: NEVER,
            on_the_wire: VecDeque::new(),
            occupancy: Occupancy::default(),
        }
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<Frame> {
        let frame = self.frames.pop_front();
        if frame.is_some() {
            // The driver gives slots back a number at a time.
            self.empty_slots += 1;
            self.empty_slots %= self.refill;
        }
        frame
    }

    /// The next frame from another host's port that is here by now, and since when.
    #[inline]
    pub(super) fn next_from_port(&mut self, now_ns: u64) -> Option<(u64, Frame)> {
        let &(arrival_ns, _) = self.on_the_wire.front()?;
        if arrival_ns > now_ns { None } else { self.on_the_wire.pop_front() }
    }

    /// A frame comes over the wire from another host's port; whether that is before the next look.
    pub(super) fn expect(&mut self, frame: Frame, arrival_ns: u64) -> bool {
        self.on_the_wire.push_back((arrival_ns, frame));
        self.armed && arrival_ns.max(self.quiet_until_ns) < self.check_ns
    }

    pub(super) fn arm(&mut self, now_ns: u64) {
        self.armed = true;
        if self.timer {
            self.quiet_until_ns = now_ns + self.moderation_ns;
        }
    }

    /// Whether this is the time at which an armed ring is to be looked at.
    pub(super) fn is_due(&self, now_ns: u64) -> bool {
        self.armed && self.check_ns == now_ns
    }

    /// Plans the next look at an armed ring: when something may be in it and moderation allows an interrupt.
    /// `from_wire`: when the wire's sources may bring something.
    pub(super) fn plan(&mut self, from_wire: Option<u64>, now_ns: u64) -> Option<u64> {
        let check_ns = if self.timer {
            Some(self.quiet_until_ns)
        } else if self.frames.is_empty() {
            let from_port = self.on_the_wire.front().map(|&(arrival_ns, _)| arrival_ns);
            let first = from_port.into_iter().chain(from_wire).min();
            first.map(|first_ns| first_ns.max(self.quiet_until_ns))
        } else {
            Some(self.quiet_until_ns.max(now_ns))
        };
        self.check_ns = check_ns.unwrap_or(NEVER);
        check_ns
    }

    /// The interrupt that it raises now, if there is a frame (or a timer) and moderation allows it: that disarms it.
    pub(super) fn raise(&mut self, now_ns: u64) -> Option<Interrupt> {
        if (self.frames.is_empty() && !self.timer) || self.quiet_until_ns > now_ns {
            return None;
        }
        self.armed = false;
        self.quiet_until_ns = now_ns + self.moderation_ns;
        let worker = self.worker.expect("only a ring that is polled is armed");
        Some(Interrupt { worker, cost_ns: self.irq_ns })
    }

    /// Takes everything out, also what is still on the wire.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Frame> {
        let on_the_wire = self.on_the_wire.drain(..).map(|(_, frame)| frame);
        self.frames.drain(..).chain(on_the_wire)
    }
}

impl Buffer for Ring {
    #[inline]
    fn accept(&mut self, frame: Frame, _now_ns: u64) -> bool {
        let fits = self.frames.len() + self.empty_slots < self.capacity;
        if fits {
            self.frames.push_back(frame);
        }
        fits
    }

    #[inline]
    fn len(&self) -> usize {
        self.frames.len()
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
