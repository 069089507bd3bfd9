//! Frames of one port that wait to be scheduled: copied from the guest, so that it can no longer
//! change them, and few, so that the rest waits in the guest's own ring.

use crate::prefetch::LINE_BYTES;

/// Frames of a port that wait here at most.
pub(crate) const SLOTS: usize = 32;
/// The longest frame, bytes: 1500 of payload and two VLAN tags.
pub const MAX_FRAME_BYTES: usize = 1522;
/// Bytes of a slot: whole cache lines, and an odd number of them, as of all slots with the line
/// behind them: so the slots of many ports are spread over all sets of the caches.
const SLOT_BYTES: usize = 25 * LINE_BYTES;
const _: () = assert!(MAX_FRAME_BYTES <= SLOT_BYTES);

/// As how many frames so many bytes count where work is divided among guests.
pub(crate) fn frames_of(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(MAX_FRAME_BYTES)).unwrap_or(u32::MAX)
}

/// A ring of frames.
#[derive(Debug)]
pub(crate) struct Staging {
    frames: Box<[u8]>,
    bytes: [u16; SLOTS],
    first: usize,
    used: usize,
}

impl Staging {
    pub(crate) fn new() -> Self {
        let frames = vec![0; SLOTS * SLOT_BYTES + LINE_BYTES].into_boxed_slice();
        Self { frames, bytes: [0; SLOTS], first: 0, used: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.used
    }

    pub(crate) fn free(&self) -> usize {
        SLOTS - self.used
    }

    pub(crate) fn is_full(&self) -> bool {
        self.used == SLOTS
    }

    /// Length of the frame that is so many behind the oldest, bytes; None: there are fewer.
    pub(crate) fn length(&self, behind: usize) -> Option<usize> {
        (behind < self.used).then(|| self.bytes[(self.first + behind) % SLOTS].into())
    }

    /// Keeps a frame; there must be a free slot, and it must not be longer than one.
    pub(crate) fn push(&mut self, frame: &[u8]) {
        assert!(!self.is_full(), "whoever stages looks first");
        let slot = (self.first + self.used) % SLOTS;
        self.frames[slot * SLOT_BYTES..][..frame.len()].copy_from_slice(frame);
        self.bytes[slot] = u16::try_from(frame.len()).expect("a slot is shorter than 64 KiB");
        self.used += 1;
    }

    /// Takes the oldest frame; None: there is none.
    pub(crate) fn pop(&mut self) -> Option<&[u8]> {
        if self.used == 0 {
            return None;
        }
        let slot = self.first;
        self.first = (slot + 1) % SLOTS;
        self.used -= 1;
        Some(&self.frames[slot * SLOT_BYTES..][..usize::from(self.bytes[slot])])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn frames_come_out_whole_and_in_order(
            steps in prop::collection::vec(prop::option::of(14..=MAX_FRAME_BYTES), 0..300),
        ) {
            let mut staging = Staging::new();
            let mut model = VecDeque::new();
            for (number, step) in (0..=u8::MAX).cycle().zip(steps) {
                match step {
                    Some(bytes) if !staging.is_full() => {
                        let frame = vec![number; bytes];
                        staging.push(&frame);
                        model.push_back(frame);
                    }
                    Some(_) => prop_assert_eq!(model.len(), SLOTS),
                    None => prop_assert_eq!(staging.pop().map(<[u8]>::to_vec), model.pop_front()),
                }
                let lengths: Vec<_> = (0..SLOTS).map_while(|slot| staging.length(slot)).collect();
                prop_assert_eq!(lengths, model.iter().map(Vec::len).collect::<Vec<_>>());
            }
        }
    }
}
