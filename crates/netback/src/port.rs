//! A port: one NIC of a guest, from its socket to the frames that wait to be scheduled.

use std::{
    io,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixListener,
    },
};

use crate::{
    Connection, CutOff, Delivered, Kick, MIN_FRAME_BYTES, NetHeader, NicSettings, Received, Ring,
    Session, Signalled, TRANSMIT, Transmitted,
    segmentation::{MAX_MERGED_BYTES, Merged},
    staging::{MAX_FRAME_BYTES, Staging},
    vlan,
};

/// What a port is made of.
#[derive(Clone, Debug)]
pub struct PortSettings {
    /// What the guest is told about its NIC.
    pub nic: NicSettings,
    /// Index of the uplink that its frames leave by.
    pub uplink: usize,
    /// Frames with a source address other than the port's are dropped.
    pub check_source: bool,
    /// The VLAN that it belongs to: its guest's frames have no tag, and on the uplink they have one.
    /// None: the guest's frames are as they are on the uplink, tags and all.
    pub vlan: Option<u16>,
}

/// What became of a port's frames, since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct PortCounters {
    /// Frames that the guest transmitted, whatever became of them. One that was divided counts as what
    /// it was divided into.
    pub transmitted: u64,
    /// Of these: with another source address than the port's.
    pub wrong_source: u64,
    /// Of these: too short, too long, with a tag at a port with a VLAN, or with work left to the device
    /// that it did not offer or cannot do.
    pub malformed: u64,
    /// Of these: handed to the uplink, or to other ports.
    pub sent: u64,
    /// Bytes of what was handed to the uplink, on the wire: with preamble, check sequence and gap.
    pub link_bytes: u64,
    /// Of these: lost because the uplink had no space for them.
    pub output_full: u64,
    /// Of these: waiting to be scheduled.
    pub waiting: u64,
    /// Frames for the guest that lie in its receive ring.
    pub delivered: u64,
    /// Frames for the guest that found no receive buffer.
    pub ring_full: u64,
    /// Frames for the guest that none of its buffers would hold.
    pub too_long: u64,
    /// Frames for the guest while its ring did not run, or there was none.
    pub no_guest: u64,
    /// Whether a guest's front-end is connected.
    pub attached: bool,
    /// How often a guest was cut off.
    pub cut_offs: u64,
    /// Why the last one was.
    pub last_cut_off: Option<String>,
}

/// A guest at a port.
#[derive(Debug)]
struct Guest {
    connection: Connection,
    session: Session,
    /// A reply waits until the front-end reads.
    unsent: bool,
}

/// One port.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) settings: PortSettings,
    pub(crate) counters: PortCounters,
    pub(crate) staging: Staging,
    /// What is left of a frame that the guest wanted divided.
    pub(crate) merged: Merged,
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

impl Port {
    pub(crate) fn new(settings: PortSettings, listener: UnixListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self {
            settings,
            counters: PortCounters::default(),
            staging: Staging::new(),
            merged: Merged::default(),
            listener,
            guest: None,
            touched: false,
            again: None,
        })
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

    /// Its counters, and what waits.
    pub(crate) fn counted(&self) -> PortCounters {
        PortCounters {
            waiting: (self.staging.len() + self.merged.left()) as u64,
            attached: self.guest.is_some(),
            ..self.counters.clone()
        }
    }

    /// Takes a new connection, if there is none yet: a second one is closed.
    pub(crate) fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.guest.is_none()
                && let Ok(connection) = Connection::new(stream)
            {
                let session = Session::new(self.settings.nic);
                self.guest = Some(Guest { connection, session, unsent: false });
            }
        }
    }

    /// Carries out what the front-end asks for; `limit` messages at most, so that a flood of them
    /// holds up nobody else.
    pub(crate) fn serve(&mut self, limit: u32) {
        for _ in 0..limit {
            match self.guest.as_mut().map(answer) {
                Some(Ok(true)) => {}
                Some(Err(Some(reason))) => self.cut_off(&reason),
                Some(Err(None)) => self.disconnect(),
                Some(Ok(false)) | None => return,
            }
        }
    }

    /// Ends a guest's connection for a reason; once, however often it was found out in a round.
    pub(crate) fn cut_off(&mut self, reason: &CutOff) {
        if self.guest.is_none() {
            return;
        }
        // Empty memory looks wrong in many ways; this is why.
        let reason = if self.is_cut_short() { &CutOff::CutShort } else { reason };
        self.counters.cut_offs += 1;
        self.counters.last_cut_off = Some(reason.to_string());
        self.disconnect();
    }

    fn disconnect(&mut self) {
        self.guest = None;
        (self.touched, self.again) = (false, None);
    }

    /// Copies the next frame that the guest transmits to the start of `frame`, as it is on the uplink,
    /// and counts it; None: there is none. One that is not to be sent has no bytes. The header says what
    /// is left to do.
    pub(crate) fn next_frame(
        &mut self,
        frame: &mut [u8],
    ) -> Result<Option<(usize, NetHeader)>, CutOff> {
        const DROPPED: Option<(usize, NetHeader)> = Some((0, NetHeader::NONE));
        if let Some(bytes) = self.merged.next(frame) {
            return Ok(Some((bytes, NetHeader::NONE)));
        }
        let Some(guest) = &mut self.guest else {
            return Ok(None);
        };
        let tag_bytes = self.settings.vlan.map_or(0, |_| vlan::TAG_BYTES);
        let limit = frame.len() - tag_bytes;
        let Some(found) = guest.session.rings().next_frame(&mut frame[..limit])? else {
            return Ok(None);
        };
        self.touched = true;
        self.counters.transmitted += 1;
        let Transmitted::Frame(bytes, header) = found else {
            self.counters.malformed += 1;
            return Ok(DROPPED);
        };
        let longest = if header.is_merged() { MAX_MERGED_BYTES } else { MAX_FRAME_BYTES };
        let has_own_tag = self.settings.vlan.is_some() && vlan::is_tagged(&frame[..bytes]);
        if has_own_tag || bytes + tag_bytes > longest {
            self.counters.malformed += 1;
            return Ok(DROPPED);
        }
        if self.settings.check_source && frame[6..12] != self.settings.nic.mac {
            self.counters.wrong_source += 1;
            return Ok(DROPPED);
        }
        Ok(Some(match self.settings.vlan {
            Some(number) => (vlan::insert(frame, bytes, number), header.tagged()),
            None => (bytes, header),
        }))
    }

    /// Whether its guest takes a frame with what this header leaves to it.
    pub(crate) fn takes(&mut self, header: &NetHeader) -> bool {
        let guest = self.guest.as_mut();
        guest.is_some_and(|guest| guest.session.rings().format.receive.cover(header))
    }

    /// Writes a frame into the guest's receive ring, with what is left to it, or counts why not.
    pub(crate) fn deliver(&mut self, frame: &[u8], header: NetHeader) -> Result<bool, CutOff> {
        debug_assert!(frame.len() >= MIN_FRAME_BYTES && frame.len() <= MAX_MERGED_BYTES);
        let delivered = match &mut self.guest {
            Some(guest) => guest.session.rings().deliver(frame, header)?,
            None => Delivered::Stopped,
        };
        let counter = match delivered {
            Delivered::Written { .. } => {
                self.touched = true;
                &mut self.counters.delivered
            }
            Delivered::Full => &mut self.counters.ring_full,
            Delivered::TooLong => &mut self.counters.too_long,
            Delivered::Stopped => &mut self.counters.no_guest,
        };
        *counter += 1;
        Ok(matches!(delivered, Delivered::Written { .. }))
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

    fn is_cut_short(&mut self) -> bool {
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

/// Carries out one message; false: there is none. An error without a reason: it hung up.
fn answer(guest: &mut Guest) -> Result<bool, Option<CutOff>> {
    if guest.unsent {
        guest.unsent = !guest.connection.flush().map_err(Some)?;
    }
    match guest.connection.receive().map_err(Some)? {
        Received::Message(message, fds) => {
            if let Some(reply) = guest.session.handle(message, fds).map_err(Some)? {
                guest.unsent = !guest.connection.reply(&reply).map_err(Some)?;
            }
            Ok(true)
        }
        Received::Nothing => Ok(false),
        Received::Closed => Err(None),
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
