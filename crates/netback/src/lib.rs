//! A network back-end in user space: it serves the virtio NICs of many virtual machines over
//! vhost-user, one Unix socket for each NIC.
//!
//! [`Netback`] is all of it: one loop that moves frames between guests and uplinks. It is made of
//! parts that have no loop and no clock, and wait for nobody:
//!
//! - a readable [`Connection`] gives messages, which a [`Session`] carries out and answers;
//! - a readable [`Kick`], or the caller's own polling, says that a ring may have work;
//! - [`Session::rings`] gives both rings: [`Rings::next_frame`] takes what the guest transmits,
//!   [`Rings::deliver`] hands it a frame. After a batch: [`Queue::publish`], and
//!   [`Call::signal`] if [`Queue::needs_call`]. Before sleeping: [`Queue::enable_kicks`].
//!
//! **Guests are not trusted.** Whatever a front-end sends and a guest writes into its memory either
//! works or ends in a [`CutOff`], which concerns this NIC alone; so does a file behind its memory that
//! is cut short ([`contain_cut_files`]). What is *not* contained yet: a front-end that makes its
//! eventfd block (see [`Call`]). The process must ignore `SIGPIPE`.
//!
//! Sources: QEMU's `docs/interop/vhost-user.rst`; Virtual I/O Device (VIRTIO) Version 1.2.
//! Differences from the former: a ring that is disabled is not looked at, where the document asks
//! for transmitted frames to be discarded; memory regions come with `SET_MEM_TABLE` only.

/// What the tests' model of a guest calls this crate, there and here.
#[cfg(test)]
extern crate self as isolane_netback;

mod admission;
mod backend;
mod backlog;
mod carrier;
mod chain;
mod checksum;
mod clock;
mod cut_short;
mod delivery;
mod descriptor;
#[cfg(test)]
#[path = "../tests/driver/mod.rs"]
mod driver;
mod error;
mod forwarding;
mod frame;
mod guest;
mod handle;
mod interface;
mod interface_side;
mod mapping;
mod memory;
mod message;
mod notification;
mod output;
mod packet_socket;
mod poller;
mod port;
mod prefetch;
mod privileges;
mod queue;
mod ring;
mod rings;
mod segmentation;
mod session;
mod sharing;
mod socket;
mod staging;
#[cfg(test)]
mod test_guest;
#[cfg(test)]
mod test_support;
mod token;
mod vlan;
mod xdp_socket;

pub use admission::AdmissionProgram;
pub use backend::Netback;
pub use chain::{Chain, Segment};
pub use cut_short::contain_cut_files;
pub use error::CutOff;
pub use frame::{
    Delivered, FrameFormat, FrameWriter, MIN_FRAME_BYTES, NET_HEADER_BYTES, NetHeader, Offloads,
    Transmitted, copy_out,
};
pub use handle::{Counters, Ended, Handle};
pub use interface::UplinkCounters;
pub use memory::{GuestMemory, MAX_MEMORY_BYTES};
pub use message::{
    HEADER_BYTES, Header, MAX_CONFIG_BYTES, MAX_DESCRIPTORS, MAX_PAYLOAD_BYTES, MAX_REGIONS,
    MemoryRegion, Message, Reply, ReplyPayload, Request, RingAddresses,
};
pub use notification::{Call, Kick, Signalled};
pub use output::UplinkSettings;
pub use port::{Attachment, PortCounters, PortSettings};
pub use privileges::drop_privileges;
pub use queue::{MAX_QUEUE_SIZE, Queue, QueueSettings};
pub use rings::{Ring, Rings};
pub use segmentation::{Division, MAX_MERGED_BYTES};
pub use session::{NicSettings, RECEIVE, Session, TRANSMIT, feature, protocol_feature};
pub use sharing::{LinkSettings, Refused, Sharing};
pub use socket::{Connection, Received};
pub use staging::MAX_FRAME_BYTES;
pub use xdp_socket::XdpSocket;
