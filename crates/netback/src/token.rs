//! What the poller calls descriptors: a kind, and the number of an uplink or port.

/// Kinds of descriptors that are waited for: the upper half of their numbers.
pub(crate) const COMMAND: u64 = 0;
pub(crate) const UPLINK: u64 = 1;
pub(crate) const LISTENER: u64 = 2;
pub(crate) const CONNECTION: u64 = 3;
pub(crate) const KICK: u64 = 4;
pub(crate) const INTERFACE: u64 = 5;
pub(crate) const CARRIER: u64 = 6;

/// What the poller calls a descriptor.
pub(crate) fn token(kind: u64, number: usize) -> u64 {
    kind << 32 | number as u64
}
