//! Frames on their way to ports, with what their senders left to others: checksums, segmentation.

use crate::{
    CutOff, NetHeader, checksum,
    forwarding::{Forwarding, Origin},
    port::Port,
    segmentation::{Division, MAX_MERGED_BYTES},
    staging::MAX_FRAME_BYTES,
    vlan,
};

/// Memory that frames are changed in, so that none is allocated for each.
#[derive(Debug)]
pub(crate) struct Buffers {
    untagged: Vec<u8>,
    segment: Vec<u8>,
}

impl Buffers {
    pub(crate) fn new() -> Self {
        Self { untagged: vec![0; MAX_MERGED_BYTES], segment: vec![0; MAX_FRAME_BYTES] }
    }
}

/// What is to become of a frame with work left to do.
pub(crate) enum Work {
    /// It went to the one port that it is for, which does the work.
    HandedOver,
    /// It is done: the frame is as it has to be.
    Done,
    /// It is to be divided.
    Divide(Division),
    /// It cannot be done.
    Impossible,
}

/// Gives frames to ports.
#[derive(Debug)]
pub(crate) struct Delivery<'a> {
    pub(crate) ports: &'a mut [Port],
    pub(crate) forwarding: &'a Forwarding,
    pub(crate) buffers: &'a mut Buffers,
    /// Guests that are to be cut off.
    pub(crate) failed: &'a mut Vec<(usize, CutOff)>,
}

impl Delivery<'_> {
    /// Gives a frame without work to the ports that it is for. True: to the one that has its address.
    #[inline]
    pub(crate) fn spread(&mut self, from: Origin, frame: &[u8]) -> bool {
        let Self { ports, forwarding, buffers, failed } = self;
        forwarding.spread(from, frame, &mut buffers.untagged, &mut |to, frame: &[u8]| {
            if let Err(reason) = ports[to].deliver(frame, NetHeader::NONE) {
                failed.push((to, reason));
            }
        })
    }

    /// Gives a frame that arrived by an uplink to the ports that it is for. False: nobody can do what
    /// its header leaves to do.
    pub(crate) fn arrived(&mut self, from: Origin, frame: &mut [u8], header: NetHeader) -> bool {
        if header.asks_for_offload() {
            match self.work(from, frame, header) {
                Work::HandedOver => return true,
                Work::Impossible => return false,
                Work::Done => {}
                Work::Divide(division) => {
                    self.divide(from, frame, division);
                    return true;
                }
            }
        }
        let _ = self.spread(from, frame);
        true
    }

    /// Does what a frame's header leaves to do, or has the port do it that the frame is for.
    pub(crate) fn work(&mut self, from: Origin, frame: &mut [u8], header: NetHeader) -> Work {
        let owner = self.forwarding.owner(from.uplink, frame);
        if let Some((port, lan)) = owner
            && self.ports[port].takes(&header)
        {
            let (frame, header) = if lan.is_tagged() {
                (vlan::without(frame, &mut self.buffers.untagged), header.untagged())
            } else {
                (&*frame, header)
            };
            if let Err(reason) = self.ports[port].deliver(frame, header) {
                self.failed.push((port, reason));
            }
            return Work::HandedOver;
        }
        if header.is_merged() {
            return Division::of(frame, header).map_or(Work::Impossible, Work::Divide);
        }
        let (start, offset) = (header.csum_start.into(), header.csum_offset.into());
        match checksum::complete(frame, start, offset) {
            Some(()) => Work::Done,
            None => Work::Impossible,
        }
    }

    fn divide(&mut self, from: Origin, frame: &[u8], division: Division) {
        let mut segment = std::mem::take(&mut self.buffers.segment);
        for number in 0..division.segments() {
            let bytes = division.write(number, frame, &mut segment);
            let _ = self.spread(from, &segment[..bytes]);
        }
        self.buffers.segment = segment;
    }
}
