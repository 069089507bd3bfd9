//! Why a guest is disconnected.

use std::io;

/// The guest, or the program that runs it, broke the protocol or asked for what is not served:
/// it is disconnected, with this reason. Nothing but its own connection is affected.
#[derive(Debug, thiserror::Error)]
pub enum CutOff {
    /// A system call on the guest's descriptors failed.
    #[error("{action} failed: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Not a message of version 1, or a reply where a request belongs.
    #[error("message {request} has flags {flags:#x}; accepted: 0x1 or 0x9")]
    Flags {
        /// Number of the request.
        request: u32,
        /// Its flags.
        flags: u32,
    },
    /// A request that this back-end does not serve.
    #[error("message {request} is not known")]
    UnknownRequest {
        /// Its number.
        request: u32,
    },
    /// A payload that does not fit its request.
    #[error(
        "message {request} has a payload of {bytes} bytes; accepted: {min_bytes} to {max_bytes}"
    )]
    PayloadSize {
        /// Number of the request.
        request: u32,
        /// Size of its payload.
        bytes: usize,
        /// The smallest that would do.
        min_bytes: usize,
        /// The largest that would do.
        max_bytes: usize,
    },
    /// More descriptors than a message may have; or than this process may open, which looks the same.
    #[error("a message has more than {limit} file descriptors, or this process has none free")]
    TooManyDescriptors {
        /// How many it may have.
        limit: usize,
    },
    /// Not as many descriptors as the request needs.
    #[error("message {request} has {fds} file descriptors; accepted: {accepted}")]
    MissingDescriptor {
        /// Number of the request.
        request: u32,
        /// How many came with it.
        fds: usize,
        /// How many it needs.
        accepted: usize,
    },
    /// The connection ended in the middle of a message.
    #[error("the connection ended after {bytes} bytes of a message")]
    Truncated {
        /// How much of it had come.
        bytes: usize,
    },
    /// The front-end does not read our replies.
    #[error("{bytes} bytes of replies are unread; the limit is {limit}")]
    UnreadReplies {
        /// How many.
        bytes: usize,
        /// How many may be.
        limit: usize,
    },
    /// A descriptor that is no eventfd, pipe or socket, where one belongs.
    #[error(
        "a descriptor to notify through has file type {kind:#o}; accepted: eventfd, pipe, socket"
    )]
    DescriptorKind {
        /// `S_IFMT` of its mode.
        kind: u32,
    },
    /// Features that were not offered.
    #[error("features {features:#x} were not offered; accepted: {offered:#x}")]
    NotOffered {
        /// Those of the asked ones that were not offered.
        features: u64,
        /// The offered ones.
        offered: u64,
    },
    /// A number of memory regions that is not possible.
    #[error("{regions} memory regions are not possible; accepted: 1 to {limit}")]
    Regions {
        /// How many were announced.
        regions: u32,
        /// How many there may be.
        limit: usize,
    },
    /// A memory region that wraps around or is empty.
    #[error("a memory region of {bytes} bytes at {address:#x} is empty or wraps around")]
    RegionRange {
        /// The address that wraps around: guest-physical, user or offset into the file.
        address: u64,
        /// Its size.
        bytes: u64,
    },
    /// More memory than a guest may share.
    #[error("{bytes} bytes of memory are not possible; the limit is {limit}")]
    MemoryBytes {
        /// How much all regions have.
        bytes: u64,
        /// How much they may have.
        limit: u64,
    },
    /// More mappings of guests' memory than there may be at one time.
    #[error("there are {limit} mappings of guests' memory, and no more are possible")]
    Mappings {
        /// How many there may be.
        limit: usize,
    },
    /// The file behind the guest's memory was cut short while it was in use.
    #[error("the file behind its memory was cut short")]
    CutShort,
    /// A file that does not hold the region it is said to hold.
    #[error("a memory region ends at {needed_bytes} bytes of a file of {file_bytes}")]
    ShortFile {
        /// Where the region ends.
        needed_bytes: u64,
        /// Where the file ends.
        file_bytes: u64,
    },
    /// A ring that the NIC does not have.
    #[error("ring {index} does not exist; accepted: 0 to {last}")]
    NoSuchRing {
        /// What was asked.
        index: u32,
        /// The last one there is.
        last: u32,
    },
    /// A queue size that is not possible.
    #[error("a queue of {size} descriptors is not possible; accepted: powers of two up to {limit}")]
    QueueSize {
        /// What was asked.
        size: u32,
        /// The largest there may be.
        limit: u16,
    },
    /// A ring index that does not fit 16 bits.
    #[error("ring base {base} is not possible; accepted: 0 to 65535")]
    RingBase {
        /// What was asked.
        base: u32,
    },
    /// A change that a running ring does not allow.
    #[error("message {request} changes ring {index} while it runs")]
    RingRuns {
        /// Number of the request.
        request: u32,
        /// The ring.
        index: usize,
    },
    /// Logging of writes was asked for, and it was not offered.
    #[error("ring flags {flags:#x} are not possible; accepted: 0")]
    RingFlags {
        /// What was asked.
        flags: u32,
    },
    /// A part of a ring that is not aligned.
    #[error("the {part} at {address:#x} is not aligned to {alignment} bytes")]
    Misaligned {
        /// Which part.
        part: &'static str,
        /// Where it lies.
        address: u64,
        /// What it must be a multiple of.
        alignment: usize,
    },
    /// Memory that does not lie within one region.
    #[error("the {part} of {bytes} bytes at {address:#x} lies outside the guest's memory")]
    Outside {
        /// What lies there.
        part: &'static str,
        /// Where it starts.
        address: u64,
        /// Its size.
        bytes: u64,
    },
    /// More available chains than the queue has descriptors.
    #[error("{heads} chains are available in a queue of {size}")]
    AvailableIndex {
        /// How many the guest says there are.
        heads: u16,
        /// How many there can be.
        size: u16,
    },
    /// A descriptor that the table does not have.
    #[error("descriptor {index} does not exist in a table of {entries}")]
    DescriptorIndex {
        /// What the chain points to.
        index: u32,
        /// How many descriptors the table has.
        entries: u32,
    },
    /// A loop, or a chain longer than drivers build.
    #[error("a chain has more than {limit} descriptors")]
    ChainTooLong {
        /// How many it may have.
        limit: u32,
    },
    /// A readable descriptor after a writable one.
    #[error("descriptor {index} is readable and follows a writable one")]
    ReadableAfterWritable {
        /// The descriptor.
        index: u32,
    },
    /// An indirect table where none may be, or one of an impossible size.
    #[error("indirect table of {bytes} bytes with flags {flags:#x}: {reason}")]
    Indirect {
        /// Size of the table.
        bytes: u32,
        /// Flags of the descriptor that names it.
        flags: u16,
        /// What is wrong.
        reason: &'static str,
    },
    /// A buffer that cannot be used in its queue's direction.
    #[error("{bytes} bytes of a {queue} buffer are for the wrong direction")]
    Direction {
        /// Which queue.
        queue: &'static str,
        /// How many.
        bytes: usize,
    },
    /// A receive buffer that does not even hold the header.
    #[error("a receive buffer holds {bytes} bytes; accepted: {min_bytes} or more")]
    ReceiveBuffer {
        /// Its size.
        bytes: usize,
        /// Size of the header.
        min_bytes: usize,
    },
}

/// The error of the system call that just failed.
pub(crate) fn system(action: &'static str) -> CutOff {
    CutOff::System { action, source: io::Error::last_os_error() }
}
