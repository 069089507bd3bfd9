//! Capture files: the frames that were at capture points, as Wireshark opens them.
//!
//! Source: PCAP Next Generation Capture File Format (draft-ietf-opsawg-pcapng), sections 3 and 4.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::monotonic_ns;

/// Types of blocks.
const SECTION: u32 = 0x0A0D_0D0A;
const INTERFACE: u32 = 1;
const FRAME: u32 = 6;
/// Tells a reader the order of bytes, which is this machine's.
const BYTE_ORDER: u32 = 0x1A2B_3C4D;
const VERSION: [u16; 2] = [1, 0];
/// Numbers of options: of any block, of a section, an interface, a frame.
const END: u16 = 0;
const COMMENT: u16 = 1;
const APPLICATION: u16 = 4;
const NAME: u16 = 2;
const DESCRIPTION: u16 = 3;
const RESOLUTION: u16 = 9;
const FLAGS: u16 = 2;
const ETHERNET: u16 = 1;
/// Decimal places of a time stamp.
const NANOSECONDS: u8 = 9;
/// Directions of a frame, in its flags.
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// Of a frame, the first ones: `ISL_CAPTURED_BYTES`.
const KEPT_BYTES: u32 = 128;
/// What a frame takes in the file beside them.
const OF_FRAME: usize = 48;

/// A capture point, which is an interface of the file.
#[derive(Clone, Debug)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Which point it is, and whose; of a long one the beginning.
    pub title: String,
    /// Whether frames leave by it.
    pub sending: bool,
}

/// A frame at a point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// When, ns of the monotonic clock.
    pub at_ns: u64,
    /// Number of the point.
    pub interface: u32,
    /// Its bytes, without the frame check sequence.
    pub bytes: u32,
    /// The first ones.
    pub head: Vec<u8>,
}

/// The file with these frames, in the order of their times.
#[must_use]
pub fn file(about: &str, interfaces: &[Interface], frames: &[Captured], left_out: u64) -> Vec<u8> {
    let of_frames: usize = frames.iter().map(|frame| frame.head.len() + OF_FRAME).sum();
    let mut written = Vec::with_capacity(of_frames + 4096);
    section(&mut written, about, left_out);
    for interface in interfaces {
        let mut body = [ETHERNET, 0].map(u16::to_ne_bytes).concat();
        body.extend(KEPT_BYTES.to_ne_bytes());
        option(&mut body, NAME, interface.name.as_bytes());
        option(&mut body, DESCRIPTION, interface.title.as_bytes());
        option(&mut body, RESOLUTION, &[NANOSECONDS]);
        option(&mut body, END, &[]);
        block(&mut written, INTERFACE, &body);
    }
    let epoch = since_epoch();
    let mut order: Vec<&Captured> = frames.iter().collect();
    order.sort_by_key(|frame| frame.at_ns);
    for frame in order {
        if let Some(interface) = interfaces.get(frame.interface as usize) {
            put(&mut written, frame, interface.sending, epoch);
        }
    }
    written
}

fn section(to: &mut Vec<u8>, about: &str, left_out: u64) {
    let mut body = BYTE_ORDER.to_ne_bytes().to_vec();
    body.extend(VERSION.map(u16::to_ne_bytes).concat());
    body.extend((-1_i64).to_ne_bytes()); // up to the end of the file
    option(&mut body, APPLICATION, b"Isolane");
    option(&mut body, COMMENT, about.as_bytes());
    if left_out > 0 {
        let told = format!("{left_out} more frames at these points found no slot");
        option(&mut body, COMMENT, told.as_bytes());
    }
    option(&mut body, END, &[]);
    block(to, SECTION, &body);
}

fn put(to: &mut Vec<u8>, frame: &Captured, sending: bool, epoch: Duration) {
    let at = u64::try_from((epoch + Duration::from_nanos(frame.at_ns)).as_nanos());
    let at = at.unwrap_or(u64::MAX);
    let kept = u32::try_from(frame.head.len()).unwrap_or(0);
    // The upper half of the time comes first, in either order of bytes.
    let half = |number: u64| u32::try_from(number & u64::from(u32::MAX)).unwrap_or(0);
    let halves = [half(at >> 32), half(at)];
    let mut body =
        [frame.interface, halves[0], halves[1], kept, frame.bytes].map(u32::to_ne_bytes).concat();
    body.extend(&frame.head);
    pad(&mut body);
    let flags = if sending { OUTBOUND } else { INBOUND };
    option(&mut body, FLAGS, &flags.to_ne_bytes());
    option(&mut body, END, &[]);
    block(to, FRAME, &body);
}

/// Adds a block, whose length stands before and behind it.
fn block(to: &mut Vec<u8>, kind: u32, body: &[u8]) {
    let length = u32::try_from(body.len() + 12).unwrap_or(u32::MAX);
    to.extend([kind, length].map(u32::to_ne_bytes).concat());
    to.extend(body);
    to.extend(length.to_ne_bytes());
}

fn option(to: &mut Vec<u8>, number: u16, value: &[u8]) {
    let length = u16::try_from(value.len()).unwrap_or(u16::MAX);
    to.extend([number, length].map(u16::to_ne_bytes).concat());
    to.extend(&value[..usize::from(length)]);
    pad(to);
}

/// Fills up to the next multiple of four; all before it is a multiple.
fn pad(to: &mut Vec<u8>) {
    to.resize(to.len().next_multiple_of(4), 0);
}

/// When the monotonic clock was 0, since 1970.
fn since_epoch() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_nanos(monotonic_ns()))
}

#[cfg(test)]
mod tests {
    use pcap_file::pcapng::{
        Block, PcapNgReader,
        blocks::{
            enhanced_packet::EnhancedPacketOption,
            interface_description::InterfaceDescriptionOption, section_header::SectionHeaderOption,
        },
    };

    use super::*;

    fn interface(title: &str, sending: bool) -> Interface {
        Interface { name: "eth0".to_owned(), title: title.to_owned(), sending }
    }

    fn frame(at_ns: u64, interface: u32) -> Captured {
        Captured { at_ns, interface, bytes: 1514, head: vec![7; 61] }
    }

    /// Point, when, how much of it is there, and of how much.
    type Frame = (u32, Duration, usize, u32);

    fn read(file: &[u8]) -> (Vec<Frame>, Vec<String>, Vec<String>) {
        let mut reader = PcapNgReader::new(file).expect("a section");
        let comments = reader.section().options.iter().filter_map(|option| match option {
            SectionHeaderOption::Comment(text) => Some(text.to_string()),
            _ => None,
        });
        let comments = comments.collect();
        let (mut frames, mut names) = (Vec::new(), Vec::new());
        let text = |option: &InterfaceDescriptionOption<'_>| {
            use InterfaceDescriptionOption::{IfDescription, IfName};
            match option {
                IfName(it) | IfDescription(it) => Some(it.to_string()),
                _ => None,
            }
        };
        while let Some(block) = reader.next_block() {
            match block.expect("a block") {
                Block::EnhancedPacket(it) => {
                    let direction = 1 + it.interface_id % 2; // as in these tests
                    assert!(it.options.contains(&EnhancedPacketOption::Flags(direction)));
                    frames.push((it.interface_id, it.timestamp, it.data.len(), it.original_len));
                }
                Block::InterfaceDescription(it) => {
                    assert!(it.options.contains(&InterfaceDescriptionOption::IfTsResol(9)));
                    assert_eq!(it.snaplen, 128);
                    names.push(it.options.iter().filter_map(text).collect::<Vec<_>>().join(": "));
                }
                other => panic!("{other:?}"),
            }
        }
        (frames, names, comments)
    }

    #[test]
    fn frames_are_in_the_order_of_their_times_at_their_points() {
        let interfaces = [interface("nic-in", false), interface("nic-out", true)];
        let now = monotonic_ns();
        let written = file("arm a", &interfaces, &[frame(now + 5, 1), frame(now + 2, 0)], 0);
        assert!(written.len() <= 4096, "as much as was thought");
        let (frames, names, comments) = read(&written);
        assert_eq!(names, ["eth0: nic-in", "eth0: nic-out"]);
        assert_eq!(comments, ["arm a"]);
        let [first, second] = frames[..] else { panic!("two frames: {frames:?}") };
        assert_eq!((first.0, first.2, first.3), (0, 61, 1514));
        assert_eq!((second.0, second.1.abs_diff(first.1)), (1, Duration::from_nanos(3)));
        let today = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        assert!(first.1.abs_diff(today) < Duration::from_secs(3600), "of this clock");
    }

    #[test]
    fn what_found_no_room_is_told_and_strange_points_are_left_out() {
        let points = [interface("in", false)];
        let written = file("arm a", &points, &[frame(1, 0), frame(2, 7)], 3);
        let (frames, _, comments) = read(&written);
        assert_eq!(frames.len(), 1);
        assert_eq!(comments, ["arm a", "3 more frames at these points found no slot"]);
    }
}
