//! Many guests that transmit more than the uplink takes.

use super::{
    Failure, Result,
    arguments::{Arguments, address, number},
    forward::{BATCH, WARM_UP_S, repeat},
    nic::{Address, Nic, checked_bytes},
    random::Random,
    ring::SIZE,
};

/// No port has it, so frames to it leave by the uplink.
const NOBODY: Address = [2, 0, 0, 0, 0xff, 0xff];
/// What a frame takes of the wire besides its own bytes, and the fewest of these.
const WIRE_OVERHEAD_BYTES: u64 = 24;
const WIRE_SHORTEST_BYTES: u64 = 60;
/// Steps between two looks at receive rings: nothing should arrive.
const DRAINED_EACH: u32 = 64;

/// A guest, and what the device has taken of it.
pub struct Source {
    nic: Nic,
    sizes: Vec<u16>,
    /// Of the frame in each transmit buffer, bytes.
    bytes_of: [u16; SIZE as usize],
    random: Random,
    frames: u64,
    wire_bytes: u64,
}

impl Source {
    fn attach(number: usize, socket: &str, ends: [Address; 2], sizes: Vec<u16>) -> Result<Self> {
        let nic = Nic::attach(socket)?;
        nic.fill(ends[1], ends[0]);
        let random = Random::new(number as u64);
        let bytes_of = [0; SIZE as usize];
        Ok(Self { nic, sizes, bytes_of, random, frames: 0, wire_bytes: 0 })
    }

    /// Transmits a ring full.
    pub fn begin(&mut self) {
        (0..SIZE).for_each(|head| self.send(head));
        self.nic.transmit.publish();
    }

    #[inline]
    fn send(&mut self, head: u16) {
        let bytes = self.sizes[self.random.below(self.sizes.len())];
        self.bytes_of[usize::from(head)] = bytes;
        self.nic.send(head, bytes);
    }

    /// Counts and replaces what the device has given back, once that is `batch` frames at least.
    #[inline]
    pub fn replace(&mut self, batch: u16) {
        let returned = self.nic.transmit.returned();
        if returned < batch {
            return;
        }
        for _ in 0..returned {
            let head = self.nic.transmit.take();
            self.wire_bytes += wire_bytes(self.bytes_of[usize::from(head)]);
            self.send(head);
        }
        self.frames += u64::from(returned);
        self.nic.transmit.publish();
    }
}

/// What a frame takes of a wire, by which schedulers share.
pub fn wire_bytes(frame_bytes: u16) -> u64 {
    u64::from(frame_bytes).max(WIRE_SHORTEST_BYTES) + WIRE_OVERHEAD_BYTES
}

pub fn run(wanted: &Arguments) -> Result<String> {
    let seconds = number(wanted.word(1, "SECONDS")?)?;
    let mut sources = attach(wanted, 2, NOBODY)?;
    sources.iter_mut().for_each(Source::begin);
    let mut step = 0u32;
    let mut work = |sources: &mut Vec<Source>| {
        step = step.wrapping_add(1);
        for source in sources {
            source.replace(BATCH);
            if step.is_multiple_of(DRAINED_EACH) {
                let _ = source.nic.drain(1);
            }
        }
    };
    repeat(WARM_UP_S, || work(&mut sources));
    for source in &mut sources {
        source.replace(1);
        (source.frames, source.wire_bytes) = (0, 0);
    }
    let passed = repeat(seconds, || work(&mut sources));
    for source in &mut sources {
        source.replace(1);
    }
    sources.iter().try_for_each(|source| source.nic.check())?;
    let guests: Vec<String> = sources
        .iter()
        .map(|one| format!("{{\"frames\": {}, \"bytes\": {}}}", one.frames, one.wire_bytes))
        .collect();
    Ok(format!("{{\"seconds\": {passed:.6}, \"guests\": [{}]}}", guests.join(", ")))
}

/// Attaches guests at the sockets from this word on, which transmit to an address.
pub fn attach(wanted: &Arguments, first: usize, to: Address) -> Result<Vec<Source>> {
    let given = wanted.words.get(first..).unwrap_or_default();
    if given.is_empty() {
        return Err(Failure::new("sockets are missing"));
    }
    let mut sizes = vec![sizes(wanted.needed("sizes")?)?; given.len()];
    for word in wanted.options("sizes-of") {
        let (index, own) = divided(word, ':')?;
        let index: usize = number(index)?;
        let one = sizes.get_mut(index);
        *one.ok_or_else(|| Failure::new(format!("there is no guest {index}")))? = self::sizes(own)?;
    }
    let one = |(number, (word, sizes)): (usize, (&String, Vec<u16>))| {
        let (socket, mac) = divided(word, '=')?;
        Source::attach(number, socket, [address(mac)?, to], sizes)
    };
    given.iter().zip(sizes).enumerate().map(one).collect()
}

fn sizes(text: &str) -> Result<Vec<u16>> {
    text.split(',').map(checked_bytes).collect()
}

pub fn divided(text: &str, between: char) -> Result<(&str, &str)> {
    text.split_once(between).ok_or_else(|| Failure::new(format!("{text} has no {between}")))
}
