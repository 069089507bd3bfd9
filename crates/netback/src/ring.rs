//! One ring of a NIC: what the front-end has said about it, and the queue while it runs.

use std::{os::fd::OwnedFd, sync::Arc};

use crate::{
    error::CutOff,
    memory::GuestMemory,
    message::RingAddresses,
    notification::{Call, Kick},
    queue::{Queue, QueueSettings},
};

/// What all rings of a NIC depend on.
pub(crate) struct Shared<'a> {
    pub(crate) memory: Option<&'a Arc<GuestMemory>>,
    /// None: the front-end has not set the features yet.
    pub(crate) settings: Option<RingFeatures>,
}

/// What was negotiated about rings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RingFeatures {
    pub(crate) event_idx: bool,
    pub(crate) indirect: bool,
    /// Rings are enabled without being told so: `PROTOCOL_FEATURES` was not negotiated.
    pub(crate) start_enabled: bool,
}

#[derive(Debug, Default)]
pub(crate) struct RingState {
    size: Option<u16>,
    addresses: Option<RingAddresses>,
    /// The next available index, while there is no queue.
    base: u16,
    /// None: not told.
    enabled: Option<bool>,
    /// `SET_VRING_KICK` came, with or without a descriptor, since the ring was stopped.
    started: bool,
    pub(crate) kick: Option<Kick>,
    pub(crate) call: Option<Call>,
    /// Some while the ring runs.
    pub(crate) queue: Option<Queue>,
}

impl RingState {
    pub(crate) fn set_size(&mut self, size: u16) {
        self.size = Some(size);
    }

    pub(crate) fn set_addresses(&mut self, addresses: RingAddresses) {
        self.addresses = Some(addresses);
    }

    pub(crate) fn set_base(&mut self, base: u16) {
        self.base = base;
    }

    pub(crate) fn set_enabled(&mut self, enabled: bool) {
        self.enabled = Some(enabled);
    }

    /// The ring may run from now on; a caller without a descriptor polls.
    pub(crate) fn start(&mut self, fd: Option<OwnedFd>) -> Result<(), CutOff> {
        self.kick = fd.map(Kick::new).transpose()?;
        self.started = true;
        Ok(())
    }

    /// Stops the ring; where it would have gone on. It runs again after the next kick descriptor.
    pub(crate) fn stop(&mut self) -> u16 {
        self.started = false;
        self.kick = None;
        self.halt();
        self.base
    }

    /// Starts, changes or halts the queue, so that it is as the front-end has said by now. A queue
    /// that goes on keeps its indices.
    pub(crate) fn refresh(&mut self, shared: &Shared<'_>) -> Result<(), CutOff> {
        let ready = (|| {
            let features = shared.settings?;
            let enabled = self.enabled.unwrap_or(features.start_enabled) && self.started;
            enabled.then_some((shared.memory?, features, self.size?, self.addresses?))
        })();
        self.halt();
        let Some((memory, features, size, addresses)) = ready else {
            return Ok(());
        };
        let settings = QueueSettings {
            size,
            addresses,
            next_available: self.base,
            event_idx: features.event_idx,
            indirect: features.indirect,
        };
        self.queue = Some(Queue::new(memory, &settings)?);
        Ok(())
    }

    /// Ends the queue if there is one. Everything is published, so the next one goes on here.
    fn halt(&mut self) {
        if let Some(mut queue) = self.queue.take() {
            queue.publish();
            self.base = queue.next_available();
        }
    }
}
