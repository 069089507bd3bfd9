//! What others ask of a back-end that is at work, and tell it.

use std::{
    os::unix::net::UnixStream,
    sync::mpsc::{self, Sender},
};

use crate::{PortCounters, Refused, Sharing, UplinkCounters};

/// All counters: of ports and of uplinks, in the order of their settings.
pub type Counters = (Vec<PortCounters>, Vec<UplinkCounters>);

/// What it is told to do.
pub(crate) enum Command {
    Counters(Sender<Counters>),
    Share(Sharing, Option<u64>, Sender<Result<(), Refused>>),
    Stop,
}

/// What others do with a back-end that is at work.
#[derive(Debug)]
pub struct Handle {
    commands: Sender<Command>,
    wake: UnixStream,
}

/// The back-end has ended.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the back-end has ended")]
pub struct Ended;

impl Handle {
    /// One for a back-end that hears these commands, and that this socket wakes.
    pub(crate) fn new(commands: Sender<Command>, wake: UnixStream) -> Self {
        Self { commands, wake }
    }

    /// What became of all frames so far.
    pub fn counters(&self) -> Result<Counters, Ended> {
        let (sender, told) = mpsc::channel();
        self.tell(Command::Counters(sender))?;
        told.recv().map_err(|_| Ended)
    }

    /// Has it share its uplinks like this from a moment on, ns of `CLOCK_MONOTONIC`, or from the
    /// next frame on; that also cancels what was to come later. Frames that wait stay.
    pub fn share(&self, sharing: Sharing, from_ns: Option<u64>) -> Result<(), Refused> {
        let (sender, told) = mpsc::channel();
        self.tell(Command::Share(sharing, from_ns, sender))?;
        told.recv().map_err(|_| Ended)?
    }

    /// Has it end.
    pub fn stop(&self) {
        let _ = self.tell(Command::Stop);
    }

    fn tell(&self, command: Command) -> Result<(), Ended> {
        use std::io::Write;
        self.commands.send(command).map_err(|_| Ended)?;
        // A full buffer wakes it as well.
        let _ = (&self.wake).write(&[0]);
        Ok(())
    }
}
