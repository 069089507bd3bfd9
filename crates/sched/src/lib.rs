//! Packet schedulers as pure code: what decides, on one link, whose packet goes next.
//!
//! There is no clock, no I/O and no randomness of its own here: time, packets and generators come
//! in as arguments, so that a simulator and a live back-end run the same code, and the same input
//! gives the same decisions everywhere. Nothing is allocated per packet.
//!
//! A **flow** is what has a queue of its own: the traffic of a virtual router, or of one of its network interfaces. A [`Scheduler`] holds
//! the queues of its flows and one of the disciplines of [`Kind`]. It is asked for the next packet
//! when the output has room ([`Scheduler::dequeue`]); what happens where nobody looks at the output
//! is [`Scheduler::hand_over`] with [`BackPressure::Off`].
//!
//! ```
//! use isolane_sched::{Config, FlowSettings, Kind, Next, Packet, Scheduler};
//!
//! struct Frame { flow: u32, len_bytes: u32 }
//!
//! impl Packet for Frame {
//!     fn flow(&self) -> u32 { self.flow }
//!     fn len_bytes(&self) -> u32 { self.len_bytes }
//! }
//!
//! let mut scheduler = Scheduler::new(Config::new(2, Kind::Drr { quantum_bytes: 1500 }))?;
//! scheduler.set(0, FlowSettings { weight: 2, ..FlowSettings::default() }, 0)?;
//! for flow in [0, 0, 0, 1, 1, 1] {
//!     let _ = scheduler.enqueue(Frame { flow, len_bytes: 1500 }, 0);
//! }
//! let mut order = Vec::new();
//! while let Next::Packet(frame) = scheduler.dequeue(0) {
//!     order.push(frame.flow);
//! }
//! assert_eq!(order, [0, 0, 1, 0, 1, 1]);
//! assert!(scheduler.totals().is_conserved());
//! # Ok::<(), isolane_sched::Error>(())
//! ```
#![forbid(unsafe_code)]

mod bits;
mod config;
mod counters;
mod discipline;
mod error;
mod heap;
mod links;
mod packet;
mod prng;
mod queues;
mod scheduler;
mod tags;
mod token_bucket;
mod turns;

pub use config::{
    BackPressure, Config, FlowSettings, Kind, MAX_FLOWS, MAX_WEIGHT, Order, PRIORITIES,
    Transmission,
};
pub use counters::{Count, DropReason, FlowCounters, Totals};
pub use error::{Error, Result};
pub(crate) use packet::BYTE_NS;
pub use packet::{MAX_PACKET_BYTES, Packet};
pub use prng::Prng;
pub use scheduler::{Dropped, Handover, Next, Scheduler};
pub use token_bucket::{MAX_BURST_BYTES, TokenBucket};

/// The examples on the pages under `docs/schedulers/`, compiled and run by `cargo test`.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../docs/schedulers/README.md")]
    #[doc = include_str!("../../../docs/schedulers/credit.md")]
    #[doc = include_str!("../../../docs/schedulers/drr.md")]
    #[doc = include_str!("../../../docs/schedulers/fifo.md")]
    #[doc = include_str!("../../../docs/schedulers/hierarchical.md")]
    #[doc = include_str!("../../../docs/schedulers/round-robin.md")]
    #[doc = include_str!("../../../docs/schedulers/strict-priority.md")]
    #[doc = include_str!("../../../docs/schedulers/token-bucket.md")]
    #[doc = include_str!("../../../docs/schedulers/wfq.md")]
    #[doc = include_str!("../../../docs/schedulers/wrr.md")]
    struct Examples;
}
