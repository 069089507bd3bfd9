//! All of Isolane that touches the kernel's packet path.
//!
//! [`generator`] sends, [`receiver`] counts what arrives, [`accountant`] charges the cores' time to
//! who used it, [`points`] stamps frames on their way, [`profiler`] tells where the cores are,
//! [`admission`] refuses what a network back-end has no space for: when the process ends, however it ends, the kernel removes their programs. [`plane`]
//! carries out a policy: its programs stay on their interfaces until somebody takes them off. Nothing
//! is pinned in a BPF file system.

pub mod accountant;
pub mod admission;
pub mod attach;
pub mod captures;
mod error;
pub mod generator;
mod kernel;
mod live_frames;
mod load;
mod mapped;
pub mod netns;
pub mod pacemaker;
pub mod plane;
pub mod points;
#[cfg(test)]
mod policy_programs;
pub mod probe;
pub mod profiler;
pub mod receiver;
mod rtnl;
mod series;
pub mod stalls;
pub mod stream;
mod symbols;
#[cfg(test)]
mod test_run;
#[cfg(test)]
mod test_thread;
pub mod transfer;
mod xdp;

pub use error::{Error, Result, silence_libbpf};
pub use isolane_histogram::{Histogram, bounds_ns};

/// The skeletons that `build.rs` generates from `bpf/`.
#[allow(
    missing_docs,
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks,
    clippy::unwrap_used
)] // generated
pub(crate) mod skeletons {
    pub mod generate {
        include!(concat!(env!("OUT_DIR"), "/generate.skel.rs"));
    }
    pub mod receive {
        include!(concat!(env!("OUT_DIR"), "/receive.skel.rs"));
    }
    pub mod account {
        include!(concat!(env!("OUT_DIR"), "/account.skel.rs"));
    }
    pub mod admit {
        include!(concat!(env!("OUT_DIR"), "/admit.skel.rs"));
    }
    pub mod demux {
        include!(concat!(env!("OUT_DIR"), "/demux.skel.rs"));
    }
    pub mod profile {
        include!(concat!(env!("OUT_DIR"), "/profile.skel.rs"));
    }
    pub mod points {
        include!(concat!(env!("OUT_DIR"), "/points.skel.rs"));
    }
    pub mod forward {
        include!(concat!(env!("OUT_DIR"), "/forward.skel.rs"));
    }
}

/// `CLOCK_MONOTONIC` in ns, the clock of every time stamp and window here.
#[must_use]
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec, and CLOCK_MONOTONIC always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// A time or duration for the kernel.
pub(crate) fn timespec(ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: i64::try_from(ns / 1_000_000_000).unwrap_or(i64::MAX),
        tv_nsec: i64::try_from(ns % 1_000_000_000).unwrap_or(0),
    }
}
