//! Who gets a frame: by destination address, among the ports of one uplink.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

use crate::PortSettings;

/// Where a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// To the guest with that address.
    Port(usize),
    /// To all ports, and out.
    All,
    /// Out: no guest here has that address.
    Uplink,
}

/// Multiplies: the addresses are the administrator's, so nobody can choose ones that collide.
#[derive(Default)]
pub(crate) struct Multiply(u64);

impl Hasher for Multiply {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
}

/// The forwarding table: static, made of the ports' addresses.
#[derive(Debug)]
pub(crate) struct Forwarding {
    /// Uplink and address -> port.
    table: HashMap<u64, usize, BuildHasherDefault<Multiply>>,
    /// Uplink -> its ports.
    ports: Vec<Vec<usize>>,
}

impl Forwarding {
    pub(crate) fn of(settings: &[PortSettings]) -> Self {
        let uplinks = settings.iter().map(|one| one.uplink + 1).max().unwrap_or(0);
        let mut made = Self { table: HashMap::default(), ports: vec![Vec::new(); uplinks] };
        for (port, one) in settings.iter().enumerate() {
            made.table.insert(key(one.uplink, one.nic.mac), port);
            made.ports[one.uplink].push(port);
        }
        made
    }

    /// Where a frame goes that came by this uplink, or from one of its ports.
    pub(crate) fn target(&self, uplink: usize, frame: &[u8]) -> Target {
        let to = [frame[0], frame[1], frame[2], frame[3], frame[4], frame[5]];
        if to[0] & 1 == 1 {
            return Target::All;
        }
        self.table.get(&key(uplink, to)).map_or(Target::Uplink, |&port| Target::Port(port))
    }

    /// The ports of an uplink.
    pub(crate) fn ports(&self, uplink: usize) -> &[usize] {
        self.ports.get(uplink).map_or(&[], Vec::as_slice)
    }
}

fn key(uplink: usize, mac: [u8; 6]) -> u64 {
    mac.iter().fold(uplink as u64, |number, &octet| number << 8 | u64::from(octet))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NicSettings;

    fn port(uplink: usize, last: u8) -> PortSettings {
        PortSettings {
            nic: NicSettings { mac: [2, 0, 0, 0, 0, last], mtu: 1500 },
            uplink,
            check_source: true,
        }
    }

    #[test]
    fn a_frame_goes_to_the_port_of_its_uplink_with_that_address() {
        let table = Forwarding::of(&[port(0, 1), port(1, 1), port(1, 2)]);
        assert_eq!(table.target(0, &[2, 0, 0, 0, 0, 1]), Target::Port(0));
        assert_eq!(table.target(1, &[2, 0, 0, 0, 0, 1]), Target::Port(1));
        assert_eq!(table.target(1, &[2, 0, 0, 0, 0, 2]), Target::Port(2));
        assert_eq!(table.target(0, &[2, 0, 0, 0, 0, 2]), Target::Uplink);
        assert_eq!(table.target(2, &[2, 0, 0, 0, 0, 1]), Target::Uplink, "it has no ports");
        assert_eq!(table.target(0, &[255; 6]), Target::All);
        assert_eq!(table.target(0, &[0x33, 0x33, 0, 0, 0, 1]), Target::All);
        assert_eq!(
            (table.ports(0), table.ports(1), table.ports(2)),
            (&[0][..], &[1, 2][..], &[][..])
        );
    }
}
