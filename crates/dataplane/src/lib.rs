//! All of Isolane that touches the kernel's packet path.
//!
//! [`generator`] sends, [`receiver`] counts, [`meter`] bills the cores' time; each loads one program
//! of `bpf/`. Nothing is pinned: when the process ends, however it ends, the kernel removes it all.

pub mod attach;
mod error;
pub mod generator;
pub mod histogram;
mod mapped;
pub mod meter;
pub mod netns;
pub mod plane;
pub mod probe;
pub mod receiver;
mod rtnl;
pub mod stalls;
pub mod stream;
#[cfg(test)]
mod test_run;

pub use error::{Error, Result, silence_libbpf};

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
    pub mod meter {
        include!(concat!(env!("OUT_DIR"), "/meter.skel.rs"));
    }
    pub mod demux {
        include!(concat!(env!("OUT_DIR"), "/demux.skel.rs"));
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
