//! A router at a port that is no virtual machine of this back-end: behind an interface of the host.
//!
//! The interface comes and goes with its container. A socket is bound to the next one of that name; that
//! needs no capability, which the back-end has given up by then.

use std::{ffi::CString, io, os::fd::BorrowedFd};

use crate::{
    Delivered, MIN_FRAME_BYTES, NetHeader, Offloads, Transmitted,
    carrier::Carriers,
    interface::{Interface, ROUTER_SLOTS, UplinkCounters},
    output::FULL_NS,
    poller::{Interest, Poller},
    staging::MAX_FRAME_BYTES,
};

/// Between two looks whether the interface is there.
const LOOK_NS: u64 = 100_000_000;

/// Frames that are too long for anybody and passed over before another port's turn.
const AT_ONCE: u32 = 64;

/// What a router transmitted and nobody took, and what the kernel did not hand to it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lost {
    pub(crate) not_taken: u64,
    pub(crate) too_long: u64,
    pub(crate) refused: u64,
}

#[derive(Debug)]
pub(crate) struct InterfaceSide {
    name: CString,
    interface: Interface,
    /// What the kernel does for frames that are handed to the interface.
    offloads: Offloads,
    is_bound: bool,
    /// When the interface is looked for, or looked at: it has gone down, and that it goes altogether is
    /// not told. None: it is there.
    looks_at_ns: Option<u64>,
    /// When an interface that is full is offered frames again.
    flushes_at_ns: Option<u64>,
    /// Frames were handed over since the interface was last told.
    touched: bool,
    /// Whether the poller waits for frames from it.
    watched: bool,
}

impl InterfaceSide {
    pub(crate) fn new(name: &str, checksums: bool, carriers: &Carriers) -> io::Result<Self> {
        let mut made = Self {
            name: CString::new(name)?,
            interface: Interface::new(ROUTER_SLOTS)?,
            offloads: Offloads { checksum: checksums, ..Offloads::default() },
            is_bound: false,
            looks_at_ns: Some(0),
            flushes_at_ns: None,
            touched: false,
            watched: true,
        };
        made.look(0, carriers);
        Ok(made)
    }

    /// Whether the interface is there.
    pub(crate) fn is_bound(&self) -> bool {
        self.is_bound
    }

    pub(crate) fn lost(&mut self) -> Lost {
        let counters = self.interface.counters();
        let UplinkCounters { ring_full: not_taken, too_long, refused, .. } = counters;
        Lost { not_taken, too_long, refused }
    }

    pub(crate) fn count_losses(&mut self) {
        self.interface.count_losses();
    }

    /// Does what was to be done by now.
    pub(crate) fn in_time(&mut self, now_ns: u64, carriers: &Carriers) {
        self.look(now_ns, carriers);
        if self.flushes_at_ns.is_some_and(|at_ns| at_ns <= now_ns) {
            self.flush(now_ns);
        }
    }

    fn flush(&mut self, now_ns: u64) {
        self.interface.flush();
        self.flushes_at_ns = self.interface.is_full().then_some(now_ns + FULL_NS);
    }

    /// The interface that it has, or had.
    pub(crate) fn ifindex(&self) -> u32 {
        self.interface.ifindex()
    }

    /// Takes note of whether an interface has a carrier, if it is this one. What waits for it goes now.
    pub(crate) fn set_carrier(&mut self, ifindex: u32, is_there: bool, now_ns: u64) {
        if ifindex == self.interface.ifindex() {
            self.interface.set_carrier(is_there);
            self.flush(now_ns);
        }
    }

    /// Looks for the interface, if it is gone and the time has come.
    fn look(&mut self, now_ns: u64, carriers: &Carriers) {
        if self.looks_at_ns.is_none_or(|at_ns| now_ns < at_ns) {
            return;
        }
        self.is_bound = self.is_bound && self.interface.is_bound();
        if !self.is_bound {
            // SAFETY: a string that ends with 0.
            let index = unsafe { libc::if_nametoindex(self.name.as_ptr()) };
            // What is gone again by now, or takes no frames, is looked for again.
            self.is_bound =
                index != 0 && self.interface.bind(index).is_ok() && carriers.ask(index).is_ok();
        }
        let is_there = self.is_bound && self.interface.is_up(&self.name);
        self.looks_at_ns = (!is_there).then_some(now_ns + LOOK_NS);
    }

    /// When something is to be done.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        [self.looks_at_ns, self.flushes_at_ns].into_iter().flatten().min()
    }

    /// Takes note of an error of the interface's: it went down, and may be about to go altogether.
    pub(crate) fn take_error(&mut self) {
        self.interface.take_error();
        self.looks_at_ns = Some(0);
    }

    /// Copies the next frame that the router transmits to the start of `frame`.
    pub(crate) fn next_frame(&mut self, frame: &mut [u8]) -> Option<Transmitted> {
        let mut copied = None;
        for _ in 0..AT_ONCE {
            let taken = self.interface.receive_one(|found, work| {
                let fits = found.len() <= frame.len();
                if fits {
                    frame[..found.len()].copy_from_slice(found);
                    copied = Some((found.len(), work));
                }
                fits
            });
            let _ = taken?;
            if copied.is_some() {
                break;
            }
        }
        copied.map(|(bytes, work)| {
            if bytes < MIN_FRAME_BYTES {
                Transmitted::TooShort { bytes }
            } else {
                Transmitted::Frame(bytes, work)
            }
        })
    }

    /// Whether the kernel does what this header leaves to it.
    pub(crate) fn takes(&self, header: &NetHeader) -> bool {
        self.is_bound && self.offloads.cover(header)
    }

    /// How many frames it takes now, as far as is looked; None: there is no interface.
    pub(crate) fn buffers(&self) -> Option<u32> {
        self.is_bound.then(|| self.interface.free_slots())
    }

    /// Hands a frame to the interface.
    pub(crate) fn deliver(&mut self, frame: &[u8], header: NetHeader) -> Delivered {
        if !self.is_bound {
            return Delivered::Stopped;
        }
        if frame.len() > MAX_FRAME_BYTES {
            return Delivered::TooLong;
        }
        if !self.interface.has_free_slot() {
            // What was not taken when it was down. One that is full is asked again in its time: that
            // costs more than a frame.
            if !self.interface.is_full() {
                self.interface.flush();
            }
            if !self.interface.has_free_slot() {
                return Delivered::Full;
            }
        }
        self.interface.push(frame, header);
        self.touched = true;
        Delivered::Written { buffers: 1 }
    }

    /// Has the interface take what was handed over.
    pub(crate) fn finish(&mut self, now_ns: u64) {
        if std::mem::take(&mut self.touched) {
            self.flush(now_ns);
        }
    }

    /// For polling.
    pub(crate) fn readable(&self) -> BorrowedFd<'_> {
        self.interface.readable()
    }

    /// Has the poller wait for frames only while they can be taken.
    pub(crate) fn watch(&mut self, poller: &Poller, number: u64, wanted: bool) -> io::Result<()> {
        if wanted != self.watched {
            let interest = if wanted { Interest::Read } else { Interest::Errors };
            poller.change(self.interface.readable(), number, interest)?;
            self.watched = wanted;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::in_network_namespace;

    /// What the kernel takes of it arrives again, so that it would always find space.
    fn loopback() -> InterfaceSide {
        InterfaceSide::new("lo", true, &Carriers::new().unwrap()).unwrap()
    }

    fn offer(side: &mut InterfaceSide) -> Delivered {
        let frame = [&[0; 12][..], &[0x88, 0xb5], &[0; 46]].concat();
        side.deliver(&frame, NetHeader::NONE)
    }

    #[test]
    fn what_is_full_is_asked_again_in_its_time_and_what_was_down_at_once() {
        in_network_namespace(|| {
            for is_full in [true, false] {
                let mut side = loopback();
                for _ in 0..ROUTER_SLOTS.send {
                    assert!(matches!(offer(&mut side), Delivered::Written { .. }));
                }
                assert!(matches!(offer(&mut side), Delivered::Full), "it has no carrier");
                side.interface.set_carrier(true);
                if is_full {
                    side.interface.become_full();
                    for _ in 0..3 {
                        assert!(matches!(offer(&mut side), Delivered::Full));
                    }
                    side.flush(0);
                }
                assert!(matches!(offer(&mut side), Delivered::Written { .. }), "{is_full}");
            }
        });
    }
}
