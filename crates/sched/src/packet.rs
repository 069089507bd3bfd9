//! What a scheduler wants to know of a packet.

/// The longest packet taken, bytes: more than any segmentation offload hands over (Linux's limit
/// for one is 512 KiB). It keeps all arithmetic here within 64 bits.
pub const MAX_PACKET_BYTES: u32 = 1 << 20;

/// Anything that can be scheduled. Both answers must stay the same while it is queued.
pub trait Packet {
    /// Length that counts for shares and rates, bytes.
    fn len_bytes(&self) -> u32;
    /// The flow it belongs to: `0..Config::flows`.
    fn flow(&self) -> u32;
}

/// The tests' packets: flow and bytes.
#[cfg(test)]
impl Packet for (u32, u32) {
    fn flow(&self) -> u32 {
        self.0
    }

    fn len_bytes(&self) -> u32 {
        self.1
    }
}

/// Bit-nanoseconds per second in a byte: bytes x this / rate in bit/s = ns.
pub(crate) const BYTE_NS: u64 = 8_000_000_000;
