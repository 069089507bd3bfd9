//! What the caller works on: a NIC's two rings.

use std::sync::Arc;

use crate::{
    chain::Chain,
    error::CutOff,
    frame::{Delivered, FrameFormat, FrameWriter, NetHeader, Transmitted, copy_out},
    memory::GuestMemory,
    notification::{Call, Kick},
    queue::Queue,
    ring::RingState,
};

/// A NIC's rings for one round of work, each on its own.
#[derive(Debug)]
pub struct Rings<'a> {
    /// The guest's memory; None before the front-end has shared it.
    pub memory: Option<&'a Arc<GuestMemory>>,
    /// The guest's receive buffers; None while that ring does not run.
    pub receive: Option<Ring<'a>>,
    /// The frames that the guest transmits; None while that ring does not run.
    pub transmit: Option<Ring<'a>>,
    /// How frames lie in buffers.
    pub format: FrameFormat,
    pub(crate) writer: &'a mut FrameWriter,
    pub(crate) chain: &'a mut Chain,
}

/// A running ring.
#[derive(Debug)]
pub struct Ring<'a> {
    /// The queue.
    pub queue: &'a mut Queue,
    /// How the guest wakes us; None: not at all.
    pub kick: Option<&'a Kick>,
    /// How we wake the guest; None: it polls.
    pub call: Option<&'a Call>,
}

impl<'a> Ring<'a> {
    pub(crate) fn of(state: &'a mut RingState) -> Option<Self> {
        let RingState { queue, kick, call, .. } = state;
        Some(Self { queue: queue.as_mut()?, kick: kick.as_ref(), call: call.as_ref() })
    }
}

impl Rings<'_> {
    /// Writes a frame into the guest's receive buffers. The caller publishes, and calls the guest
    /// if that is needed, and has looked whether the guest does what the header leaves to it
    /// ([`FrameFormat::receive`]).
    #[inline]
    pub fn deliver(&mut self, frame: &[u8], header: NetHeader) -> Result<Delivered, CutOff> {
        match &mut self.receive {
            Some(ring) => self.writer.deliver(ring.queue, self.format, frame, header),
            None => Ok(Delivered::Stopped),
        }
    }

    /// Copies the next frame that the guest transmits, and gives its buffer back; None: there is
    /// none. The caller publishes, and calls the guest if that is needed.
    #[inline]
    pub fn next_frame(&mut self, frame: &mut [u8]) -> Result<Option<Transmitted>, CutOff> {
        let Some(ring) = &mut self.transmit else {
            return Ok(None);
        };
        if !ring.queue.pop(self.chain)? {
            return Ok(None);
        }
        let transmitted = copy_out(self.chain, self.format, frame)?;
        ring.queue.push_used(self.chain.head(), 0);
        Ok(Some(transmitted))
    }
}
