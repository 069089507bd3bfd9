//! Capture points: how long frames take from one interface to the next on their way.

use std::{io, os::fd::AsFd, path::PathBuf};

use libbpf_rs::{MapCore, MapFlags, skel::Skel};

use crate::{
    Error, Histogram, Result,
    load::{Family, Loaded, present},
    mapped::MappedArray,
    netns,
    skeletons::points::{PointsSkel, PointsSkelBuilder, types},
};

/// Names of the parts of a frame's way, each by the point that it ends at (`enum isl_point_number`); the
/// last one is the way from the first point to the last.
pub const NAMES: [&str; 7] =
    ["nic-in", "port-in", "router-in", "router-out", "port-out", "nic-out", "whole"];
const FAMILY: Family = Family {
    program: "points",
    feature: "BTF tracepoints (CONFIG_DEBUG_INFO_BTF, CONFIG_BPF_EVENTS; Linux 5.5)",
};

/// `FLIGHTS` of the program: frames of a stream that may be under way at a time.
const FLIGHTS: u32 = 16_384;

/// The numbers above are those of `bpf/include/intf.h`, or this does not compile.
const _: () = {
    assert!(types::isl_point_number::ISL_POINTS.0 as usize == NAMES.len());
    assert!(types::isl_point_number::ISL_POINT_WHOLE.0 as usize + 1 == NAMES.len());
};

/// A point: frames come in by an interface, or leave by it.
#[derive(Clone, Debug)]
pub struct PointSpec {
    /// The namespace's file.
    pub netns: PathBuf,
    /// The interface's index there.
    pub ifindex: u32,
    /// Whether frames leave by it.
    pub sending: bool,
    /// Which of [`NAMES`] it is.
    pub number: u32,
    /// Whether it is the first point on the way: its times are since the frame's departure.
    pub first: bool,
    /// Whether it is the last one.
    pub last: bool,
}

/// What to stamp.
#[derive(Clone, Debug)]
pub struct PointsSpec {
    /// The run's mark.
    pub cookie: u16,
    /// By stream of the generator: its flows; 0: its frames are not stamped.
    pub streams: Vec<u32>,
    /// Where.
    pub points: Vec<PointSpec>,
}

/// Times of one part of the way, of a stream's frames of the window.
#[derive(Clone, Debug)]
pub struct Part {
    /// By bucket.
    pub times: Histogram,
    /// Their sum, ns.
    pub sum_ns: u64,
}

/// The loaded programs; dropping them detaches.
pub struct Points {
    _skel: Loaded<PointsSkel<'static>>,
    parts: MappedArray<types::isl_part>,
}

impl Points {
    /// Loads the programs and puts them on the tracepoints of interfaces.
    pub fn attach(spec: &PointsSpec) -> Result<Self> {
        let entries = spec.streams.len().max(1) * NAMES.len();
        let mut skel = Loaded::load(FAMILY, PointsSkelBuilder::default(), |open| {
            let settings = &mut present(open.maps.rodata_data.as_deref_mut())?.settings;
            settings.cookie = spec.cookie;
            settings.streams = u32::try_from(spec.streams.len()).unwrap_or(u32::MAX);
            let stamping = spec.streams.iter().filter(|&&flows| flows > 0).count().max(1);
            let flights = u32::try_from(stamping).unwrap_or(u32::MAX).saturating_mul(FLIGHTS);
            let map = &mut open.maps.isl_flights;
            map.set_max_entries(flights).map_err(|error| FAMILY.refused(&error))?;
            let size = u32::try_from(entries).unwrap_or(u32::MAX);
            open.maps.isl_parts.set_max_entries(size).map_err(|error| FAMILY.refused(&error))
        })?;
        let stamped = &mut present(skel.maps.bss_data.as_deref_mut())?.stamped;
        let mut base = 0;
        for (to, &flows) in stamped.iter_mut().zip(&spec.streams) {
            (to.flows, to.base) = (flows, base);
            base += if flows == 0 { 0 } else { FLIGHTS };
        }
        for point in &spec.points {
            put(&skel.maps.isl_points, point)?;
        }
        let mapping = |source: io::Error| FAMILY.refused_because(source.to_string());
        let parts = MappedArray::new(skel.maps.isl_parts.as_fd(), entries).map_err(mapping)?;
        skel.attach().map_err(|error| FAMILY.refused(&error))?;
        Ok(Self { _skel: skel, parts })
    }

    /// Forgets all times; call when no frames are under way.
    pub fn reset(&mut self) {
        self.parts.clear(self.parts.len());
    }

    /// The times of one part of a stream's way.
    pub fn part(&self, stream: usize, number: usize) -> Result<Part> {
        let entry = stream * NAMES.len() + number;
        let found = self.parts.read(entry..entry + 1).filter(|_| number < NAMES.len());
        let part = found.ok_or_else(|| Error::Spec {
            key: "part",
            value: format!("{number} of stream {stream}"),
            accepted: format!("one of {} streams", self.parts.len() / NAMES.len()),
        })?[0];
        let times = Histogram::from_counts(part.frames.to_vec(), part.max_ns);
        Ok(Part { times, sum_ns: part.sum_ns })
    }
}

fn put(map: &impl MapCore, point: &PointSpec) -> Result<()> {
    let inum = netns::number(&point.netns)?;
    let key: Vec<u8> =
        [inum, point.ifindex, point.sending.into()].iter().flat_map(|n| n.to_ne_bytes()).collect();
    let value: Vec<u8> = [point.number, point.first.into(), point.last.into()]
        .iter()
        .flat_map(|n: &u32| n.to_ne_bytes())
        .collect();
    map.update(&key, &value, MapFlags::ANY).map_err(|error| Error::table(map, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> PointsSpec {
        PointsSpec { cookie: 1, streams: vec![10, 0], points: Vec::new() }
    }

    #[test]
    fn without_frames_there_are_no_times() {
        let mut points = Points::attach(&spec()).expect("loads");
        for number in 0..NAMES.len() {
            let part = points.part(1, number).expect("a part");
            assert_eq!((part.times.count(), part.sum_ns), (0, 0));
        }
        points.reset();
        let refused = points.part(2, 0).expect_err("two streams");
        assert!(refused.to_string().contains("one of 2 streams"), "{refused}");
        assert!(points.part(0, NAMES.len()).is_err());
    }

    #[test]
    fn a_point_in_no_namespace_is_named() {
        let point = PointSpec {
            netns: PathBuf::from("/nowhere"),
            ifindex: 1,
            sending: false,
            number: 0,
            first: true,
            last: false,
        };
        let refused = Points::attach(&PointsSpec { points: vec![point], ..spec() });
        assert!(refused.err().expect("refused").to_string().contains("/nowhere"));
    }
}
