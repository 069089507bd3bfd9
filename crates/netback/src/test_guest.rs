//! A port with a guest, for tests of what a guest can do to others.

use std::{
    os::{
        fd::{BorrowedFd, OwnedFd},
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixListener},
    },
    sync::atomic::{AtomicU32, Ordering},
};

use crate::{
    Attachment, Message, NetHeader, NicSettings, PortSettings, RECEIVE, Request, RingAddresses,
    Session, TRANSMIT,
    carrier::Carriers,
    driver::{Driver, Guest, Part},
    feature,
    port::Port,
};

const BYTES: u64 = 0x8_0000;
/// Descriptors of each ring.
pub(crate) const SIZE: u16 = 64;
const RINGS_AT: [u64; 2] = [0, 0x4000];
const BUFFERS: [u64; 2] = [0x2_0000, 0x5_0000];
const BUFFER_BYTES: u64 = 0x800;

/// A guest's memory and its drivers of both rings.
pub(crate) struct TestGuest {
    memory: Guest,
    drivers: [Driver; 2],
}

/// Settings of a port of the first uplink whose address ends with this octet.
pub(crate) fn settings(last: u8) -> PortSettings {
    PortSettings {
        nic: NicSettings { mac: [2, 0, 0, 0, 0, last], mtu: 1500, offloads: true },
        uplink: 0,
        check_source: true,
        vlan: None,
        max_wait_ns: 1_000_000,
    }
}

/// A socket that nobody else has.
pub(crate) fn socket() -> Attachment {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("isolane-guest-{}-{number}", std::process::id());
    Attachment::Socket(
        UnixListener::bind_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap(),
    )
}

/// A port with a guest, all offloads negotiated, whose rings run; without kick descriptors.
pub(crate) fn port(settings: PortSettings) -> (Port, TestGuest) {
    let mut port = Port::new(settings, socket(), &Carriers::new().unwrap()).unwrap();
    let guest = TestGuest::attached_to(&mut port);
    (port, guest)
}

impl TestGuest {
    /// A new guest at a port, without kick descriptors.
    pub(crate) fn attached_to(port: &mut Port) -> Self {
        Self::with_kick(port, None)
    }

    /// A new guest at a port, with this kick descriptor for both rings.
    pub(crate) fn with_kick(port: &mut Port, kick: Option<BorrowedFd<'_>>) -> Self {
        let memory = Guest::new(BYTES);
        let drivers = RINGS_AT.map(|at| Driver::new(&memory, at, SIZE, 0));
        let mut session = Session::new(port.settings.nic);
        let mut ask = |request, fds: Vec<OwnedFd>| {
            session.handle(Message { request, code: 99, need_reply: false }, fds).unwrap();
        };
        let features = feature::OFFERED | feature::OFFLOADS;
        ask(Request::SetFeatures { features }, Vec::new());
        let file = memory.file.try_clone().unwrap().into();
        ask(Request::SetMemTable { regions: vec![memory.region()] }, vec![file]);
        for (index, driver) in (0..).zip(&drivers) {
            let addresses: RingAddresses = driver.addresses();
            ask(Request::SetVringNum { index, size: SIZE.into() }, Vec::new());
            ask(Request::SetVringAddr { index, flags: 0, addresses }, Vec::new());
            let fds = kick.iter().map(|fd| fd.try_clone_to_owned().unwrap()).collect();
            ask(Request::SetVringKick { index, has_descriptor: kick.is_some() }, fds);
            ask(Request::SetVringEnable { index, enabled: true }, Vec::new());
        }
        port.guest_mut().unwrap().attach(session);
        Self { memory, drivers }
    }

    /// Has the guest transmit a frame with this header.
    pub(crate) fn transmit(&mut self, header: NetHeader, frame: &[u8]) {
        let _ = self.drivers[TRANSMIT].reclaim(&self.memory);
        let driver = &mut self.drivers[TRANSMIT];
        let at = BUFFERS[TRANSMIT] + u64::from(driver.available % SIZE) * BUFFER_BYTES;
        let bytes = [&header.to_bytes()[..], frame].concat();
        self.memory.write(at, &bytes);
        let bytes = bytes.len().try_into().unwrap();
        driver.add(&self.memory, &[Part { at, bytes, writable: false }]);
    }

    /// Has the guest provide a receive buffer of so many bytes.
    pub(crate) fn provide(&mut self, bytes: u32) {
        let driver = &mut self.drivers[RECEIVE];
        let at = BUFFERS[RECEIVE] + u64::from(driver.available % SIZE) * BUFFER_BYTES;
        driver.add(&self.memory, &[Part { at, bytes, writable: true }]);
    }

    /// Frames that the guest has received since, without their headers; each in a buffer of its own.
    pub(crate) fn received(&mut self) -> Vec<Vec<u8>> {
        let slot = u64::from(self.drivers[RECEIVE].used);
        let used = self.drivers[RECEIVE].reclaim(&self.memory);
        let frame = |(number, (_, bytes)): (u64, (u16, u32))| {
            let at = BUFFERS[RECEIVE] + (slot + number) % u64::from(SIZE) * BUFFER_BYTES;
            self.memory.read(at, bytes as usize).split_off(crate::NET_HEADER_BYTES)
        };
        (0..).zip(used).map(frame).collect()
    }
}
