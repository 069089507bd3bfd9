//! Capture points: how long frames take from one interface to the next on their way.

use std::{cell::RefCell, io, os::fd::AsFd, path::PathBuf, rc::Rc};

use libbpf_rs::{MapCore, MapFlags, RingBuffer, RingBufferBuilder, skel::Skel};

use crate::{
    Error, Histogram, Result,
    captures::{self, Captured, Interface},
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
    feature: "BTF tracepoints (CONFIG_DEBUG_INFO_BTF, CONFIG_BPF_EVENTS; Linux 5.5) and ring buffers (5.8)",
};

/// `FLIGHTS` of the program: frames of a stream that may be under way at a time.
const FLIGHTS: u32 = 16_384;

/// Of the frames of a trial that are captured: 52,428 of them.
const CAPTURE_BYTES: u32 = 8 << 20;

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
    /// The interface's name, for a capture file.
    pub ifname: String,
    /// What it is, for a capture file.
    pub title: String,
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
    /// Whether frames may be kept, too, for a capture file.
    pub captures: bool,
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
    /// What was kept, where it is.
    ring: Option<RingBuffer<'static>>,
    kept: Rc<RefCell<Vec<Captured>>>,
    interfaces: Vec<Interface>,
    parts: MappedArray<types::isl_part>,
    skel: Loaded<PointsSkel<'static>>,
}

impl Points {
    /// Loads the programs and puts them on the tracepoints of interfaces.
    pub fn attach(spec: &PointsSpec) -> Result<Self> {
        let entries = spec.streams.len().max(1) * NAMES.len();
        let mut skel = Loaded::load(FAMILY, PointsSkelBuilder::default(), |open| {
            let settings = &mut present(open.maps.rodata_data.as_deref_mut())?.settings;
            settings.cookie = spec.cookie;
            settings.streams = u32::try_from(spec.streams.len()).unwrap_or(u32::MAX);
            if spec.captures {
                let sized = open.maps.isl_captures.set_max_entries(CAPTURE_BYTES);
                sized.map_err(|error| FAMILY.refused(&error))?;
            }
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
        for (number, point) in (0..).zip(&spec.points) {
            put(&skel.maps.isl_points, point, number)?;
        }
        let kept = Rc::new(RefCell::new(Vec::new()));
        let ring = if spec.captures { Some(ring(&skel, &kept)?) } else { None };
        let named = |it: &PointSpec| Interface {
            name: it.ifname.clone(),
            title: it.title.clone(),
            sending: it.sending,
        };
        let interfaces = spec.points.iter().map(named).collect();
        let mapping = |source: io::Error| FAMILY.refused_because(source.to_string());
        let parts = MappedArray::new(skel.maps.isl_parts.as_fd(), entries).map_err(mapping)?;
        skel.attach().map_err(|error| FAMILY.refused(&error))?;
        Ok(Self { ring, kept, interfaces, parts, skel })
    }

    /// Forgets all times and frames, and says whether to keep those to come; call when no frames are
    /// under way.
    pub fn reset(&mut self, captures: bool) -> Result<()> {
        self.parts.clear(self.parts.len());
        self.take()?;
        self.kept.borrow_mut().clear();
        let capturing = &mut present(self.skel.maps.bss_data.as_deref_mut())?.capturing;
        (capturing.left_out, capturing.on) = (0, (captures && self.ring.is_some()).into());
        Ok(())
    }

    /// A capture file of what was at the points since the last reset, and forgets it.
    ///
    /// `about` says of what trial.
    pub fn capture_file(&mut self, about: &str) -> Result<Vec<u8>> {
        self.take()?;
        let left_out = present(self.skel.maps.bss_data.as_deref_mut())?.capturing.left_out;
        let kept = self.kept.take();
        Ok(captures::file(about, &self.interfaces, &kept, left_out))
    }

    /// Takes over what the programs have kept.
    fn take(&mut self) -> Result<()> {
        let Some(ring) = &self.ring else { return Ok(()) };
        ring.consume().map_err(|error| FAMILY.refused(&error))
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

fn ring(
    skel: &PointsSkel<'static>,
    kept: &Rc<RefCell<Vec<Captured>>>,
) -> Result<RingBuffer<'static>> {
    let (mut builder, kept) = (RingBufferBuilder::new(), Rc::clone(kept));
    builder
        .add(&skel.maps.isl_captures, move |record| {
            kept.borrow_mut().extend(captured(record));
            0
        })
        .map_err(|error| FAMILY.refused(&error))?;
    builder.build().map_err(|error| FAMILY.refused(&error))
}

/// A frame from a record of `struct isl_captured`.
fn captured(record: &[u8]) -> Option<Captured> {
    let word = |at: usize| Some(u32::from_ne_bytes(record.get(at..at + 4)?.try_into().ok()?));
    let kept = word(16)? as usize;
    Some(Captured {
        at_ns: u64::from_ne_bytes(record.get(..8)?.try_into().ok()?),
        interface: word(8)?,
        bytes: word(12)?,
        head: record.get(24..24 + kept)?.to_vec(),
    })
}

fn put(map: &impl MapCore, point: &PointSpec, interface: u32) -> Result<()> {
    let inum = netns::number(&point.netns)?;
    let key: Vec<u8> =
        [inum, point.ifindex, point.sending.into()].iter().flat_map(|n| n.to_ne_bytes()).collect();
    let value: Vec<u8> = [point.number, point.first.into(), point.last.into(), interface]
        .iter()
        .flat_map(|n: &u32| n.to_ne_bytes())
        .collect();
    map.update(&key, &value, MapFlags::ANY).map_err(|error| Error::table(map, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> PointsSpec {
        PointsSpec { cookie: 1, streams: vec![10, 0], points: Vec::new(), captures: false }
    }

    #[test]
    fn without_frames_there_are_no_times() {
        let mut points = Points::attach(&spec()).expect("loads");
        for number in 0..NAMES.len() {
            let part = points.part(1, number).expect("a part");
            assert_eq!((part.times.count(), part.sum_ns), (0, 0));
        }
        points.reset(false).expect("forgotten");
        let refused = points.part(2, 0).expect_err("two streams");
        assert!(refused.to_string().contains("one of 2 streams"), "{refused}");
        assert!(points.part(0, NAMES.len()).is_err());
    }

    #[test]
    fn without_frames_a_capture_file_has_none() {
        let mut points = Points::attach(&PointsSpec { captures: true, ..spec() }).expect("loads");
        points.reset(true).expect("forgotten");
        let file = points.capture_file("a trial").expect("a file");
        assert_eq!(file, captures::file("a trial", &[], &[], 0));
    }

    #[test]
    fn a_record_is_a_frame_as_far_as_it_was_kept() {
        let mut record = vec![0; 152];
        record[..8].copy_from_slice(&7_u64.to_ne_bytes());
        for (at, number) in [(8, 2_u32), (12, 1514), (16, 128)] {
            record[at..at + 4].copy_from_slice(&number.to_ne_bytes());
        }
        record[24..].fill(9);
        let expected = Captured { at_ns: 7, interface: 2, bytes: 1514, head: vec![9; 128] };
        assert_eq!(captured(&record), Some(expected));
        record[16..20].copy_from_slice(&60_u32.to_ne_bytes());
        assert_eq!(captured(&record).expect("a frame").head.len(), 60);
        assert_eq!(captured(&record[..80]), None);
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
            ifname: String::new(),
            title: String::new(),
        };
        let refused = Points::attach(&PointsSpec { points: vec![point], ..spec() });
        assert!(refused.err().expect("refused").to_string().contains("/nowhere"));
    }
}
