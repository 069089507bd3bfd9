//! One frame at a time to a back-end that is awake, asleep or just falling asleep.

use std::{
    hint,
    time::{Duration, Instant},
};

use super::{
    Failure, Result,
    arguments::{Arguments, number},
    nic::Nic,
    random::Random,
    ring::{Ring, SIZE},
};

/// Of all frames, bytes.
const FRAME_BYTES: u16 = 60;
/// The longest pause between two cycles.
const PAUSE_NS: usize = 30_000;
/// So long the receiver only looks at its ring; then at its eventfd, too.
const SPIN: Duration = Duration::from_micros(50);
/// After that a wake-up is lost.
const LOST: Duration = Duration::from_secs(1);

/// What became of the cycles.
struct Found {
    /// Frames that arrived only after another kick.
    lost: u64,
    /// Frames that arrived, and the call that the guest had asked for did not come.
    lost_calls: u64,
    /// From the frame's publication to its arrival; of those that were not lost.
    latencies_ns: Vec<u64>,
}

pub fn run(wanted: &Arguments) -> Result<String> {
    let cycles: usize = number(wanted.word(1, "CYCLES")?)?;
    let (to_mac, from_mac) = (wanted.address("to-mac")?, wanted.address("from-mac")?);
    let mut from = Nic::attach(wanted.word(2, "FROM.sock")?)?;
    let mut to = Nic::attach(wanted.word(3, "TO.sock")?)?;
    from.fill(to_mac, from_mac);
    let latencies_ns = Vec::with_capacity(cycles);
    let mut found = Found { lost: 0, lost_calls: 0, latencies_ns };
    let mut random = Random::new(cycles as u64);
    for head in (0..SIZE).cycle().take(cycles) {
        let pause = Duration::from_nanos(random.below(PAUSE_NS) as u64);
        let begun = Instant::now();
        while begun.elapsed() < pause {
            hint::spin_loop();
        }
        one_cycle(&mut from, &mut to, head, &mut found)?;
    }
    from.check()?;
    to.check()?;
    Ok(summary(cycles, found))
}

fn one_cycle(from: &mut Nic, to: &mut Nic, head: u16, found: &mut Found) -> Result<()> {
    to.receive.want_call();
    // What was signalled before says nothing about this cycle.
    let _ = to.receive.was_called();
    let sent = Instant::now();
    from.send(head, FRAME_BYTES);
    from.transmit.publish();
    let mut called = false;
    if until_arrival(&to.receive, sent, &mut called) {
        let latency = sent.elapsed().as_nanos();
        found.latencies_ns.push(u64::try_from(latency).unwrap_or(u64::MAX));
    } else {
        found.lost += 1;
        from.transmit.kick();
        if !until_arrival(&to.receive, Instant::now(), &mut called) {
            return Err(Failure::new("a frame did not arrive, not after another kick either"));
        }
    }
    let arrived = Instant::now();
    while !called && !to.receive.was_called() {
        if arrived.elapsed() > LOST {
            found.lost_calls += 1;
            break;
        }
    }
    to.drain(1);
    // The device has shown the frame as received before, or together with, the free descriptor.
    let begun = Instant::now();
    while from.transmit.returned() == 0 {
        if begun.elapsed() > LOST {
            return Err(Failure::new("a descriptor did not come back"));
        }
    }
    let _ = from.transmit.take();
    Ok(())
}

/// Waits for a frame; false: it took too long. Tells whether the device has called meanwhile.
fn until_arrival(ring: &Ring, since: Instant, called: &mut bool) -> bool {
    loop {
        if ring.returned() > 0 {
            return true;
        }
        let passed = since.elapsed();
        if passed > SPIN && !*called {
            *called = ring.was_called();
        }
        if passed > LOST {
            return false;
        }
        hint::spin_loop();
    }
}

fn summary(cycles: usize, found: Found) -> String {
    let Found { lost, lost_calls, mut latencies_ns } = found;
    latencies_ns.sort_unstable();
    let at = |percent: usize| {
        let index = (latencies_ns.len() * percent / 100).min(latencies_ns.len().saturating_sub(1));
        latencies_ns.get(index).map_or(0.0, |&ns| ns as f64 / 1e3)
    };
    let (p50, p99, max) = (at(50), at(99), at(100));
    format!(
        "{{\"cycles\": {cycles}, \"lost\": {lost}, \"lost_calls\": {lost_calls}, \
         \"p50_us\": {p50:.3}, \"p99_us\": {p99:.3}, \"max_us\": {max:.3}}}"
    )
}
