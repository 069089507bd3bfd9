//! WRR as in algorithm 1 of Adamczyk and Chydzinski (2012).
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::support::{self, Arrival, Departure, Frame, LINK_BPS, LONGEST};
use isolane_sched::{FlowSettings, Kind, Next, Prng, Scheduler, Transmission};

/// Packets that arrive one by one, numbered.
struct Offered {
    scheduler: Scheduler<Frame>,
    ids: u64,
}

impl Offered {
    /// WRR that knows when a transmission ends: one byte takes one ns.
    fn timed(weights: &[u32]) -> Self {
        let transmission = Transmission { rate_bps: LINK_BPS, overhead_bytes: 0 };
        let kind = Kind::Wrr { transmission: Some(transmission) };
        let mut scheduler = support::scheduler(u32::try_from(weights.len()).unwrap(), kind);
        support::weights(&mut scheduler, weights);
        Self { scheduler, ids: 0 }
    }

    fn arrive(&mut self, flow: u32, packets: usize, now_ns: u64) {
        for _ in 0..packets {
            let frame = Frame { flow, bytes: 1_000, id: self.ids };
            self.scheduler.enqueue(frame, now_ns).unwrap();
            self.ids += 1;
        }
    }

    /// Whose packet goes at this time.
    fn ask(&mut self, now_ns: u64) -> Next<u32> {
        match self.scheduler.dequeue(now_ns) {
            Next::Packet(frame) => Next::Packet(frame.flow),
            Next::Wait { until_ns } => Next::Wait { until_ns },
            Next::Empty => Next::Empty,
        }
    }

    fn order(&mut self, packets: u64, from_ns: u64) -> Vec<u32> {
        (0..packets)
            .map(|packet| match self.ask(from_ns + packet * 1_000) {
                Next::Packet(flow) => flow,
                other => panic!("{other:?}"),
            })
            .collect()
    }
}

#[test]
fn packets_to_serve_are_weight_by_smallest_weight() {
    let mut offered = Offered::timed(&[30, 10, 20]);
    (0..3).for_each(|flow| offered.arrive(flow, 50, 0));
    assert_eq!(offered.order(12, 0), [0, 0, 0, 1, 2, 2, 0, 0, 0, 1, 2, 2]);
}

#[test]
fn a_fraction_of_a_packet_counts_as_one() {
    // 3:2 is 1.5 packets to serve; the counter reaches 2.
    let mut offered = Offered::timed(&[3, 2]);
    (0..2).for_each(|flow| offered.arrive(flow, 50, 0));
    assert_eq!(offered.order(6, 0), [0, 0, 1, 0, 0, 1]);
}

#[test]
fn weights_are_divided_by_the_mean_packet_size() {
    // The same weight: 500-byte packets get three turns for one of 1500.
    let mut scheduler = support::scheduler(2, Kind::Wrr { transmission: None });
    let settings = FlowSettings { mean_packet_bytes: 500, ..FlowSettings::default() };
    scheduler.set(0, settings, 0).unwrap();
    let arrivals: Vec<_> = (0..100)
        .map(|id| {
            let flow = u32::from(id % 2 == 0);
            let bytes = if flow == 0 { 500 } else { 1_500 };
            Arrival { at_ns: 0, frame: Frame { flow, bytes, id } }
        })
        .collect();
    let departures = support::run(&mut scheduler, &arrivals, 0..40_000);
    let flows: Vec<_> = departures.iter().take(8).map(|departure| departure.frame.flow).collect();
    assert_eq!(flows, [0, 0, 0, 1, 0, 0, 0, 1]);
}

#[test]
fn it_waits_for_the_end_of_transmission() {
    let mut offered = Offered::timed(&[2, 1]);
    offered.arrive(0, 1, 0);
    offered.arrive(1, 5, 0);
    assert_eq!(offered.ask(0), Next::Packet(0));
    // The queue has just emptied. It is not skipped: its packet is still on the wire.
    assert_eq!(offered.ask(1), Next::Wait { until_ns: 1_000 });
    assert_eq!(offered.ask(999), Next::Wait { until_ns: 1_000 });
    // What arrives before the end belongs to the same turn.
    offered.arrive(0, 1, 999);
    assert_eq!(offered.ask(1_000), Next::Packet(0));
    assert_eq!(offered.ask(2_000), Next::Packet(1));
}

#[test]
fn it_waits_no_longer_than_that() {
    let mut offered = Offered::timed(&[2, 1]);
    offered.arrive(0, 1, 0);
    offered.arrive(1, 5, 0);
    assert_eq!(offered.ask(0), Next::Packet(0));
    assert_eq!(offered.ask(1_000), Next::Packet(1));
    offered.arrive(0, 5, 1_500);
    assert_eq!(offered.order(5, 2_000), [0, 0, 1, 0, 0]);
}

#[test]
fn a_turn_ends_with_its_last_transmission_though_nobody_asks() {
    let mut offered = Offered::timed(&[2, 1]);
    offered.arrive(0, 1, 0);
    assert_eq!(offered.ask(0), Next::Packet(0));
    // Long after: a new turn, and the other flow is next.
    offered.arrive(0, 5, 9_000);
    offered.arrive(1, 5, 9_000);
    assert_eq!(offered.order(4, 9_000), [1, 0, 0, 1]);
}

#[test]
fn priorities_from_30_to_1_to_1_to_30_lose_nothing() {
    // The paper's figure 10: at each step the shares are the new ones.
    let mut scheduler = support::scheduler(2, Kind::Wrr { transmission: None });
    let packets = 20_000;
    for id in 0..packets {
        let frame = Frame { flow: u32::from(id % 2 == 0), bytes: LONGEST, id };
        scheduler.enqueue(frame, 0).unwrap();
    }
    let step_ns = 31 * 8 * u64::from(LONGEST);
    let mut now_ns = 0;
    for step in 0..=29u32 {
        let weights = [30 - step, 1 + step];
        support::weights(&mut scheduler, &weights);
        // The turn under way at the change may be of the old length: let it end.
        now_ns += 60 * u64::from(LONGEST);
        support::run(&mut scheduler, &[], now_ns - 60 * u64::from(LONGEST)..now_ns);
        let departures = support::run(&mut scheduler, &[], now_ns..now_ns + step_ns);
        now_ns += step_ns;
        let smallest = weights[0].min(weights[1]);
        let turns = weights.map(|weight| f64::from(weight.div_ceil(smallest)));
        let share = support::bytes_of(&departures, 0) as f64 / step_ns as f64;
        let expected = turns[0] / (turns[0] + turns[1]);
        assert!((share - expected).abs() < 0.13, "{weights:?}: {share} against {expected}");
    }
    let rest = support::run(&mut scheduler, &[], now_ns..u64::MAX);
    assert!(!rest.is_empty() && scheduler.totals().is_conserved());
    assert_eq!(scheduler.totals().sent.packets, packets);
}

/// Two flows of equal weight, all backlogged; flow 0's packets are of random size, flow 1's full.
fn random_against_full(kind: Kind, settings: FlowSettings) -> Vec<Departure> {
    let mut lengths = Prng::new(7, "lengths");
    let mut scheduler = support::scheduler(2, kind);
    scheduler.set(0, settings, 0).unwrap();
    for id in 0..20_000 {
        let flow = u32::from(id % 2 == 1);
        let bytes = if flow == 0 { 64 + lengths.below(LONGEST - 63) } else { LONGEST };
        scheduler.enqueue(Frame { flow, bytes, id }, 0).unwrap();
    }
    let departures = support::run(&mut scheduler, &[], 0..7_000_000);
    assert!(departures.last().unwrap().backlogged.iter().all(|&backlogged| backlogged));
    departures
}

#[test]
fn with_random_sizes_wrr_is_unfair_where_drr_is_fair() {
    let share = |departures: &[Departure]| {
        let bytes = [0, 1].map(|flow| support::bytes_of(departures, flow) as f64);
        bytes[0] / (bytes[0] + bytes[1])
    };
    let drr_bound = f64::from(3 * LONGEST);
    let drr = random_against_full(Kind::Drr { quantum_bytes: LONGEST }, FlowSettings::default());
    assert!((share(&drr) - 0.5).abs() < 0.001, "{}", share(&drr));
    assert!(support::unfairness(&drr, (0, 1), |_| 1.0) <= drr_bound);

    // WRR set up for packets of 1500 bytes: a third instead of half.
    let wrr = Kind::Wrr { transmission: None };
    let unaware = random_against_full(wrr.clone(), FlowSettings::default());
    assert!((share(&unaware) - 0.343).abs() < 0.01, "{}", share(&unaware));

    // Even told the true mean, 782 bytes, it errs by more than DRR ever may: it rounds to packets.
    let mean_packet_bytes = u32::midpoint(64, LONGEST);
    let told = FlowSettings { mean_packet_bytes, ..FlowSettings::default() };
    let aware = random_against_full(wrr, told);
    let unfairness = support::unfairness(&aware, (0, 1), |_| 1.0);
    assert!(unfairness > 3.0 * drr_bound, "{unfairness}");
}
