//! Who gets a frame: by destination address, among the ports of one uplink.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

use crate::{PortSettings, vlan};

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

/// Where a frame comes from: an uplink, or one of its ports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    pub(crate) uplink: usize,
    pub(crate) port: Option<usize>,
}

/// Who hears whom: the ports of one VLAN on an uplink, or those without a VLAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lan {
    pub(crate) uplink: usize,
    /// 0: the ports without one, which see all frames as they are on the uplink.
    pub(crate) vlan: u16,
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
    /// LAN and address -> port.
    table: HashMap<(u64, u64), usize, BuildHasherDefault<Multiply>>,
    /// LAN -> its ports.
    ports: HashMap<u64, Vec<usize>, BuildHasherDefault<Multiply>>,
    /// Whether any port has a VLAN.
    has_vlans: bool,
}

impl Forwarding {
    pub(crate) fn of(settings: &[PortSettings]) -> Self {
        let has_vlans = settings.iter().any(|one| one.vlan.is_some());
        let mut made = Self { table: HashMap::default(), ports: HashMap::default(), has_vlans };
        for (port, one) in settings.iter().enumerate() {
            let lan = Lan { uplink: one.uplink, vlan: one.vlan.unwrap_or(0) };
            made.table.insert(key(lan, one.nic.mac), port);
            made.ports.entry(lan.number()).or_default().push(port);
        }
        made
    }

    /// The VLAN of a frame, if ports here belong to it.
    pub(crate) fn vlan(&self, uplink: usize, frame: &[u8]) -> Option<Lan> {
        if !self.has_vlans {
            return None;
        }
        let lan = Lan { uplink, vlan: vlan::number(frame)? };
        self.ports.contains_key(&lan.number()).then_some(lan)
    }

    /// The port that has a frame's destination address, and the LAN that it belongs to.
    #[inline]
    pub(crate) fn owner(&self, uplink: usize, frame: &[u8]) -> Option<(usize, Lan)> {
        let owner_in = |lan| match self.target(lan, frame) {
            Target::Port(port) => Some((port, lan)),
            Target::All | Target::Uplink => None,
        };
        let tagged = self.vlan(uplink, frame).and_then(owner_in);
        tagged.or_else(|| owner_in(Lan::plain(uplink)))
    }

    /// Where a frame of a LAN goes.
    pub(crate) fn target(&self, lan: Lan, frame: &[u8]) -> Target {
        let to = [frame[0], frame[1], frame[2], frame[3], frame[4], frame[5]];
        if to[0] & 1 == 1 {
            return Target::All;
        }
        self.table.get(&key(lan, to)).map_or(Target::Uplink, |&port| Target::Port(port))
    }

    /// Gives a frame for several, as it is on the uplink, to all ports that hear it; but not to the one
    /// that it is from. Those in its VLAN get it without the tag.
    pub(crate) fn flood(
        &self,
        from: Origin,
        frame: &[u8],
        buffer: &mut [u8],
        give: &mut impl FnMut(usize, &[u8]),
    ) {
        let others = |lan| self.ports(lan).iter().copied().filter(|&to| Some(to) != from.port);
        if let Some(lan) = self.vlan(from.uplink, frame) {
            others(lan).for_each(|to| give(to, vlan::without(frame, buffer)));
        }
        others(Lan::plain(from.uplink)).for_each(|to| give(to, frame));
    }

    /// The ports of a LAN.
    pub(crate) fn ports(&self, lan: Lan) -> &[usize] {
        self.ports.get(&lan.number()).map_or(&[], Vec::as_slice)
    }
}

impl Lan {
    /// The LAN of the ports without a VLAN.
    pub(crate) fn plain(uplink: usize) -> Self {
        Self { uplink, vlan: 0 }
    }

    /// Whether its frames have a tag on the uplink that its ports do not see.
    pub(crate) fn is_tagged(self) -> bool {
        self.vlan != 0
    }

    fn number(self) -> u64 {
        (self.uplink as u64) << 16 | u64::from(self.vlan)
    }
}

fn key(lan: Lan, mac: [u8; 6]) -> (u64, u64) {
    (lan.number(), mac.iter().fold(0, |number, &octet| number << 8 | u64::from(octet)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NicSettings;

    fn port(uplink: usize, last: u8, vlan: Option<u16>) -> PortSettings {
        PortSettings {
            nic: NicSettings { mac: [2, 0, 0, 0, 0, last], mtu: 1500, offloads: false },
            uplink,
            check_source: true,
            vlan,
            max_wait_ns: 0,
        }
    }

    #[test]
    fn a_frame_goes_to_the_port_of_its_uplink_with_that_address() {
        let table = Forwarding::of(&[port(0, 1, None), port(1, 1, None), port(1, 2, None)]);
        let target = |uplink, frame: &[u8]| table.target(Lan::plain(uplink), frame);
        assert_eq!(target(0, &[2, 0, 0, 0, 0, 1]), Target::Port(0));
        assert_eq!(target(1, &[2, 0, 0, 0, 0, 1]), Target::Port(1));
        assert_eq!(target(1, &[2, 0, 0, 0, 0, 2]), Target::Port(2));
        assert_eq!(target(0, &[2, 0, 0, 0, 0, 2]), Target::Uplink);
        assert_eq!(target(2, &[2, 0, 0, 0, 0, 1]), Target::Uplink, "it has no ports");
        assert_eq!(target(0, &[255; 6]), Target::All);
        assert_eq!(target(0, &[0x33, 0x33, 0, 0, 0, 1]), Target::All);
        let ports = [0, 1, 2].map(|uplink| table.ports(Lan::plain(uplink)));
        assert_eq!(ports, [&[0][..], &[1, 2][..], &[][..]]);
    }

    #[test]
    fn a_vlan_is_a_lan_of_its_own() {
        let table = Forwarding::of(&[port(0, 1, Some(7)), port(0, 1, Some(8)), port(0, 2, None)]);
        let of = |vlan: u16| {
            let mut frame = vec![2, 0, 0, 0, 0, 1, 9, 9, 9, 9, 9, 9, 8, 0, 0, 0, 0, 0];
            let bytes = frame.len();
            frame.resize(bytes + 4, 0);
            let _ = vlan::insert(&mut frame, bytes, vlan);
            frame
        };
        let seven = table.vlan(0, &of(7)).unwrap();
        assert_eq!(table.target(seven, &of(7)), Target::Port(0));
        assert_eq!(table.ports(seven), [0]);
        assert_eq!(table.target(table.vlan(0, &of(8)).unwrap(), &of(8)), Target::Port(1));
        assert_eq!(table.vlan(0, &of(9)), None, "nobody here belongs to it");
        assert_eq!(table.vlan(1, &of(7)), None);
        assert_eq!(table.ports(Lan::plain(0)), [2]);
        assert_eq!(table.target(Lan::plain(0), &of(7)), Target::Uplink, "it is in no VLAN there");
    }
}
