//! One guest transmits to another one.

use std::time::{Duration, Instant};

use super::{
    Failure, Result,
    arguments::{Arguments, number},
    nic::{Nic, checked_bytes},
    ring::SIZE,
};

/// Frames that are taken back from the device, or received, at once.
pub const BATCH: u16 = 32;
/// Before anything counts, s.
pub const WARM_UP_S: f64 = 0.3;
/// How long the first frame may take.
const FIRST: Duration = Duration::from_secs(5);
/// Steps between two looks at the clock.
const STEPS: u32 = 32;

pub fn run(wanted: &Arguments) -> Result<String> {
    let seconds = number(wanted.word(1, "SECONDS")?)?;
    let size = checked_bytes(wanted.needed("size")?)?;
    let (to_mac, from_mac) = (wanted.address("to-mac")?, wanted.address("from-mac")?);
    let mut from = Nic::attach(wanted.word(2, "FROM.sock")?)?;
    let mut to = Nic::attach(wanted.word(3, "TO.sock")?)?;
    from.fill(to_mac, from_mac);
    (0..SIZE).for_each(|head| from.send(head, size));
    from.transmit.publish();
    let begun = Instant::now();
    // A back-end may lose frames until it has noticed the second guest.
    while to.drain(1) == 0 {
        let _ = send_again(&mut from, 1);
        if begun.elapsed() > FIRST {
            return Err(Failure::new("no frame arrives"));
        }
    }
    repeat(WARM_UP_S, || {
        let _ = (send_again(&mut from, BATCH), to.drain(BATCH));
    });
    let _ = (send_again(&mut from, 1), to.drain(1));
    let (mut sent, mut received) = (0, 0);
    let passed = repeat(seconds, || {
        sent += send_again(&mut from, BATCH);
        received += to.drain(BATCH);
    });
    sent += send_again(&mut from, 1);
    received += to.drain(1);
    from.check()?;
    to.check()?;
    Ok(format!("{{\"sent\": {sent}, \"received\": {received}, \"seconds\": {passed:.6}}}"))
}

/// Transmits what the device has given back, once that is `batch` frames at least.
#[inline]
fn send_again(nic: &mut Nic, batch: u16) -> u64 {
    let returned = nic.transmit.returned();
    if returned < batch {
        return 0;
    }
    for _ in 0..returned {
        let head = nic.transmit.take();
        nic.send_again(head);
    }
    nic.transmit.publish();
    returned.into()
}

/// Does a step over and over; returns how long that took, s.
pub fn repeat(seconds: f64, mut step: impl FnMut()) -> f64 {
    let begun = Instant::now();
    loop {
        (0..STEPS).for_each(|_| step());
        let passed = begun.elapsed().as_secs_f64();
        if passed >= seconds {
            return passed;
        }
    }
}
