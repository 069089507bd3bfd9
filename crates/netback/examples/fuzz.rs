//! Feeds random messages, chains and frames to the back-end's core, and counts what becomes of them.
//!
//! `cargo run --release --package isolane-netback --example fuzz -- INPUTS [SEED]`
//!
//! INPUTS of each kind; the same seed gives the same inputs. It ends with a panic, and so with an
//! exit status that is not 0, if an input makes the core panic or leads outside a guest's memory.

#[path = "../tests/driver/mod.rs"]
mod driver;

use std::{
    collections::BTreeMap,
    os::fd::{AsFd, FromRawFd, OwnedFd},
    sync::Arc,
};

use driver::{GUEST, Guest, INDIRECT, NEXT, USER, WRITE};
use isolane_netback::{
    Chain, CutOff, Delivered, Division, FrameFormat, FrameWriter, GuestMemory, Header,
    MAX_FRAME_BYTES, MemoryRegion, Message, NetHeader, NicSettings, Offloads, Queue, QueueSettings,
    RECEIVE, RingAddresses, Session, TRANSMIT, Transmitted, copy_out, feature, protocol_feature,
};

/// The generator of `java.util.SplittableRandom` (Steele, Lea, Flood 2014).
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Less than `limit`; a little uneven, which does not matter here.
    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    fn u16(&mut self) -> u16 {
        self.next().to_le_bytes().first_chunk().map_or(0, |bytes| u16::from_le_bytes(*bytes))
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        let count = u64::try_from(choices.len()).expect("a short list");
        choices[usize::try_from(self.below(count)).expect("an index")]
    }
}

/// How often each outcome came.
#[derive(Default)]
struct Outcomes(BTreeMap<String, u64>);

impl Outcomes {
    /// Counts by the variant's name.
    fn count(&mut self, outcome: &impl std::fmt::Debug) {
        let text = format!("{outcome:?}");
        let name = text.split(|letter: char| !letter.is_alphanumeric()).next();
        self.count_as(name.unwrap_or_default());
    }

    fn count_as(&mut self, name: &str) {
        match self.0.get_mut(name) {
            Some(count) => *count += 1,
            None => drop(self.0.insert(name.to_owned(), 1)),
        }
    }

    fn print(&self, title: &str) {
        println!("{title}:");
        for (name, count) in &self.0 {
            println!("  {name:32} {count:>12}");
        }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let (Some(Ok(inputs)), seed) = (arguments.next(), arguments.next().unwrap_or(Ok(1))) else {
        eprintln!("usage: fuzz INPUTS [SEED]");
        std::process::exit(2);
    };
    let seed = seed.unwrap_or_else(|reason| {
        eprintln!("fuzz: SEED: {reason}");
        std::process::exit(2);
    });
    messages(&mut SplitMix(seed), inputs).print("messages");
    chains(&mut SplitMix(seed ^ 1), inputs).print("chains");
    frames(&mut SplitMix(seed ^ 2), inputs).print("frames");
    divisions(&mut SplitMix(seed ^ 3), inputs).print("merged segments");
}

/// Known numbers of requests, and some that are not.
const REQUESTS: [u32; 28] = [
    1, 2, 3, 4, 5, 5, 8, 8, 9, 9, 10, 11, 12, 12, 13, 14, 15, 16, 17, 18, 18, 19, 20, 21, 24, 25,
    34, 39,
];

fn messages(random: &mut SplitMix, inputs: u64) -> Outcomes {
    let mut outcomes = Outcomes::default();
    let guest = Guest::new(0x1_0000);
    let settings = NicSettings { mac: [2; 6], mtu: 1500, offloads: true };
    let mut session = Session::new(settings);
    for _ in 0..inputs {
        let request =
            if random.one_in(1000) { random.u16().into() } else { random.pick(&REQUESTS) };
        let payload = payload(random, request);
        let result = message(random, request, &payload)
            .and_then(|message| {
                let fds = descriptors(random, &guest, &message);
                session.handle(message, fds)
            })
            .and_then(|reply| work(&mut session).map(|()| reply));
        if driver::runs(&mut session, TRANSMIT) || driver::runs(&mut session, RECEIVE) {
            outcomes.count_as("(of these, with a running ring)");
        }
        match result {
            Ok(Some(_)) => outcomes.count_as("Replied"),
            Ok(None) => outcomes.count_as("NoReply"),
            Err(reason) => {
                outcomes.count(&reason);
                session = Session::new(settings);
            }
        }
    }
    outcomes
}

fn message(random: &mut SplitMix, request: u32, payload: &[u8]) -> Result<Message, CutOff> {
    let flags: u32 =
        if random.one_in(2000) { random.pick(&[0, 5, 17]) } else { random.pick(&[1, 9]) };
    let size = u32::try_from(payload.len()).expect("a short payload");
    let mut bytes = [0; 12];
    for (target, word) in bytes.chunks_exact_mut(4).zip([request, flags, size]) {
        target.copy_from_slice(&word.to_ne_bytes());
    }
    Message::parse(Header::parse(&bytes)?, payload)
}

/// A payload that is right as a rule, so that sessions come far.
fn payload(random: &mut SplitMix, request: u32) -> Vec<u8> {
    if random.one_in(1000) {
        let bytes = random.below(5000);
        return (0..bytes).map(|_| random.next().to_le_bytes()[0]).collect();
    }
    let index = if random.one_in(1000) { random.below(300) } else { random.below(2) };
    let state = |number: u64| vec![index | number << 32];
    let words = match request {
        2 if random.one_in(300) => vec![random.next()],
        2 => vec![random.next() & (feature::OFFERED | feature::OFFLOADS)],
        16 => vec![random.next() & protocol_feature::OFFERED],
        5 => memory_table(random),
        8 if random.one_in(300) => state(random.below(70_000)),
        8 => state(1 << random.below(8)),
        9 => {
            let near = random.below(0x1000) * 16;
            vec![index, USER + near, USER + near + 0x1004, USER + near + 0x2002, 0]
        }
        10 => state(random.below(65_536 + 100)),
        11 => state(0),
        12..=14 => vec![index | random.below(4) << 8],
        18 => state(random.below(4)),
        19 | 20 | 39 => vec![random.below(3000)],
        24 | 25 => {
            let bytes = random.below(200);
            let head = [random.below(60), bytes, 0].map(|word| word.to_ne_bytes()[..4].to_vec());
            let space = vec![0; usize::try_from(bytes).expect("a short payload")];
            return [head.concat(), space].concat();
        }
        _ => Vec::new(),
    };
    words.into_iter().flat_map(u64::to_ne_bytes).collect()
}

fn memory_table(random: &mut SplitMix) -> Vec<u64> {
    let count = if random.one_in(100) { random.below(11) } else { 1 };
    let mut words = vec![count];
    for _ in 0..count {
        let bytes = if random.one_in(200) { random.next() } else { 0x1_0000 };
        let offset = if random.one_in(200) { random.below(0x2000) } else { 0 };
        words.extend([GUEST, bytes, USER, offset]);
    }
    // User-Mode Linux sends more than it needs.
    words.resize(words.len() + usize::from(random.one_in(2)) * 4, 0);
    words
}

/// What the message needs, mostly; memory for tables and eventfds else.
fn descriptors(random: &mut SplitMix, guest: &Guest, message: &Message) -> Vec<OwnedFd> {
    let wanted = if random.one_in(100) { 1 } else { message.descriptors() };
    let is_table = matches!(message.request, isolane_netback::Request::SetMemTable { .. });
    (0..wanted)
        .map(|_| if is_table || random.one_in(500) { memory(guest) } else { event() })
        .collect()
}

fn memory(guest: &Guest) -> OwnedFd {
    guest.file.try_clone().expect("a descriptor is free").into()
}

fn event() -> OwnedFd {
    // SAFETY: no arguments that could be wrong.
    let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK) };
    assert!(fd >= 0, "no descriptor is free");
    // SAFETY: a descriptor that nobody else has.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// A round of work on rings whose memory is what earlier rounds left there.
fn work(session: &mut Session) -> Result<(), CutOff> {
    let mut frame = [0; 256];
    let mut rings = session.rings();
    let _ = (rings.next_frame(&mut frame)?, rings.deliver(&frame[..60], NetHeader::NONE)?);
    for ring in [rings.receive, rings.transmit].into_iter().flatten() {
        ring.queue.publish();
        if ring.queue.needs_call() {
            let _ = ring.call.map(isolane_netback::Call::signal);
        }
        let _ = (ring.queue.enable_kicks()?, ring.kick.map(isolane_netback::Kick::take));
    }
    Ok(())
}

/// Where the parts of the small ring lie.
const AVAILABLE: u64 = 0x100;
const USED: u64 = 0x200;
const TABLE: u64 = 0x300;
const SIZE: u16 = 8;
const BYTES: u64 = 0x3000;
/// Bytes of the file before and behind the guest's memory, within the same pages.
const GUARD: u64 = 0x1000 + 0x200;

struct Ring {
    guest: Guest,
    memory: Arc<GuestMemory>,
}

impl Ring {
    fn new() -> Self {
        let guest = Guest::new(GUARD + BYTES + GUARD);
        let region = MemoryRegion { bytes: BYTES, mmap_offset: GUARD, ..guest.region() };
        let memory = GuestMemory::map(&[(region, guest.file.as_fd())]).expect("it can be mapped");
        Self { guest, memory: Arc::new(memory) }
    }

    /// Writes descriptors and the available ring, its index being `ahead` of `start`.
    /// Descriptors have some of these flags.
    fn fill(&self, random: &mut SplitMix, start: u16, ahead: u16, flags: &[u16]) {
        let mut bytes = Vec::with_capacity(0x400);
        for _ in 0..SIZE {
            bytes.extend(descriptor(random, flags, true));
        }
        bytes.resize(usize::try_from(AVAILABLE).expect("small"), 0);
        bytes.extend(random.u16().to_le_bytes());
        bytes.extend(start.wrapping_add(ahead).to_le_bytes());
        for _ in 0..SIZE {
            let head = if random.one_in(50) { random.u16() } else { random.u16() % SIZE };
            bytes.extend(head.to_le_bytes());
        }
        bytes.extend(random.u16().to_le_bytes());
        bytes.resize(usize::try_from(TABLE).expect("small"), 0);
        for _ in 0..6 {
            bytes.extend(descriptor(random, flags, false));
        }
        self.guest.write(GUARD, &bytes);
    }

    fn queue(&self, random: &mut SplitMix, start: u16) -> Queue {
        let addresses =
            RingAddresses { descriptors: USER, available: USER + AVAILABLE, used: USER + USED };
        let settings = QueueSettings {
            size: SIZE,
            addresses,
            next_available: start,
            event_idx: random.one_in(2),
            indirect: !random.one_in(4),
        };
        Queue::new(&self.memory, &settings).expect("the ring lies inside")
    }

    /// Every segment lies inside the guest's memory.
    fn check(&self, chain: &Chain) {
        let base = self.memory.guest_range(GUEST, BYTES).expect("its memory").as_ptr().addr();
        let end = base + usize::try_from(BYTES).expect("small");
        for segment in chain.readable().iter().chain(chain.writable()) {
            let start = segment.start.as_ptr().addr();
            assert!(start >= base && start + segment.bytes <= end, "outside the guest's memory");
        }
    }

    /// Nothing was written before or behind it.
    fn check_guards(&self) {
        let bytes = usize::try_from(GUARD).expect("small");
        for at in [0, GUARD + BYTES] {
            assert!(self.guest.read(at, bytes).iter().all(|byte| *byte == 0), "a guard was hit");
        }
    }
}

/// A descriptor that is right as a rule.
fn descriptor(random: &mut SplitMix, flags: &[u16], may_be_indirect: bool) -> [u8; 16] {
    let mut address = GUEST + 0x800 + random.below(BYTES - 0x800 - 600);
    let mut bytes = random.below(600);
    let mut flags = random.pick(flags);
    let mut next = random.u16() % SIZE;
    match random.below(60) {
        0 => address = random.next(),
        1 => address = GUEST + BYTES - random.below(600),
        2 => bytes = random.next() >> 32,
        3 => flags = random.u16(),
        4 => next = random.u16(),
        5 => bytes = 0,
        6..16 if may_be_indirect => {
            (address, bytes, flags) = (GUEST + TABLE, 16 * (1 + random.below(6)), INDIRECT);
        }
        _ => {}
    }
    let low = u128::from(address) | u128::from(bytes & 0xffff_ffff) << 64;
    (low | u128::from(flags) << 96 | u128::from(next) << 112).to_le_bytes()
}

fn chains(random: &mut SplitMix, inputs: u64) -> Outcomes {
    let mut outcomes = Outcomes::default();
    let ring = Ring::new();
    let mut chain = Chain::new();
    let mut done = 0;
    while done < inputs {
        let start = random.u16();
        let ahead = if random.one_in(100) { random.u16() } else { 1 + random.u16() % SIZE };
        ring.fill(random, start, ahead, &[0, NEXT, NEXT, WRITE, WRITE, NEXT | WRITE]);
        let mut queue = ring.queue(random, start);
        let cut_off = loop {
            done += 1;
            match queue.pop(&mut chain) {
                Ok(true) => {
                    outcomes.count_as("Popped");
                    ring.check(&chain);
                    queue.push_used(chain.head(), 0);
                    queue.publish();
                    let _ = (queue.needs_call(), queue.used_event_passed());
                }
                Ok(false) => break queue.enable_kicks().err(),
                Err(reason) => break Some(reason),
            }
        };
        match cut_off {
            Some(reason) => outcomes.count(&reason),
            None => outcomes.count_as("Empty"),
        }
    }
    ring.check_guards();
    outcomes
}

/// Transmitted and received frames in buffers of random descriptors.
fn frames(random: &mut SplitMix, inputs: u64) -> Outcomes {
    let mut outcomes = Outcomes::default();
    let ring = Ring::new();
    let (mut chain, mut writer, mut buffer) = (Chain::new(), FrameWriter::new(), [0; 1024]);
    let mut done = 0;
    while done < inputs {
        let start = random.u16();
        let ahead = 1 + random.u16() % SIZE;
        let transmits = random.one_in(2);
        let flags = match random.below(20) {
            0 => [0, NEXT, WRITE],
            _ if transmits => [0, 0, NEXT],
            _ => [WRITE, WRITE, WRITE | NEXT],
        };
        ring.fill(random, start, ahead, &flags);
        // Random headers, in all buffers that start here.
        let header: Vec<u8> =
            (0..64).flat_map(|_| (random.next() & random.next()).to_le_bytes()).collect();
        ring.guest.write(GUARD + 0x800 + random.below(0x1000), &header);
        let mut queue = ring.queue(random, start);
        let offloads = offloads(random);
        let format = FrameFormat {
            transmit: offloads,
            ..FrameFormat::new(random.pick(&[10, 12, 12]), random.one_in(2))
        };
        loop {
            done += 1;
            let outcome = if transmits {
                transmit(&mut queue, &mut chain, format, &mut buffer)
            } else {
                let bytes = usize::try_from(random.below(1024)).expect("small");
                let header = NetHeader { flags: 1, gso_type: 1, ..NetHeader::NONE };
                writer.deliver(&mut queue, format, &buffer[..bytes], header).map(Outcome::Received)
            };
            match outcome {
                Ok(Outcome::Transmitted(frame)) => outcomes.count(&frame),
                Ok(Outcome::Received(Delivered::TooLong)) => {
                    outcomes.count_as("ReceiveTooLong");
                    break;
                }
                Ok(Outcome::Received(delivered)) => {
                    outcomes.count(&delivered);
                    if delivered == Delivered::Full {
                        break;
                    }
                }
                Ok(Outcome::Nothing) => break,
                Err(reason) => {
                    outcomes.count(&reason);
                    break;
                }
            }
            queue.publish();
        }
    }
    ring.check_guards();
    outcomes
}

fn offloads(random: &mut SplitMix) -> Offloads {
    let mut one = || random.one_in(2);
    Offloads { checksum: one(), tcp_ipv4: one(), tcp_ipv6: one() }
}

/// Frames that are to be divided: good ones with a few bytes changed, and a random header.
fn divisions(random: &mut SplitMix, inputs: u64) -> Outcomes {
    /// IPv4 and IPv6 with TCP, behind a tag or not; what is not written here is 0.
    const GOOD: [&[(usize, u8)]; 3] = [
        &[(12, 8), (14, 0x45), (23, 6), (46, 0x50)],
        &[(12, 0x86), (13, 0xdd), (14, 0x60), (20, 6), (66, 0x80)],
        &[(12, 0x81), (15, 7), (16, 0x86), (17, 0xdd), (18, 0x60), (24, 60), (58, 17)],
    ];
    let mut outcomes = Outcomes::default();
    let mut segment = [0; MAX_FRAME_BYTES];
    for _ in 0..inputs {
        let mut frame = [0; 2048];
        for &(at, to) in random.pick(&GOOD) {
            frame[at] = to;
        }
        let bytes = usize::try_from(random.below(2048)).expect("small");
        for _ in 0..random.below(4) {
            let at = usize::try_from(random.below(100)).expect("small");
            frame[at] = random.next().to_le_bytes()[0];
        }
        let header = NetHeader {
            gso_type: random.pick(&[1, 4, 5, 0x81, 0x84, 3]),
            gso_size: random.u16() % 1600,
            ..NetHeader::NONE
        };
        let Some(division) = Division::of(&frame[..bytes], header) else {
            outcomes.count_as("Refused");
            continue;
        };
        let segments = division.segments();
        let write = |number| division.write(number, &frame[..bytes], &mut segment);
        let written: usize = (0..segments).map(write).sum();
        // All segments but the first have the headers once more.
        let repeated = written - bytes;
        let headers = if segments > 1 { repeated / (segments - 1) } else { 0 };
        assert_eq!(repeated, headers * (segments - 1), "each byte of payload once");
        outcomes.count_as("Divided");
    }
    outcomes
}

enum Outcome {
    Transmitted(Transmitted),
    Received(Delivered),
    Nothing,
}

fn transmit(
    queue: &mut Queue,
    chain: &mut Chain,
    format: FrameFormat,
    buffer: &mut [u8],
) -> Result<Outcome, CutOff> {
    if !queue.pop(chain)? {
        return Ok(Outcome::Nothing);
    }
    let frame = copy_out(chain, format, buffer)?;
    queue.push_used(chain.head(), 0);
    Ok(Outcome::Transmitted(frame))
}
