//! How far apart two cores are: the time that a cache line takes from one to the other and back.
//!
//! Sender and receiver of frames read what the other wrote, so forwarding between cores follows it.
//! Cores that share a last-level cache need some 0.2 us, others 1 us and more. A hypervisor moves
//! virtual cores from one to the other at will.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};

use crate::{Error, Histogram, Result, monotonic_ns, netns};

/// Round trips of a batch; one that is interrupted is an outlier among batches.
const ROUNDS: u64 = 64;
const BATCHES: usize = 15;
/// A core that others have keeps the ball for milliseconds; with fewer batches than this till the
/// limit nothing is told.
const MIN_BATCHES: u64 = 3;

/// A value in a cache line of its own, also where lines are fetched in pairs.
#[repr(align(128))]
#[derive(Default)]
struct Line<T>(T);

/// What both threads share.
#[derive(Default)]
struct Table {
    ball: Line<AtomicU64>,
    over: Line<AtomicBool>,
}

/// Returns the median time of a round trip between two cores, ns; None if others had the cores
/// until the limit.
///
/// Both cores spin meanwhile: for 960 round trips where nobody else wants them.
pub fn measure(near: usize, far: usize, limit_ns: u64) -> Result<Option<u64>> {
    let (table, limit) = (Table::default(), monotonic_ns().saturating_add(limit_ns));
    thread::scope(|scope| {
        let returning = scope.spawn(|| {
            let done = netns::pin(far).map(|()| give_back(&table));
            table.over.0.store(true, Ordering::Relaxed);
            done
        });
        let playing = scope.spawn(|| {
            let batches = netns::pin(near).map(|()| play(&table, limit));
            table.over.0.store(true, Ordering::Relaxed);
            batches
        });
        let panicked = || Error::State("a worker thread panicked");
        let batches = playing.join().map_err(|_| panicked())??;
        returning.join().map_err(|_| panicked())??;
        Ok(if batches.count() < MIN_BATCHES { None } else { batches.quantile_ns(5_000) })
    })
}

/// Throws an odd number, waits for the next one, and times batches of that; until the limit, or it
/// is over because nobody answers.
fn play(table: &Table, limit_ns: u64) -> Histogram {
    let mut batches = Histogram::default();
    let mut next = 1;
    netns::prefer();
    for _ in 0..BATCHES {
        let began_ns = monotonic_ns();
        for _ in 0..ROUNDS {
            table.ball.0.store(next, Ordering::Release);
            let mut looks = 0_u32;
            while table.ball.0.load(Ordering::Acquire) != next + 1 {
                looks = looks.wrapping_add(1);
                let over = || table.over.0.load(Ordering::Relaxed) || monotonic_ns() >= limit_ns;
                if looks.is_multiple_of(256) && over() {
                    return batches;
                }
            }
            next += 2;
        }
        batches.add((monotonic_ns() - began_ns) / ROUNDS);
    }
    batches
}

/// Answers each odd number with the next one until it is over.
fn give_back(table: &Table) {
    netns::prefer();
    while !table.over.0.load(Ordering::Relaxed) {
        let ball = table.ball.0.load(Ordering::Acquire);
        if ball % 2 == 1 {
            table.ball.0.store(ball + 1, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_thread;

    const LIMIT_NS: u64 = 60_000_000_000;

    #[test]
    fn the_round_trip_is_timed() {
        let cores = test_thread::cores();
        let (near, far) = (cores[0], cores[cores.len() - 1]);
        // On one core each throw waits for the scheduler, so its limit ends it.
        let limit_ns = if near == far { 50_000_000 } else { LIMIT_NS };
        let began_ns = monotonic_ns();
        let found = measure(near, far, limit_ns).expect("both cores are there");
        let spent_ns = monotonic_ns() - began_ns;
        assert!(near == far || found.is_some(), "a minute suffices");
        assert!(found.is_none_or(|ns| 0 < ns && ns * ROUNDS * MIN_BATCHES / 2 <= spent_ns));
    }

    #[test]
    fn without_time_nothing_is_told() {
        let core = test_thread::first_core();
        assert_eq!(measure(core, core, 0).expect("the core is there"), None);
    }

    #[test]
    fn a_core_that_is_not_there_is_an_error_at_once() {
        let core = test_thread::first_core();
        let began_ns = monotonic_ns();
        assert!(measure(core, 100_000, LIMIT_NS).is_err());
        assert!(measure(100_000, core, LIMIT_NS).is_err());
        assert!(monotonic_ns() - began_ns < LIMIT_NS, "nobody waits for it");
    }
}
