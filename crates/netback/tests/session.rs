//! What a session refuses, and what it does not mind.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::os::fd::OwnedFd;

use crate::driver::{Driver, GUEST, Guest, Part, USER, runs};
use isolane_netback::{
    CutOff, FrameFormat, MemoryRegion, Message, NicSettings, RECEIVE, Reply, ReplyPayload, Request,
    RingAddresses, Session, TRANSMIT, feature,
};

/// A session, and the memory of its guest.
struct Nic {
    session: Session,
    guest: Guest,
    driver: Driver,
}

impl Nic {
    /// All is set but for the ring.
    fn new() -> Self {
        let guest = Guest::new(0x2_0000);
        let driver = Driver::new(&guest, 0, 8, 0);
        let session = Session::new(NicSettings { mac: [2; 6], mtu: 1500, offloads: false });
        let mut nic = Self { session, guest, driver };
        nic.ask(Request::SetFeatures { features: feature::OFFERED }).unwrap();
        nic.share(nic.guest.region()).unwrap();
        nic
    }

    /// With a running transmit ring.
    fn running() -> Self {
        let mut nic = Self::new();
        nic.ask(Request::SetVringNum { index: 1, size: 8 }).unwrap();
        nic.ask(nic.addresses()).unwrap();
        nic.ask(Request::SetVringKick { index: 1, has_descriptor: false }).unwrap();
        nic.ask(Request::SetVringEnable { index: 1, enabled: true }).unwrap();
        assert!(runs(&mut nic.session, TRANSMIT));
        nic
    }

    fn addresses(&self) -> Request {
        Request::SetVringAddr { index: 1, flags: 0, addresses: self.driver.addresses() }
    }

    fn ask(&mut self, request: Request) -> Result<Option<Reply>, CutOff> {
        self.ask_with(request, Vec::new())
    }

    fn ask_with(&mut self, request: Request, fds: Vec<OwnedFd>) -> Result<Option<Reply>, CutOff> {
        self.session.handle(Message { request, code: 99, need_reply: false }, fds)
    }

    fn share(&mut self, region: MemoryRegion) -> Result<Option<Reply>, CutOff> {
        let file = self.guest.file.try_clone().unwrap().into();
        self.ask_with(Request::SetMemTable { regions: vec![region] }, vec![file])
    }

    /// Why the guest is cut off.
    fn refused(&mut self, request: Request) -> String {
        self.ask(request).expect_err("it is refused").to_string()
    }

    fn transmits(&mut self) -> bool {
        self.driver.add(&self.guest, &[Part { at: 0x1_0000, bytes: 60, writable: false }]);
        let mut rings = self.session.rings();
        let sent = rings.next_frame(&mut [0; 100]).unwrap();
        rings.transmit.expect("it runs").queue.publish();
        sent.is_some() && self.driver.reclaim(&self.guest).len() == 1
    }
}

#[test]
fn rings_that_do_not_exist() {
    let mut nic = Nic::new();
    let reason = "ring 2 does not exist; accepted: 0 to 1";
    assert_eq!(nic.refused(Request::SetVringNum { index: 2, size: 8 }), reason);
    assert_eq!(nic.refused(Request::SetVringBase { index: 2, base: 0 }), reason);
    assert_eq!(nic.refused(Request::GetVringBase { index: 2 }), reason);
    assert_eq!(nic.refused(Request::SetVringEnable { index: 2, enabled: true }), reason);
    let has_descriptor = false;
    assert_eq!(nic.refused(Request::SetVringKick { index: 2, has_descriptor }), reason);
    assert_eq!(nic.refused(Request::SetVringCall { index: 2, has_descriptor }), reason);
    assert_eq!(nic.refused(Request::SetVringErr { index: 2, has_descriptor }), reason);
    assert!(nic.session.kick(2).is_none() && !runs(&mut nic.session, 2));
}

#[test]
fn sizes_and_bases() {
    let mut nic = Nic::new();
    for size in [0, 7, 2048, 65536 + 8] {
        let reason = nic.refused(Request::SetVringNum { index: 0, size });
        assert!(reason.starts_with(&format!("a queue of {size} descriptors")), "{reason}");
    }
    let reason = nic.refused(Request::SetVringBase { index: 0, base: 65536 });
    assert_eq!(reason, "ring base 65536 is not possible; accepted: 0 to 65535");
    let logging = Request::SetVringAddr { index: 1, flags: 1, addresses: nic.driver.addresses() };
    assert_eq!(nic.refused(logging), "ring flags 0x1 are not possible; accepted: 0");
}

#[test]
fn a_running_ring_keeps_its_size_and_base() {
    let mut nic = Nic::running();
    let reason = nic.refused(Request::SetVringNum { index: 1, size: 8 });
    assert_eq!(reason, "message 99 changes ring 1 while it runs");
    let reason = nic.refused(Request::SetVringBase { index: 1, base: 0 });
    assert_eq!(reason, "message 99 changes ring 1 while it runs");
    // User-Mode Linux sets a ring up anew after it has only disabled it.
    assert!(nic.transmits());
    nic.ask(Request::SetVringEnable { index: 1, enabled: false }).unwrap();
    nic.ask(Request::SetVringNum { index: 1, size: 4 }).unwrap();
    nic.ask(Request::SetVringBase { index: 1, base: 0 }).unwrap();
    nic.driver = Driver::new(&nic.guest, 0x1000, 4, 0);
    nic.ask(nic.addresses()).unwrap();
    nic.ask(Request::SetVringEnable { index: 1, enabled: true }).unwrap();
    assert!(nic.transmits());
    let base = nic.ask(Request::GetVringBase { index: 1 }).unwrap().unwrap();
    assert_eq!(base.payload, ReplyPayload::RingBase { index: 1, base: 1 });
}

#[test]
fn a_ring_runs_when_nothing_is_missing() {
    let set_up = [
        Request::SetFeatures { features: feature::OFFERED },
        Request::SetMemTable { regions: Vec::new() },
        Request::SetVringNum { index: 1, size: 8 },
        Request::SetVringAddr {
            index: 1,
            flags: 0,
            addresses: RingAddresses {
                descriptors: USER,
                available: USER + 0x80,
                used: USER + 0x98,
            },
        },
        Request::SetVringKick { index: 1, has_descriptor: false },
        Request::SetVringEnable { index: 1, enabled: true },
    ];
    // In any order: each request is once the last one.
    for last in 0..set_up.len() {
        let guest = Guest::new(0x2_0000);
        let driver = Driver::new(&guest, 0, 8, 0);
        assert_eq!(driver.used_at(), 0x98);
        let session = Session::new(NicSettings { mac: [2; 6], mtu: 1500, offloads: false });
        let mut nic = Nic { session, guest, driver };
        for index in (0..set_up.len()).filter(|index| *index != last).chain([last]) {
            assert!(!runs(&mut nic.session, TRANSMIT), "{last} is missing");
            match set_up[index].clone() {
                Request::SetMemTable { .. } => nic.share(nic.guest.region()).unwrap(),
                request => nic.ask(request).unwrap(),
            };
        }
        assert!(runs(&mut nic.session, TRANSMIT) && !runs(&mut nic.session, RECEIVE));
        assert!(nic.transmits());
    }
}

#[test]
fn a_stopped_ring_waits_for_the_next_kick_descriptor() {
    let mut nic = Nic::running();
    nic.ask(Request::GetVringBase { index: 1 }).unwrap();
    nic.ask(Request::SetVringEnable { index: 1, enabled: true }).unwrap();
    assert!(!runs(&mut nic.session, TRANSMIT));
    nic.ask(Request::SetVringKick { index: 1, has_descriptor: false }).unwrap();
    assert!(runs(&mut nic.session, TRANSMIT));
    assert!(nic.transmits());
}

#[test]
fn rings_have_the_negotiated_features_and_no_others() {
    let indirect = |nic: &mut Nic| {
        let part = Part { at: 0x1_0000, bytes: 60, writable: false };
        nic.driver.add_indirect(&nic.guest, &[part], 0x2000);
        nic.session.rings().next_frame(&mut [0; 100]).map(|frame| frame.is_some())
    };
    let mut nic = Nic::running();
    assert!(indirect(&mut nic).unwrap());
    nic.session.rings().transmit.unwrap().queue.enable_kicks().unwrap();
    assert_eq!(nic.driver.available_event(&nic.guest), 1);

    let mut nic = Nic::running();
    nic.ask(Request::SetFeatures { features: feature::VERSION_1 }).unwrap();
    nic.session.rings().transmit.unwrap().queue.disable_kicks();
    assert_eq!(nic.driver.used_flags(&nic.guest), 1);
    assert!(matches!(indirect(&mut nic), Err(CutOff::Indirect { .. })));
}

#[test]
fn rings_outside_the_memory() {
    let mut nic = Nic::new();
    nic.ask(Request::SetVringNum { index: 1, size: 8 }).unwrap();
    nic.ask(nic.addresses()).unwrap();
    nic.ask(Request::SetVringEnable { index: 1, enabled: true }).unwrap();
    // As an address of the guest's it would be right.
    let wrong = RingAddresses { descriptors: GUEST, ..nic.driver.addresses() };
    nic.ask(Request::SetVringAddr { index: 1, flags: 0, addresses: wrong }).unwrap();
    let reason = nic.refused(Request::SetVringKick { index: 1, has_descriptor: false });
    assert_eq!(
        reason,
        "the descriptor table of 128 bytes at 0x40000000 lies outside the guest's memory"
    );
}

#[test]
fn memory_that_no_longer_holds_a_running_ring() {
    let mut nic = Nic::running();
    let region = nic.guest.region();
    let reason = nic.share(MemoryRegion { user_address: USER + 0x1000, ..region }).unwrap_err();
    assert!(matches!(reason, CutOff::Outside { part: "descriptor table", .. }));
}

#[test]
fn missing_descriptors() {
    let mut nic = Nic::new();
    let table = Request::SetMemTable { regions: vec![nic.guest.region()] };
    let reason = "message 99 has 0 file descriptors; accepted: 1";
    assert_eq!(nic.refused(table), reason);
    assert_eq!(nic.refused(Request::SetBackendReqFd), reason);
    assert_eq!(nic.refused(Request::SetVringKick { index: 0, has_descriptor: true }), reason);
    assert_eq!(nic.refused(Request::SetVringCall { index: 0, has_descriptor: true }), reason);
}

#[test]
fn a_file_that_may_block_is_no_kick() {
    let mut nic = Nic::new();
    let file = nic.guest.file.try_clone().unwrap().into();
    let request = Request::SetVringKick { index: 0, has_descriptor: true };
    let reason = nic.ask_with(request, vec![file]).unwrap_err();
    assert!(matches!(reason, CutOff::DescriptorKind { .. }));
}

#[test]
fn a_reset_stops_rings_and_publishes_what_they_used() {
    for reset in [Request::ResetDevice, Request::ResetOwner, Request::SetStatus { status: 0 }] {
        let mut nic = Nic::running();
        nic.driver.add(&nic.guest, &[Part { at: 0x1_0000, bytes: 60, writable: false }]);
        assert!(nic.session.rings().next_frame(&mut [0; 100]).unwrap().is_some());
        nic.ask(reset).unwrap();
        assert!(!runs(&mut nic.session, TRANSMIT));
        assert_eq!(nic.session.rings().format, FrameFormat::new(10, false), "no features");
        assert_eq!(nic.driver.reclaim(&nic.guest).len(), 1);
        assert!(nic.session.rings().next_frame(&mut [0; 100]).unwrap().is_none());
    }
}
