//! A virtual machine at a port: its socket, its connection, and when it is woken.

use std::{
    io,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixListener,
    },
};

use crate::{
    Connection, CutOff, Delivered, Kick, NetHeader, NicSettings, Received, Ring, Session,
    Signalled, TRANSMIT, Transmitted,
};

/// A guest that is attached.
#[derive(Debug)]
struct Guest {
    connection: Connection,
    session: Session,
    /// A reply waits until the front-end reads.
    unsent: bool,
}

/// Where one attaches, and the one that has.
#[derive(Debug)]
pub(crate) struct GuestSide {
    nic: NicSettings,
    listener: UnixListener,
    guest: Option<Guest>,
    /// Frames went in or out since the guest was last told.
    touched: bool,
    again: Option<Again>,
}

/// When a signal is written again that the guest has not reacted to: a User-Mode Linux guest may miss
/// one as it falls asleep. Each time twice as late, and not for ever: a guest that looks for itself may
/// leave it open whether it has.
#[derive(Clone, Copy, Debug)]
struct Again {
    at_ns: u64,
    pause_ns: u64,
}

/// The first pause before that, and the longest one: by then such a guest wakes up by itself.
const AGAIN_NS: u64 = 50_000;
const AGAIN_MAX_NS: u64 = 500_000_000;

/// Why there is no guest any more.
#[derive(Debug)]
pub(crate) enum Gone {
    /// Its front-end hung up.
    HungUp,
    /// It broke the rules.
    CutOff(CutOff),
}

impl GuestSide {
    pub(crate) fn new(nic: NicSettings, listener: UnixListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self { nic, listener, guest: None, touched: false, again: None })
    }

    pub(crate) fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    pub(crate) fn connection(&self) -> Option<BorrowedFd<'_>> {
        Some(self.guest.as_ref()?.connection.as_fd())
    }

    /// Whether a reply waits until the front-end reads.
    pub(crate) fn has_unsent(&self) -> bool {
        self.guest.as_ref().is_some_and(|guest| guest.unsent)
    }

    pub(crate) fn kick(&self) -> Option<BorrowedFd<'_>> {
        self.guest.as_ref()?.session.kick(TRANSMIT).map(AsFd::as_fd)
    }

    pub(crate) fn is_attached(&self) -> bool {
        self.guest.is_some()
    }

    /// The process whose front-end is connected.
    pub(crate) fn process(&self) -> Option<i32> {
        self.guest.as_ref()?.connection.process()
    }

    /// Takes a new connection, if there is none yet: a second one is closed.
    pub(crate) fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.guest.is_none()
                && let Ok(connection) = Connection::new(stream)
            {
                let session = Session::new(self.nic);
                self.guest = Some(Guest { connection, session, unsent: false });
            }
        }
    }

    /// Attaches a guest whose front-end has said all that it had to.
    #[cfg(test)]
    pub(crate) fn attach(&mut self, session: Session) {
        let (_, stream) = std::os::unix::net::UnixStream::pair().unwrap();
        let connection = Connection::new(stream).unwrap();
        self.guest = Some(Guest { connection, session, unsent: false });
    }

    /// Carries out what the front-end asks for; `limit` messages at most, so that a flood of them
    /// holds up nobody else.
    pub(crate) fn serve(&mut self, limit: u32) -> Result<(), Gone> {
        for _ in 0..limit {
            match self.guest.as_mut().map(answer) {
                Some(Ok(true)) => {}
                Some(Err(gone)) => return Err(gone),
                Some(Ok(false)) | None => return Ok(()),
            }
        }
        Ok(())
    }

    pub(crate) fn disconnect(&mut self) {
        self.guest = None;
        (self.touched, self.again) = (false, None);
    }

    /// Copies the next frame that the guest transmits to the start of `frame`.
    #[inline]
    pub(crate) fn next_frame(&mut self, frame: &mut [u8]) -> Result<Option<Transmitted>, CutOff> {
        let Some(guest) = &mut self.guest else {
            return Ok(None);
        };
        let found = guest.session.rings().next_frame(frame)?;
        self.touched |= found.is_some();
        Ok(found)
    }

    /// Whether the guest takes a frame with what this header leaves to it.
    pub(crate) fn takes(&mut self, header: &NetHeader) -> bool {
        let guest = self.guest.as_mut();
        guest.is_some_and(|guest| guest.session.rings().format.receive.cover(header))
    }

    /// How many receive buffers the guest has provided; None: its ring does not run.
    pub(crate) fn buffers(&mut self) -> Option<u32> {
        let receive = self.guest.as_mut().and_then(|guest| guest.session.rings().receive)?;
        // A ring that is broken shows that when a frame is written into it.
        receive.queue.available().ok().map(u32::from)
    }

    /// Writes a frame into the guest's receive ring.
    #[inline]
    pub(crate) fn deliver(&mut self, frame: &[u8], header: NetHeader) -> Result<Delivered, CutOff> {
        let Some(guest) = &mut self.guest else {
            return Ok(Delivered::Stopped);
        };
        let delivered = guest.session.rings().deliver(frame, header)?;
        self.touched |= matches!(delivered, Delivered::Written { .. });
        Ok(delivered)
    }

    /// Shows the guest what was done, and wakes it if it asked for that. False: the file behind its
    /// memory was cut short, so nothing that was read from it means anything.
    pub(crate) fn finish(&mut self, now_ns: u64) -> bool {
        if !std::mem::take(&mut self.touched) {
            return true;
        }
        if self.is_cut_short() {
            return false;
        }
        let mut signalled = false;
        for_each_ring(&mut self.guest, |ring| {
            ring.queue.publish();
            signalled |= ring.queue.needs_call() && signal(&ring);
        });
        if signalled {
            self.again = Some(Again { at_ns: now_ns + AGAIN_NS, pause_ns: AGAIN_NS });
        }
        true
    }

    /// Whether the file behind its memory was cut short.
    pub(crate) fn is_cut_short(&mut self) -> bool {
        let memory = self.guest.as_mut().and_then(|guest| guest.session.rings().memory);
        memory.is_some_and(|memory| memory.is_cut_short())
    }

    /// Writes a signal again once its time has come, as long as the guest has not reacted.
    pub(crate) fn signal_again(&mut self, now_ns: u64) {
        let Some(again) = self.again.filter(|again| again.at_ns <= now_ns) else {
            return;
        };
        let mut unheard = false;
        for_each_ring(&mut self.guest, |ring| {
            unheard |= ring.queue.used_event_passed() && signal(&ring);
        });
        let pause_ns = 2 * again.pause_ns;
        let once_more = unheard && pause_ns <= AGAIN_MAX_NS;
        self.again = once_more.then_some(Again { at_ns: now_ns + pause_ns, pause_ns });
    }

    /// When a signal is to be written again.
    pub(crate) fn signals_at_ns(&self) -> Option<u64> {
        self.again.map(|again| again.at_ns)
    }

    /// Has the guest kick when it transmits; true: it has transmitted meanwhile.
    pub(crate) fn enable_kicks(&mut self) -> Result<bool, CutOff> {
        let transmit = self.guest.as_mut().and_then(|guest| guest.session.rings().transmit);
        transmit.map_or(Ok(false), |ring| ring.queue.enable_kicks())
    }

    /// Whether the guest does not say when it transmits: its ring runs without a kick descriptor.
    pub(crate) fn is_polled(&mut self) -> bool {
        let transmit = self.guest.as_mut().and_then(|guest| guest.session.rings().transmit);
        transmit.is_some_and(|ring| ring.kick.is_none())
    }

    /// Spares the guest kicks.
    pub(crate) fn disable_kicks(&mut self) {
        if let Some(guest) = &mut self.guest
            && let Some(ring) = guest.session.rings().transmit
        {
            ring.queue.disable_kicks();
        }
    }

    /// Takes away what made the kick's descriptor readable; false: its other end is gone.
    pub(crate) fn take_kick(&self) -> bool {
        let guest = self.guest.as_ref();
        guest.and_then(|guest| guest.session.kick(TRANSMIT)).is_none_or(Kick::take)
    }
}

/// Carries out one message; false: there is none.
fn answer(guest: &mut Guest) -> Result<bool, Gone> {
    if guest.unsent {
        guest.unsent = !guest.connection.flush().map_err(Gone::CutOff)?;
    }
    match guest.connection.receive().map_err(Gone::CutOff)? {
        Received::Message(message, fds) => {
            if let Some(reply) = guest.session.handle(message, fds).map_err(Gone::CutOff)? {
                guest.unsent = !guest.connection.reply(&reply).map_err(Gone::CutOff)?;
            }
            Ok(true)
        }
        Received::Nothing => Ok(false),
        Received::Closed => Err(Gone::HungUp),
    }
}

fn for_each_ring(guest: &mut Option<Guest>, mut each: impl FnMut(Ring<'_>)) {
    if let Some(guest) = guest {
        let rings = guest.session.rings();
        [rings.receive, rings.transmit].into_iter().flatten().for_each(&mut each);
    }
}

/// Wakes the guest; false: nobody hears it.
fn signal(ring: &Ring<'_>) -> bool {
    ring.call.is_some_and(|call| call.signal() == Signalled::Delivered)
}
