//! Frames on their way to ports, with what their senders left to others: checksums, segmentation.

use crate::{
    CutOff, Delivered, NetHeader,
    backlog::Backlogs,
    checksum,
    forwarding::{Forwarding, Lan, Origin},
    port::Port,
    segmentation::{Division, MAX_MERGED_BYTES},
    staging::MAX_FRAME_BYTES,
    vlan,
};

/// Memory that frames are changed in, so that none is allocated for each.
#[derive(Debug)]
pub(crate) struct Buffers {
    untagged: Vec<u8>,
    segment: Vec<u8>,
}

impl Buffers {
    pub(crate) fn new() -> Self {
        Self { untagged: vec![0; MAX_MERGED_BYTES], segment: vec![0; MAX_FRAME_BYTES] }
    }
}

/// What became of a frame with one destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    /// Its port has it, or has counted why not.
    Handed,
    /// It waits until the port's router provides a receive buffer.
    Waits,
    /// No port here has its address.
    Nowhere,
}

/// What is to become of a frame with work left to do.
pub(crate) enum Work {
    /// It went to the one port that it is for, which does the work.
    Given(Given),
    /// It is done: the frame is as it has to be.
    Done,
    /// It is to be divided.
    Divide(Division),
    /// It cannot be done.
    Impossible,
}

/// The port that a frame is for, and the LAN that it belongs to.
type Owner = (usize, Lan);

/// Gives frames to ports.
#[derive(Debug)]
pub(crate) struct Delivery<'a> {
    pub(crate) ports: &'a mut [Port],
    pub(crate) forwarding: &'a Forwarding,
    pub(crate) buffers: &'a mut Buffers,
    pub(crate) backlogs: &'a mut Backlogs,
    pub(crate) now_ns: u64,
    /// Guests that are to be cut off.
    pub(crate) failed: &'a mut Vec<(usize, CutOff)>,
}

impl Delivery<'_> {
    /// Gives a frame without work to the ports that it is for.
    #[inline]
    pub(crate) fn spread(&mut self, from: Origin, frame: &[u8]) -> Given {
        let owner = self.forwarding.owner(from.uplink, frame);
        self.spread_to(owner, from, frame)
    }

    /// The same with a frame whose owner is known.
    #[inline]
    fn spread_to(&mut self, owner: Option<Owner>, from: Origin, frame: &[u8]) -> Given {
        if frame[0] & 1 == 0 {
            return match owner {
                Some(owner) => self.hand(from, owner, frame, NetHeader::NONE),
                None => Given::Nowhere,
            };
        }
        // Such a frame waits for nobody: it is for all, and goes on.
        let Self { ports, forwarding, buffers, failed, .. } = self;
        forwarding.flood(
            from,
            frame,
            &mut buffers.untagged,
            &mut |to, frame: &[u8]| match ports[to].offer(frame, NetHeader::NONE) {
                Ok(Delivered::Full) => ports[to].counters.ring_full += 1,
                Ok(_) => {}
                Err(reason) => failed.push((to, reason)),
            },
        );
        Given::Nowhere
    }

    /// Gives a frame to the port that it is for. Those of other ports wait if there is no buffer.
    #[inline]
    fn hand(&mut self, from: Origin, (to, lan): Owner, frame: &[u8], header: NetHeader) -> Given {
        let Self { ports, buffers, backlogs, failed, now_ns, .. } = self;
        let (frame, header) = if lan.is_tagged() {
            (vlan::without(frame, &mut buffers.untagged), header.untagged())
        } else {
            (frame, header)
        };
        // Who came first goes first.
        if from.port.is_none() || !backlogs.is_busy(to) {
            match ports[to].offer(frame, header) {
                Ok(Delivered::Full) => {}
                Ok(_) => return Given::Handed,
                Err(reason) => {
                    failed.push((to, reason));
                    return Given::Handed;
                }
            }
        }
        if let Some(sender) = from.port
            && backlogs.push(ports, (sender, to), (frame, header), *now_ns)
        {
            ports[sender].held += 1;
            return Given::Waits;
        }
        ports[to].counters.ring_full += 1;
        Given::Handed
    }

    /// Gives a frame that arrived by an uplink to the ports that it is for. False: nobody can do what
    /// its header leaves to do.
    pub(crate) fn arrived(
        &mut self,
        from: Origin,
        owner: Option<Owner>,
        frame: &mut [u8],
        header: NetHeader,
    ) -> bool {
        if header.asks_for_offload() {
            match self.work(from, owner, frame, header) {
                Work::Given(_) => return true,
                Work::Impossible => return false,
                Work::Done => {}
                Work::Divide(division) => {
                    self.divide(from, frame, division);
                    return true;
                }
            }
        }
        let _ = self.spread_to(owner, from, frame);
        true
    }

    /// Does what a frame's header leaves to do, or has the port do it that the frame is for.
    pub(crate) fn work(
        &mut self,
        from: Origin,
        owner: Option<Owner>,
        frame: &mut [u8],
        header: NetHeader,
    ) -> Work {
        if let Some((port, lan)) = owner
            && self.ports[port].takes(&header)
        {
            return Work::Given(self.hand(from, (port, lan), frame, header));
        }
        if header.is_merged() {
            return Division::of(frame, header).map_or(Work::Impossible, Work::Divide);
        }
        let (start, offset) = (header.csum_start.into(), header.csum_offset.into());
        match checksum::complete(frame, start, offset) {
            Some(()) => Work::Done,
            None => Work::Impossible,
        }
    }

    fn divide(&mut self, from: Origin, frame: &[u8], division: Division) {
        let mut segment = std::mem::take(&mut self.buffers.segment);
        for number in 0..division.segments() {
            let bytes = division.write(number, frame, &mut segment);
            let _ = self.spread(from, &segment[..bytes]);
        }
        self.buffers.segment = segment;
    }
}

#[cfg(test)]
mod tests {
    use std::os::{
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixListener},
    };

    use isolane_sched::{BackPressure, FlowSettings, Kind};

    use super::*;
    use crate::{Attachment, LinkSettings, NicSettings, PortSettings, Sharing, carrier::Carriers};

    /// Two ports of one uplink without guests, the last octets of their addresses 1 and 2.
    fn ports() -> Vec<Port> {
        let port = |last| {
            let name = format!("isolane-delivery-{}-{last}", std::process::id());
            let address = SocketAddr::from_abstract_name(name).unwrap();
            let settings = PortSettings {
                nic: NicSettings { mac: [2, 0, 0, 0, 0, last], mtu: 1500, offloads: true },
                uplink: 0,
                check_source: true,
                vlan: None,
                max_wait_ns: 1_000_000,
            };
            let listener = UnixListener::bind_addr(&address).unwrap();
            Port::new(settings, Attachment::Socket(listener), &Carriers::new().unwrap()).unwrap()
        };
        vec![port(1), port(2)]
    }

    #[test]
    fn who_comes_later_waits_behind_those_who_wait() {
        let mut ports = ports();
        let settings: Vec<_> = ports.iter().map(|port| port.settings.clone()).collect();
        let scheduler = Kind::by_name("drr").unwrap();
        let link = LinkSettings {
            scheduler,
            back_pressure: BackPressure::On,
            rate_bps: None,
            burst_ns: None,
        };
        let sharing = Sharing { links: vec![link], ports: vec![FlowSettings::default(); 2] };
        let mut backlogs = Backlogs::new(2, sharing);
        let (mut buffers, mut failed) = (Buffers::new(), Vec::new());
        let forwarding = Forwarding::of(&settings);
        let from = Origin { uplink: 0, port: Some(0) };
        let frame = [&[2, 0, 0, 0, 0, 2][..], &[0; 54]].concat();
        let mut spread = |ports: &mut [Port], backlogs: &mut Backlogs| {
            let (buffers, failed) = (&mut buffers, &mut failed);
            Delivery { ports, forwarding: &forwarding, buffers, backlogs, now_ns: 0, failed }
                .spread(from, &frame)
        };
        assert_eq!(spread(&mut ports, &mut backlogs), Given::Handed);
        assert!(backlogs.push(&ports, (0, 1), (&frame, NetHeader::NONE), 0));
        ports[0].held += 1;
        assert_eq!(spread(&mut ports, &mut backlogs), Given::Waits);
        assert_eq!((ports[0].held, ports[1].counters.no_guest), (2, 1));
        // There is no guest, which each frame learns in its turn.
        assert_eq!(backlogs.serve(&mut ports, &mut Vec::new(), 0), 2);
        assert!(backlogs.is_empty());
        assert_eq!((ports[0].held, ports[0].counters.sent), (0, 2));
        assert_eq!(ports[1].counters.no_guest, 3);
        assert_eq!(spread(&mut ports, &mut backlogs), Given::Handed);
    }
}
