//! What the property tests share: packets, a link that asks a scheduler, the fluid reference.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

pub mod fluid;

use std::{collections::VecDeque, ops::Range};

use isolane_sched::{Config, FlowSettings, Kind, Next, Order, Packet, Prng, Scheduler};
use proptest::prelude::*;

/// The longest packet of the tests, bytes.
pub const LONGEST: u32 = 1_500;
/// All the time there is, ns.
pub const FOREVER: Range<u64> = 0..u64::MAX;
/// The link's rate, bit/s: one byte takes one nanosecond, so that no time is rounded.
pub const LINK_BPS: u64 = 8_000_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    pub flow: u32,
    pub bytes: u32,
    pub id: u64,
}

impl Packet for Frame {
    fn flow(&self) -> u32 {
        self.flow
    }

    fn len_bytes(&self) -> u32 {
        self.bytes
    }
}

/// A frame and when it comes, ns.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    pub at_ns: u64,
    pub frame: Frame,
}

/// One decision: when, whose turn, and who had packets waiting just before it.
#[derive(Debug, Clone)]
pub struct Departure {
    pub start_ns: u64,
    pub end_ns: u64,
    pub frame: Frame,
    pub backlogged: Vec<bool>,
    /// Whether the flow's queue was empty just after.
    pub emptied: bool,
}

pub fn scheduler(flows: u32, kind: Kind) -> Scheduler<Frame> {
    let config = Config { queue_packets: 20_000, pool_packets: 40_000, ..Config::new(flows, kind) };
    Scheduler::new(config).unwrap()
}

pub fn weights(scheduler: &mut Scheduler<Frame>, weights: &[u32]) {
    for (flow, &weight) in (0..).zip(weights) {
        scheduler.set(flow, FlowSettings { weight, ..FlowSettings::default() }, 0).unwrap();
    }
}

/// Every kind of scheduler, with everyday parameters.
pub fn kinds() -> Vec<Kind> {
    vec![
        Kind::Fifo,
        Kind::Credit { period_ns: 50_000, order: Order::InTurn },
        Kind::Credit { period_ns: 50_000, order: Order::Random(Prng::new(1, "order")) },
        Kind::RoundRobin,
        Kind::Wrr { transmission: None },
        Kind::Drr { quantum_bytes: LONGEST },
        Kind::Wfq,
        Kind::StrictPriority,
        Kind::Hierarchical { quantum_bytes: LONGEST, burst_bytes: 3_000 },
    ]
}

/// Frames of any flow and length, `mean_gap_ns` apart on average.
pub fn arrivals(
    flows: u32,
    frames: usize,
    mean_gap_ns: u64,
) -> impl Strategy<Value = Vec<Arrival>> {
    let frame = (0..=2 * mean_gap_ns, 0..flows, 64..=LONGEST);
    prop::collection::vec(frame, 1..frames).prop_map(|frames| {
        let mut at_ns = 0;
        (0..)
            .zip(frames)
            .map(|(id, (gap_ns, flow, bytes))| {
                at_ns += gap_ns;
                Arrival { at_ns, frame: Frame { flow, bytes, id } }
            })
            .collect()
    })
}

/// Arrivals that keep all flows backlogged: `frames` each at time 0, of random length.
pub fn backlog(flows: u32, frames: u32, seed: u64) -> Vec<Arrival> {
    let mut lengths = Prng::new(seed, "lengths");
    (0..flows * frames)
        .map(|id| {
            let bytes = 64 + lengths.below(LONGEST - 63);
            Arrival { at_ns: 0, frame: Frame { flow: id % flows, bytes, id: id.into() } }
        })
        .collect()
}

/// A link of `LINK_BPS` that asks whenever a transmission ends, during `period_ns` or until all is
/// sent.
pub fn run(
    scheduler: &mut Scheduler<Frame>,
    arrivals: &[Arrival],
    period_ns: Range<u64>,
) -> Vec<Departure> {
    let mut waiting: VecDeque<_> = arrivals.iter().copied().collect();
    let mut departures = Vec::new();
    let mut now_ns = period_ns.start;
    while now_ns < period_ns.end {
        while waiting.front().is_some_and(|arrival| arrival.at_ns <= now_ns) {
            let arrival = waiting.pop_front().unwrap();
            scheduler.enqueue(arrival.frame, arrival.at_ns).unwrap();
        }
        let backlogged = (0..).map_while(|flow| scheduler.counters(flow));
        let backlogged = backlogged.map(|counters| counters.backlog > 0).collect();
        let next_arrival_ns = waiting.front().map(|arrival| arrival.at_ns);
        now_ns = match scheduler.dequeue(now_ns) {
            Next::Packet(frame) => {
                let end_ns = now_ns + u64::from(frame.bytes);
                let emptied = scheduler.counters(frame.flow).unwrap().backlog == 0;
                let start_ns = now_ns;
                departures.push(Departure { start_ns, end_ns, frame, backlogged, emptied });
                end_ns
            }
            Next::Wait { until_ns } => {
                assert!(
                    until_ns > now_ns,
                    "nothing goes at {now_ns}, but there is no need to wait"
                );
                until_ns.min(next_arrival_ns.unwrap_or(u64::MAX))
            }
            Next::Empty => match next_arrival_ns {
                Some(at_ns) => at_ns,
                None => break,
            },
        };
    }
    departures
}

/// Bytes of one flow.
pub fn bytes_of(departures: &[Departure], flow: u32) -> u64 {
    let of_flow = departures.iter().filter(|departure| departure.frame.flow == flow);
    of_flow.map(|departure| u64::from(departure.frame.bytes)).sum()
}

/// The largest |sent i / share i - sent j / share j| over all intervals throughout which i and j
/// both had packets waiting, in bytes per share.
pub fn unfairness(departures: &[Departure], (i, j): (u32, u32), share: impl Fn(u32) -> f64) -> f64 {
    let (mut difference, mut min, mut max, mut worst) = (0.0f64, 0.0f64, 0.0f64, 0.0f64);
    for departure in departures {
        if !(departure.backlogged[i as usize] && departure.backlogged[j as usize]) {
            (difference, min, max) = (0.0, 0.0, 0.0);
            continue;
        }
        let flow = departure.frame.flow;
        if flow == i || flow == j {
            let sign = if flow == i { 1.0 } else { -1.0 };
            difference += sign * f64::from(departure.frame.bytes) / share(flow);
            min = min.min(difference);
            max = max.max(difference);
            worst = worst.max(max - min);
            if departure.emptied {
                (difference, min, max) = (0.0, 0.0, 0.0);
            }
        }
    }
    worst
}
