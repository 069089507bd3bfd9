//! Slots of the rings that are shared with the kernel, and the frames that it writes into them.

#![expect(clippy::cast_possible_truncation, reason = "kernel constants")]

use std::{ptr, sync::atomic::AtomicU32};

use crate::{
    NET_HEADER_BYTES, NetHeader, segmentation::MAX_MERGED_BYTES, staging::MAX_FRAME_BYTES,
    vlan::TAG_BYTES,
};

/// Bytes of a slot: what the kernel writes in front, the frame, some to spare.
pub(super) const SLOT_BYTES: u32 = 2048;
/// `struct virtio_net_hdr` without the number of buffers, as packet sockets have it.
pub(super) const VNET_BYTES: usize = 10;
const ADDRESSES_BYTES: usize = 12;

/// How many slots the rings have, each a multiple of 32: the one that the kernel fills, and the one that
/// it sends from. The first bridges pauses of this side. In the second frames wait whose turn is over.
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    pub receive: u32,
    pub send: u32,
}

impl Slots {
    /// Bytes of both rings.
    pub(super) fn bytes(self) -> usize {
        (self.receive + self.send) as usize * SLOT_BYTES as usize
    }
}

/// A frame, and what is left to do for it.
pub(super) type Found<'a> = (&'a mut [u8], NetHeader);

/// The frame in a slot that the kernel has filled; None if it is not whole, or too long.
pub(super) fn frame_of<'a>(slot: *mut u8, header: &libc::tpacket2_hdr) -> Option<Found<'a>> {
    let at = usize::from(header.tp_mac);
    let whole = header.tp_len == header.tp_snaplen;
    let length = header.tp_snaplen as usize;
    if !whole || at < VNET_BYTES || at + length > SLOT_BYTES as usize {
        return None;
    }
    // SAFETY: within the slot, as was just checked, since a tag is shorter than the header before the
    // frame, which is read first; the kernel leaves the slot alone for now.
    let (work, spaced) = unsafe {
        let work: [u8; VNET_BYTES] = ptr::read(slot.add(at - VNET_BYTES).cast());
        let start = slot.add(at - TAG_BYTES);
        (work, std::slice::from_raw_parts_mut(start, TAG_BYTES + length))
    };
    with_tag(spaced, work_of(&work), header)
}

/// What is left to do, as the kernel writes it.
pub(super) fn work_of(bytes: &[u8; VNET_BYTES]) -> NetHeader {
    let mut all = [0; NET_HEADER_BYTES];
    all[..VNET_BYTES].copy_from_slice(bytes);
    NetHeader::parse(&all)
}

/// The frame that follows space for a tag, with the VLAN's tag that the kernel has taken out of it; None
/// if it is too long then.
pub(super) fn with_tag<'a>(
    spaced: &'a mut [u8],
    work: NetHeader,
    header: &libc::tpacket2_hdr,
) -> Option<Found<'a>> {
    let was_taken_out = header.tp_status & libc::TP_STATUS_VLAN_VALID != 0;
    let longest = if work.is_merged() { MAX_MERGED_BYTES } else { MAX_FRAME_BYTES };
    let length = spaced.len() - if was_taken_out { 0 } else { TAG_BYTES };
    if length > longest {
        return None;
    }
    if !was_taken_out {
        return Some((&mut spaced[TAG_BYTES..], work));
    }
    if length < TAG_BYTES + ADDRESSES_BYTES {
        return None;
    }
    spaced.copy_within(TAG_BYTES..TAG_BYTES + ADDRESSES_BYTES, 0);
    let tpid = if header.tp_status & libc::TP_STATUS_VLAN_TPID_VALID == 0 {
        libc::ETH_P_8021Q as u16
    } else {
        header.tp_vlan_tpid
    };
    spaced[ADDRESSES_BYTES..][..2].copy_from_slice(&tpid.to_be_bytes());
    spaced[ADDRESSES_BYTES + 2..][..2].copy_from_slice(&header.tp_vlan_tci.to_be_bytes());
    Some((spaced, work.tagged()))
}

pub(super) fn status<'a>(slot: *mut u8) -> &'a AtomicU32 {
    // SAFETY: a slot is aligned to 16 bytes and begins with its status, which both sides change.
    unsafe { AtomicU32::from_ptr(slot.cast()) }
}
