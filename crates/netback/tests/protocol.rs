//! The protocol against another implementation's front-end, over a real socket.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    io::Read,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::net::{UnixListener, UnixStream},
    },
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard},
    thread::{self, JoinHandle},
};

use crate::driver::{Driver, GUEST, Guest, Part, USER, runs};
use isolane_netback::{
    Connection, CutOff, Delivered, NetHeader, NicSettings, RECEIVE, Received, Session, Signalled,
    TRANSMIT, Transmitted, feature, protocol_feature,
};
use vhost::{
    VhostBackend as _, VhostUserMemoryRegionInfo, VringConfigData,
    vhost_user::{
        Frontend, VhostUserFrontend as _, VhostUserProtocolFeatures,
        message::{VhostUserConfigFlags, VhostUserHeaderFlag},
    },
};
use vmm_sys_util::eventfd::EventFd;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 7];
const MTU: u16 = 1500;
/// How many descriptors a ring has.
const SIZE: u16 = 16;
const BUFFERS: u64 = 0x1_0000;

/// A back-end of one NIC that answers in a thread of its own until the front-end is gone.
struct Backend {
    session: Arc<Mutex<Session>>,
    thread: JoinHandle<Result<(), CutOff>>,
}

impl Backend {
    fn start(stream: UnixStream) -> Self {
        let session =
            Arc::new(Mutex::new(Session::new(NicSettings { mac: MAC, mtu: MTU, offloads: true })));
        let served = Arc::clone(&session);
        Self { session, thread: thread::spawn(move || serve(Connection::new(stream)?, &served)) }
    }

    fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap()
    }
}

fn serve(mut connection: Connection, session: &Mutex<Session>) -> Result<(), CutOff> {
    loop {
        match connection.receive()? {
            Received::Message(message, fds) => {
                let reply = session.lock().unwrap().handle(message, fds)?;
                if let Some(reply) = reply {
                    assert!(connection.reply(&reply)?, "the front-end reads each reply");
                }
            }
            Received::Nothing => wait_readable(&connection),
            Received::Closed => return Ok(()),
        }
    }
}

fn wait_readable(connection: &Connection) {
    let fd = connection.as_fd().as_raw_fd();
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one structure, as said.
    assert_eq!(unsafe { libc::poll(&raw mut poll, 1, -1) }, 1);
}

fn connect() -> (Frontend, Backend) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    (Frontend::from_stream(theirs, 2), Backend::start(ours))
}

fn region(guest: &Guest) -> VhostUserMemoryRegionInfo {
    VhostUserMemoryRegionInfo {
        guest_phys_addr: GUEST,
        memory_size: guest.bytes,
        userspace_addr: USER,
        mmap_offset: 0,
        mmap_handle: guest.file.as_raw_fd(),
    }
}

fn ring(driver: &Driver) -> VringConfigData {
    let addresses = driver.addresses();
    VringConfigData {
        queue_max_size: driver.size,
        queue_size: driver.size,
        flags: 0,
        desc_table_addr: addresses.descriptors,
        used_ring_addr: addresses.used,
        avail_ring_addr: addresses.available,
        log_addr: None,
    }
}

/// Negotiates everything; from here on each message is acknowledged.
fn negotiate(frontend: &mut Frontend) {
    frontend.set_owner().unwrap();
    let features = frontend.get_features().unwrap();
    assert_eq!(features, feature::OFFERED | feature::OFFLOADS);
    let protocol_features = frontend.get_protocol_features().unwrap();
    assert_eq!(protocol_features.bits(), protocol_feature::OFFERED);
    frontend.set_protocol_features(protocol_features).unwrap();
    frontend.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
    frontend.set_features(features).unwrap();
}

/// Kick and call of a ring.
struct Notifiers {
    kick: EventFd,
    call: EventFd,
}

fn set_up_ring(frontend: &mut Frontend, index: usize, driver: &Driver) -> Notifiers {
    let nonblocking = libc::EFD_NONBLOCK;
    let notifiers = Notifiers {
        kick: EventFd::new(nonblocking).unwrap(),
        call: EventFd::new(nonblocking).unwrap(),
    };
    frontend.set_vring_num(index, driver.size).unwrap();
    frontend.set_vring_base(index, driver.available).unwrap();
    frontend.set_vring_addr(index, &ring(driver)).unwrap();
    frontend.set_vring_err(index, &EventFd::new(0).unwrap()).unwrap();
    frontend.set_vring_call(index, &notifiers.call).unwrap();
    frontend.set_vring_kick(index, &notifiers.kick).unwrap();
    notifiers
}

#[test]
fn a_machine_sends_and_receives_and_goes() {
    let (mut frontend, backend) = connect();
    let guest = Guest::new(0x4_0000);
    let mut receive = Driver::new(&guest, 0, SIZE, 65530);
    let mut transmit = Driver::new(&guest, 0x8000, SIZE, 65535);
    negotiate(&mut frontend);
    frontend.set_mem_table(&[region(&guest)]).unwrap();
    set_up_ring(&mut frontend, RECEIVE, &receive);
    let notifiers = set_up_ring(&mut frontend, TRANSMIT, &transmit);
    assert!(!runs(&mut backend.session(), TRANSMIT), "not enabled yet");
    for index in [RECEIVE, TRANSMIT] {
        frontend.set_vring_enable(index, true).unwrap();
        assert!(runs(&mut backend.session(), index));
    }

    guest.write(BUFFERS + 12, b"from the guest, a frame");
    transmit.add(&guest, &[Part { at: BUFFERS, bytes: 12 + 23, writable: false }]);
    receive.add(&guest, &[Part { at: BUFFERS + 0x1000, bytes: 100, writable: true }]);
    notifiers.kick.write(1).unwrap();
    {
        let mut session = backend.session();
        assert!(session.kick(TRANSMIT).unwrap().take());
        assert!(!session.kick(RECEIVE).unwrap().take());
        let mut rings = session.rings();
        let mut frame = [0; 100];
        assert_eq!(
            rings.next_frame(&mut frame).unwrap(),
            Some(Transmitted::Frame(23, NetHeader::NONE))
        );
        assert_eq!(&frame[..23], b"from the guest, a frame");
        assert_eq!(rings.next_frame(&mut frame).unwrap(), None);
        let ring = rings.transmit.as_mut().unwrap();
        ring.queue.publish();
        assert!(ring.queue.needs_call());
        assert_eq!(ring.call.unwrap().signal(), Signalled::Delivered);
        let delivered = rings.deliver(b"to the guest, a frame", NetHeader::NONE).unwrap();
        assert_eq!(delivered, Delivered::Written { buffers: 1 });
        assert_eq!(rings.deliver(&[0; 14], NetHeader::NONE).unwrap(), Delivered::Full);
        rings.receive.as_mut().unwrap().queue.publish();
    }
    assert_eq!(notifiers.call.read().unwrap(), 1);
    assert_eq!(transmit.reclaim(&guest).len(), 1);
    assert_eq!(receive.reclaim(&guest)[0].1, 12 + 21);
    assert_eq!(guest.read(BUFFERS + 0x1000 + 12, 21), b"to the guest, a frame");

    // As QEMU does since 7.2: disabled before it is stopped.
    frontend.set_vring_enable(TRANSMIT, false).unwrap();
    assert!(!runs(&mut backend.session(), TRANSMIT));
    assert_eq!(frontend.get_vring_base(TRANSMIT).unwrap(), 0);
    assert_eq!(frontend.get_vring_base(RECEIVE).unwrap(), 65531);
    assert!(!runs(&mut backend.session(), RECEIVE));
    assert_eq!(
        backend.session().rings().deliver(&[0; 14], NetHeader::NONE).unwrap(),
        Delivered::Stopped
    );
    drop(frontend);
    backend.thread.join().unwrap().unwrap();
}

#[test]
fn a_stopped_ring_goes_on_where_it_was() {
    let (mut frontend, backend) = connect();
    let guest = Guest::new(0x4_0000);
    let mut transmit = Driver::new(&guest, 0x8000, SIZE, 0);
    negotiate(&mut frontend);
    frontend.set_mem_table(&[region(&guest)]).unwrap();
    set_up_ring(&mut frontend, TRANSMIT, &transmit);
    frontend.set_vring_enable(TRANSMIT, true).unwrap();
    let mut send = || {
        transmit.add(&guest, &[Part { at: BUFFERS, bytes: 40, writable: false }]);
        let mut session = backend.session();
        let mut rings = session.rings();
        let sent = rings.next_frame(&mut [0; 100]).unwrap();
        rings.transmit.unwrap().queue.publish();
        sent.is_some() && transmit.reclaim(&guest).len() == 1
    };
    assert!(send());
    assert!(send());
    let base = frontend.get_vring_base(TRANSMIT).unwrap();
    assert_eq!(base, 2);
    assert!(!runs(&mut backend.session(), TRANSMIT));
    frontend.set_vring_base(TRANSMIT, 2).unwrap();
    frontend.set_vring_kick(TRANSMIT, &EventFd::new(0).unwrap()).unwrap();
    assert!(runs(&mut backend.session(), TRANSMIT));
    assert!(send());
    // Disabled and enabled again, without a word about the base.
    frontend.set_vring_enable(TRANSMIT, false).unwrap();
    frontend.set_vring_enable(TRANSMIT, true).unwrap();
    assert!(send());
    assert_eq!(frontend.get_vring_base(TRANSMIT).unwrap(), 4);
}

#[test]
fn memory_that_changes_while_rings_run() {
    let (mut frontend, backend) = connect();
    let guest = Guest::new(0x4_0000);
    let mut transmit = Driver::new(&guest, 0x8000, SIZE, 65535);
    negotiate(&mut frontend);
    frontend.set_mem_table(&[region(&guest)]).unwrap();
    set_up_ring(&mut frontend, TRANSMIT, &transmit);
    frontend.set_vring_enable(TRANSMIT, true).unwrap();
    let old = Arc::downgrade(backend.session().rings().memory.unwrap());
    let buffer = [Part { at: BUFFERS, bytes: 40, writable: false }];
    transmit.add(&guest, &buffer);
    transmit.add(&guest, &buffer);
    assert!(backend.session().rings().next_frame(&mut [0; 100]).unwrap().is_some());

    // Not published when the table comes: it must not be lost.
    let half = guest.bytes / 2;
    let first = VhostUserMemoryRegionInfo { memory_size: half, ..region(&guest) };
    let second = VhostUserMemoryRegionInfo {
        guest_phys_addr: GUEST + half,
        userspace_addr: USER + half,
        mmap_offset: half,
        ..first
    };
    frontend.set_mem_table(&[second, first]).unwrap();
    assert!(old.upgrade().is_none(), "the old table is unmapped");
    assert_eq!(transmit.reclaim(&guest).len(), 1);
    let mut session = backend.session();
    assert!(runs(&mut session, TRANSMIT));
    let mut rings = session.rings();
    assert!(rings.next_frame(&mut [0; 100]).unwrap().is_some());
    assert!(rings.next_frame(&mut [0; 100]).unwrap().is_none());
    rings.transmit.unwrap().queue.publish();
    assert_eq!(transmit.reclaim(&guest).len(), 1);
}

#[test]
fn the_configuration_is_read_and_not_written() {
    let (mut frontend, _backend) = connect();
    negotiate(&mut frontend);
    let flags = VhostUserConfigFlags::WRITABLE;
    let (_, config) = frontend.get_config(0, 24, flags, &[0; 24]).unwrap();
    assert_eq!(config[..6], MAC);
    assert_eq!(config[6..12], [1, 0, 1, 0, 0xdc, 0x05]);
    assert_eq!(config[12..], [0; 12]);
    let (_, part) = frontend.get_config(4, 8, flags, &[0; 8]).unwrap();
    assert_eq!(part, config[4..12]);
    assert!(frontend.set_config(0, flags, &[9; 6]).is_err(), "refused, not cut off");
    let (_, unchanged) = frontend.get_config(0, 24, flags, &[0; 24]).unwrap();
    assert_eq!(unchanged, config);
}

#[test]
fn the_channel_for_requests_stays_open() {
    let (mut frontend, backend) = connect();
    negotiate(&mut frontend);
    let (mut theirs, ours) = UnixStream::pair().unwrap();
    frontend.set_backend_request_fd(&ours).unwrap();
    drop(ours);
    theirs.set_nonblocking(true).unwrap();
    let open = theirs.read(&mut [0; 1]).unwrap_err();
    assert_eq!(open.kind(), std::io::ErrorKind::WouldBlock);
    drop(frontend);
    backend.thread.join().unwrap().unwrap();
    let open = theirs.read(&mut [0; 1]).unwrap_err();
    assert_eq!(open.kind(), std::io::ErrorKind::WouldBlock);
    drop(backend.session);
    assert_eq!(theirs.read(&mut [0; 1]).unwrap(), 0, "closed with the session");
}

#[test]
fn without_protocol_features_rings_start_enabled() {
    let (mut frontend, backend) = connect();
    let guest = Guest::new(0x4_0000);
    let receive = Driver::new(&guest, 0, SIZE, 0);
    frontend.set_owner().unwrap();
    frontend.get_features().unwrap();
    frontend.set_features(feature::VERSION_1).unwrap();
    frontend.set_mem_table(&[region(&guest)]).unwrap();
    set_up_ring(&mut frontend, RECEIVE, &receive);
    // The answer comes after all of that.
    frontend.get_features().unwrap();
    let mut session = backend.session();
    assert!(runs(&mut session, RECEIVE));
    let format = session.rings().format;
    assert_eq!((format.header_bytes, format.mergeable), (12, false));
}

#[test]
fn features_that_were_not_offered_end_the_connection() {
    let (frontend, backend) = connect();
    frontend.get_features().unwrap();
    // The packed ring.
    frontend.set_features(feature::VERSION_1 | 1 << 34).unwrap();
    assert!(frontend.get_features().is_err());
    let reason = backend.thread.join().unwrap().unwrap_err();
    assert!(matches!(reason, CutOff::NotOffered { features: 0x4_0000_0000, .. }), "{reason}");

    let (mut frontend, backend) = connect();
    frontend.get_features().unwrap();
    frontend.get_protocol_features().unwrap();
    let _ = frontend.set_protocol_features(VhostUserProtocolFeatures::MQ);
    let reason = backend.thread.join().unwrap().unwrap_err();
    assert!(matches!(reason, CutOff::NotOffered { features: 1, .. }), "{reason}");
}

#[test]
fn requests_that_are_not_served_end_the_connection() {
    let (frontend, backend) = connect();
    frontend.set_log_fd(frontend_log().as_raw_fd()).unwrap();
    let reason = backend.thread.join().unwrap().unwrap_err();
    assert_eq!(reason.to_string(), "message 7 is not known");
}

fn frontend_log() -> OwnedFd {
    Guest::new(4096).file.into()
}

/// A directory that is removed in the end.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_listening_socket() {
    let path = std::env::temp_dir().join(format!("isolane-netback-{}", std::process::id()));
    std::fs::create_dir(&path).unwrap();
    let directory = Directory(path);
    let socket = directory.0.join("nic.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let mut frontend = Frontend::connect(&socket, 2).unwrap();
    let backend = Backend::start(listener.accept().unwrap().0);
    negotiate(&mut frontend);
    drop(frontend);
    backend.thread.join().unwrap().unwrap();
}
