//! A whole back-end at work, without uplinks: what the front-end of one port does to the others.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixListener, UnixStream},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use isolane_netback::{
    Attachment, Handle, Netback, NicSettings, PortCounters, PortSettings, Sharing,
};
use isolane_sched::FlowSettings;
use vmm_sys_util::sock_ctrl_msg::ScmSocket as _;

/// How long something may take that a stopped core may hold up.
const LIMIT: Duration = Duration::from_secs(120);

struct Running {
    name: &'static str,
    handle: Handle,
    thread: Option<JoinHandle<std::io::Result<()>>>,
}

impl Running {
    fn new(name: &'static str, ports: u8) -> Self {
        let settings = |last| PortSettings {
            nic: NicSettings { mac: [2, 0, 0, 0, 0, last], mtu: 1500, offloads: true },
            uplink: 0,
            check_source: true,
            vlan: None,
            max_wait_ns: 0,
        };
        let socket = |last| UnixListener::bind_addr(&address(name, last)).unwrap();
        let shares = vec![FlowSettings::default(); ports.into()];
        let sharing = Sharing { links: Vec::new(), ports: shares };
        let ports =
            (0..ports).map(|last| (settings(last), Attachment::Socket(socket(last)))).collect();
        let (mut netback, handle) = Netback::new(Vec::new(), ports, &sharing).unwrap();
        Self { name, handle, thread: Some(thread::spawn(move || netback.run())) }
    }

    fn connect(&self, port: u8) -> UnixStream {
        UnixStream::connect_addr(&address(self.name, port)).unwrap()
    }

    /// Waits until a port's counters are like this.
    fn wait(&self, port: usize, are: impl Fn(&PortCounters) -> bool) -> PortCounters {
        let end = Instant::now() + LIMIT;
        loop {
            let (mut ports, _) = self.handle.counters().expect("it goes on");
            if are(&ports[port]) {
                return ports.swap_remove(port);
            }
            assert!(Instant::now() < end, "{:?}", ports[port]);
            thread::yield_now();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.stop();
        let ended = self.thread.take().unwrap().join();
        assert!(thread::panicking() || ended.unwrap().is_ok());
    }
}

fn address(name: &str, port: u8) -> SocketAddr {
    let name = format!("isolane-back-end-{}-{name}-{port}", std::process::id());
    SocketAddr::from_abstract_name(name).unwrap()
}

/// Sends the message that gives the transmit ring a kick descriptor.
fn give_kick(front_end: &UnixStream, kick: RawFd) {
    let message: Vec<u8> = [12, 1, 8, 1, 0].into_iter().flat_map(u32::to_ne_bytes).collect();
    assert_eq!(front_end.send_with_fds(&[&message[..]], &[kick]).unwrap(), message.len());
}

fn epoll() -> OwnedFd {
    // SAFETY: no pointers.
    let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    assert!(fd >= 0, "epoll_create1 failed");
    // SAFETY: the descriptor is new and nobody else's.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Epoll instances, each in the next one, as many as the kernel allows.
fn nested() -> Vec<OwnedFd> {
    let mut all = vec![epoll()];
    loop {
        let outer = epoll();
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        let inner = all.last().unwrap().as_raw_fd();
        // SAFETY: the pointer is to a live event.
        let failed = unsafe {
            libc::epoll_ctl(outer.as_raw_fd(), libc::EPOLL_CTL_ADD, inner, &raw mut event)
        };
        if failed != 0 {
            return all;
        }
        all.push(outer);
    }
}

#[test]
fn a_kick_that_cannot_be_waited_for_cuts_off_its_port_alone() {
    let back_end = Running::new("odd-kick", 2);
    let other = back_end.connect(1);
    let ours = i32::try_from(std::process::id()).unwrap();
    assert_eq!(back_end.wait(1, |port| port.attached).process, Some(ours));
    let hostile = back_end.connect(0);
    let nested = nested();
    give_kick(&hostile, nested.last().unwrap().as_raw_fd());
    let found = back_end.wait(0, |port| port.cut_offs == 1);
    let reason = found.last_cut_off.unwrap();
    assert!(reason.starts_with("waiting for a descriptor of its front-end failed"), "{reason}");
    assert!(!found.attached && found.process.is_none() && back_end.wait(1, |_| true).attached);
    // The next front-end is served.
    let next = back_end.connect(0);
    back_end.wait(0, |port| port.attached);
    drop((other, next));
    back_end.wait(0, |port| !port.attached);
    assert_eq!(back_end.wait(1, |port| !port.attached).cut_offs, 0);
}
