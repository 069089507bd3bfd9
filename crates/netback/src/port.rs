//! A port: one NIC of a router, from what it transmits to the frames that wait to be scheduled.

use std::{io, os::unix::net::UnixListener};

use crate::{
    CutOff, Delivered, MIN_FRAME_BYTES, NetHeader, NicSettings, Transmitted,
    admission::Gate,
    carrier::Carriers,
    guest::{Gone, GuestSide},
    interface_side::{InterfaceSide, Lost},
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
    /// None: the guest's frames are as they are on the uplink, tags and all, so it may send into each VLAN
    /// there.
    pub vlan: Option<u16>,
    /// How long frames of other ports wait until its router provides receive buffers, ns; 0: not at all.
    pub max_wait_ns: u64,
}

/// What became of a port's frames, since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct PortCounters {
    /// Frames that the router transmitted, whatever became of them. One that was divided counts as what
    /// it was divided into.
    pub transmitted: u64,
    /// Of these: with another source address than the port's.
    pub wrong_source: u64,
    /// Of these: too short, longer than the NIC's MTU allows, with a tag at a port with a VLAN, or with work left to the device
    /// that it did not offer or cannot do.
    pub malformed: u64,
    /// Of these: handed to the uplink, or to other ports.
    pub sent: u64,
    /// Bytes of what was handed to the uplink, on the wire: with preamble, check sequence and gap.
    pub link_bytes: u64,
    /// Of these: lost because the uplink had no space for them.
    pub output_full: u64,
    /// Of these: lost because they were not taken in time; behind an interface only.
    pub not_taken: u64,
    /// Of these: waiting to be scheduled.
    pub waiting: u64,
    /// Frames for the guest that lie in its receive ring, or were handed to the interface.
    pub delivered: u64,
    /// Frames for the guest that found no receive buffer, or for which the interface had no space.
    pub ring_full: u64,
    /// Of these: dropped before they were copied.
    pub dropped_early: u64,
    /// Frames for the guest that none of its buffers would hold, or that the interface refused for their form.
    pub too_long: u64,
    /// Frames for the guest while its ring did not run, or there was none, or no interface.
    pub no_guest: u64,
    /// Whether a guest's front-end is connected, or the interface is there.
    pub attached: bool,
    /// The process whose front-end is connected; None: there is none, or none that can be seen.
    pub process: Option<i32>,
    /// How often a guest was cut off.
    pub cut_offs: u64,
    /// Why the last one was.
    pub last_cut_off: Option<String>,
}

/// How a router is attached to a port.
#[derive(Debug)]
pub enum Attachment {
    /// A virtual machine, whose front-end connects to this socket.
    Socket(UnixListener),
    /// Any router, behind an interface of this name: the host's end of a container's pair, a tap.
    Interface(String),
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "guests are many, and each frame goes by here")]
enum Side {
    Guest(GuestSide),
    Interface(InterfaceSide),
}

/// One port.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) settings: PortSettings,
    pub(crate) counters: PortCounters,
    pub(crate) staging: Staging,
    /// What is left of a frame that was to be divided.
    pub(crate) merged: Merged,
    /// Of its frames, those that wait for other ports.
    pub(crate) held: u64,
    /// What its uplink lets in for it; None: all.
    pub(crate) gate: Option<Gate>,
    side: Side,
}

impl Port {
    pub(crate) fn new(
        settings: PortSettings,
        attachment: Attachment,
        carriers: &Carriers,
    ) -> io::Result<Self> {
        let side = match attachment {
            Attachment::Socket(listener) => Side::Guest(GuestSide::new(settings.nic, listener)?),
            Attachment::Interface(name) => {
                Side::Interface(InterfaceSide::new(&name, settings.nic.offloads, carriers)?)
            }
        };
        Ok(Self {
            settings,
            counters: PortCounters::default(),
            staging: Staging::new(),
            merged: Merged::default(),
            held: 0,
            gate: None,
            side,
        })
    }

    /// What a virtual machine attaches to; None: this port has an interface.
    pub(crate) fn guest(&self) -> Option<&GuestSide> {
        match &self.side {
            Side::Guest(guest) => Some(guest),
            Side::Interface(_) => None,
        }
    }

    pub(crate) fn guest_mut(&mut self) -> Option<&mut GuestSide> {
        match &mut self.side {
            Side::Guest(guest) => Some(guest),
            Side::Interface(_) => None,
        }
    }

    /// The interface behind which its router is; None: virtual machines attach to this port.
    pub(crate) fn interface_mut(&mut self) -> Option<&mut InterfaceSide> {
        match &mut self.side {
            Side::Guest(_) => None,
            Side::Interface(interface) => Some(interface),
        }
    }

    /// Its counters, and what waits.
    pub(crate) fn counted(&mut self) -> PortCounters {
        let (attached, process, lost) = match &mut self.side {
            Side::Guest(guest) => (guest.is_attached(), guest.process(), Lost::default()),
            Side::Interface(interface) => (interface.is_bound(), None, interface.lost()),
        };
        let dropped_early = self.gate.as_ref().map_or(0, Gate::refused);
        PortCounters {
            transmitted: self.counters.transmitted + lost.not_taken + lost.too_long,
            malformed: self.counters.malformed + lost.too_long,
            not_taken: lost.not_taken,
            delivered: self.counters.delivered - lost.refused,
            too_long: self.counters.too_long + lost.refused,
            ring_full: self.counters.ring_full + dropped_early,
            dropped_early,
            waiting: (self.staging.len() + self.merged.left()) as u64 + self.held,
            attached,
            process,
            ..self.counters.clone()
        }
    }

    /// Carries out what a guest's front-end asks for; `limit` messages at most.
    pub(crate) fn serve(&mut self, limit: u32) {
        match self.guest_mut().map(|guest| guest.serve(limit)) {
            Some(Err(Gone::CutOff(reason))) => self.cut_off(&reason),
            Some(Err(Gone::HungUp)) => self.disconnect(),
            Some(Ok(())) | None => {}
        }
    }

    /// Ends a guest's connection for a reason; once, however often it was found out in a round.
    pub(crate) fn cut_off(&mut self, reason: &CutOff) {
        let Some(guest) = self.guest_mut().filter(|guest| guest.is_attached()) else {
            return;
        };
        // Empty memory looks wrong in many ways; this is why.
        let reason = if guest.is_cut_short() { &CutOff::CutShort } else { reason };
        self.counters.cut_offs += 1;
        self.counters.last_cut_off = Some(reason.to_string());
        self.disconnect();
    }

    fn disconnect(&mut self) {
        if let Some(guest) = self.guest_mut() {
            guest.disconnect();
        }
    }

    /// Copies the next frame that the router transmits to the start of `frame`, as it is on the uplink,
    /// and counts it; None: there is none. One that is not to be sent has no bytes. The header says what
    /// is left to do.
    #[inline]
    pub(crate) fn next_frame(
        &mut self,
        frame: &mut [u8],
    ) -> Result<Option<(usize, NetHeader)>, CutOff> {
        const DROPPED: Option<(usize, NetHeader)> = Some((0, NetHeader::NONE));
        if let Some(bytes) = self.merged.next(frame) {
            return Ok(Some((bytes, NetHeader::NONE)));
        }
        let tag_bytes = self.settings.vlan.map_or(0, |_| vlan::TAG_BYTES);
        let limit = frame.len() - tag_bytes;
        let found = match &mut self.side {
            Side::Guest(guest) => guest.next_frame(&mut frame[..limit])?,
            Side::Interface(interface) => interface.next_frame(&mut frame[..limit]),
        };
        let Some(found) = found else {
            return Ok(None);
        };
        self.counters.transmitted += 1;
        let Transmitted::Frame(bytes, header) = found else {
            self.counters.malformed += 1;
            return Ok(DROPPED);
        };
        if !self.is_well_formed(&frame[..bytes], header) {
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

    /// Whether a frame of its router has the form that it may have at this port.
    fn is_well_formed(&self, frame: &[u8], header: NetHeader) -> bool {
        let PortSettings { nic, vlan, .. } = &self.settings;
        let Some((payload_at, _)) = vlan::payload(frame) else {
            return false;
        };
        let tag_bytes = vlan.map_or(0, |_| vlan::TAG_BYTES);
        let longest = if header.is_merged() {
            MAX_MERGED_BYTES
        } else {
            MAX_FRAME_BYTES.min(payload_at + usize::from(nic.mtu) + tag_bytes)
        };
        let has_own_tag = vlan.is_some() && vlan::is_tagged(frame);
        // Whoever sums up writes the sum where the header says: never into what is checked or put in here.
        let is_outside = header.needs_checksum() && !header.sums_up_payload(frame);
        !has_own_tag && !is_outside && frame.len() + tag_bytes <= longest
    }

    /// Whether its router takes a frame with what this header leaves to it.
    pub(crate) fn takes(&mut self, header: &NetHeader) -> bool {
        match &mut self.side {
            Side::Guest(guest) => guest.takes(header),
            Side::Interface(interface) => interface.takes(header),
        }
    }

    /// Hands a frame to its router, with what is left to it, or counts why not; but for a full ring, since
    /// the frame may wait then.
    #[inline]
    pub(crate) fn offer(&mut self, frame: &[u8], header: NetHeader) -> Result<Delivered, CutOff> {
        debug_assert!(frame.len() >= MIN_FRAME_BYTES && frame.len() <= MAX_MERGED_BYTES);
        let delivered = match &mut self.side {
            Side::Guest(guest) => guest.deliver(frame, header)?,
            Side::Interface(interface) => interface.deliver(frame, header),
        };
        match delivered {
            Delivered::Written { .. } => self.counters.delivered += 1,
            Delivered::Full => {}
            Delivered::TooLong => self.counters.too_long += 1,
            Delivered::Stopped => self.counters.no_guest += 1,
        }
        Ok(delivered)
    }

    /// A frame for it was taken from its uplink.
    pub(crate) fn took(&mut self) {
        self.gate.iter_mut().for_each(Gate::took);
    }

    /// Shows the router what was done. False: the file behind a guest's memory was cut short, so
    /// nothing that was read from it means anything.
    pub(crate) fn finish(&mut self, now_ns: u64) -> bool {
        if self.gate.as_ref().is_some_and(Gate::is_stale) {
            let buffers = match &mut self.side {
                Side::Guest(guest) => guest.buffers(),
                Side::Interface(interface) => interface.buffers(),
            };
            self.gate.iter_mut().for_each(|gate| gate.open(buffers));
        }
        match &mut self.side {
            Side::Guest(guest) => guest.finish(now_ns),
            Side::Interface(interface) => {
                interface.finish(now_ns);
                true
            }
        }
    }

    /// Does what was to be done by now: signals a guest again, looks for an interface that was gone.
    pub(crate) fn in_time(&mut self, now_ns: u64, carriers: &Carriers) {
        match &mut self.side {
            Side::Guest(guest) => guest.signal_again(now_ns),
            Side::Interface(interface) => interface.in_time(now_ns, carriers),
        }
    }

    /// When something is to be done.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        match &self.side {
            Side::Guest(guest) => guest.signals_at_ns(),
            Side::Interface(interface) => interface.due_ns(),
        }
    }

    /// Has a guest kick when it transmits; true: it has transmitted meanwhile.
    pub(crate) fn enable_kicks(&mut self) -> Result<bool, CutOff> {
        self.guest_mut().map_or(Ok(false), GuestSide::enable_kicks)
    }

    /// Whether nobody tells when its router transmits.
    pub(crate) fn is_polled(&mut self) -> bool {
        self.guest_mut().is_some_and(GuestSide::is_polled)
    }

    /// Spares a guest kicks.
    pub(crate) fn disable_kicks(&mut self) {
        if let Some(guest) = self.guest_mut() {
            guest.disable_kicks();
        }
    }
}

#[cfg(test)]
mod tests;
