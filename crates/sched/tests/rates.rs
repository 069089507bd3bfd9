//! Minimum and maximum rates: the hierarchical scheduler and the credit scheduler.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::support::{self, Departure, Frame, LINK_BPS, LONGEST};
use isolane_sched::{Config, FlowSettings, Kind, Next, Order, Prng, Scheduler};
use proptest::prelude::*;

const FLOWS: u32 = 4;
const BURST: u32 = 4_000;

fn hierarchical() -> Kind {
    Kind::Hierarchical { quantum_bytes: LONGEST, burst_bytes: BURST }
}

/// All backlogged from time 0, served for a million ns.
fn served(settings: &[FlowSettings], seed: u64) -> Vec<Departure> {
    let flows = u32::try_from(settings.len()).unwrap();
    let mut scheduler = support::scheduler(flows, hierarchical());
    for (flow, &settings) in (0..).zip(settings) {
        scheduler.set(flow, settings, 0).unwrap();
    }
    let arrivals = support::backlog(flows, 1_800, seed);
    support::run(&mut scheduler, &arrivals, 0..1_000_000)
}

/// Bytes in that many ns at this rate.
fn bytes_at(rate_bps: u64, ns: u64) -> f64 {
    rate_bps as f64 * ns as f64 / 8e9
}

/// Minimum rates that sum to no more than `percent` of the link, and everything else at random.
fn feasible(percent: u64) -> impl Strategy<Value = Vec<FlowSettings>> {
    let flow = (0..100u64, 1..10u32, 0..8u8, any::<bool>());
    prop::collection::vec(flow, FLOWS as usize).prop_map(move |flows| {
        let sum: u64 = flows.iter().map(|flow| flow.0).sum::<u64>().max(1);
        let settings = |(part, weight, priority, limited): (u64, u32, u8, bool)| {
            let rate_min_bps = LINK_BPS / 100 * percent * part / sum;
            let rate_max_bps = limited.then_some(rate_min_bps + LINK_BPS / 10);
            let mean_packet_bytes = FlowSettings::default().mean_packet_bytes;
            let burst_bytes = None;
            FlowSettings {
                weight,
                priority,
                rate_min_bps,
                rate_max_bps,
                mean_packet_bytes,
                burst_bytes,
            }
        };
        flows.into_iter().map(settings).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Whatever weights, priorities and maxima: at the end of any of its packets a flow has had its
    /// minimum rate's bytes but for one packet of its own and the time of one other's.
    #[test]
    fn minimum_rates_are_met_whenever_feasible(settings in feasible(100), seed in any::<u64>()) {
        let departures = served(&settings, seed);
        let mut sent = [0.0; FLOWS as usize];
        for departure in &departures {
            sent[departure.frame.flow as usize] += f64::from(departure.frame.bytes);
            for (flow, settings) in settings.iter().enumerate() {
                let owed = bytes_at(settings.rate_min_bps, departure.end_ns);
                let allowance = f64::from(2 * LONGEST);
                prop_assert!(
                    sent[flow] + allowance >= owed,
                    "flow {flow} at {}: {} of {owed}", departure.end_ns, sent[flow]
                );
            }
        }
    }

    /// In any interval at most rate x time + burst, and the packet under way at each end.
    #[test]
    fn maximum_rates_are_never_exceeded(settings in feasible(80), seed in any::<u64>()) {
        let departures = served(&settings, seed);
        for (flow, settings) in (0..).zip(&settings) {
            let Some(rate_max_bps) = settings.rate_max_bps else { continue };
            // Leaky bucket: how far ahead of the rate it has been.
            let (mut ahead, mut last_ns) = (0.0f64, 0);
            for departure in departures.iter().filter(|departure| departure.frame.flow == flow) {
                let gone = bytes_at(rate_max_bps, departure.start_ns - last_ns);
                ahead = (ahead - gone).max(0.0) + f64::from(departure.frame.bytes);
                last_ns = departure.start_ns;
                prop_assert!(ahead <= f64::from(BURST) + 1.0, "flow {flow}: {ahead}");
            }
        }
    }

    /// The link is idle only while every flow is at its maximum.
    #[test]
    fn what_is_left_is_not_wasted(settings in feasible(60), seed in any::<u64>()) {
        let departures = served(&settings, seed);
        let sent: u64 = (0..FLOWS).map(|flow| support::bytes_of(&departures, flow)).sum();
        let unlimited = settings.iter().any(|settings| settings.rate_max_bps.is_none());
        let possible: u64 = settings.iter().filter_map(|settings| settings.rate_max_bps).sum();
        let min_bytes = if unlimited { 1e6 } else { bytes_at(possible.min(LINK_BPS), 1_000_000) };
        prop_assert!(sent as f64 >= min_bytes - f64::from(2 * LONGEST * FLOWS), "{sent} of {min_bytes}");
    }

    /// Flows that come and go: within each backlogged period, from its beginning.
    #[test]
    fn minimum_rates_hold_for_flows_that_come_and_go(
        settings in feasible(100),
        arrivals in support::arrivals(FLOWS, 400, 400),
    ) {
        let mut scheduler = support::scheduler(FLOWS, hierarchical());
        for (flow, settings) in (0..).zip(&settings) {
            let settings = FlowSettings { rate_max_bps: None, ..*settings };
            scheduler.set(flow, settings, 0).unwrap();
        }
        let departures = support::run(&mut scheduler, &arrivals, support::FOREVER);
        for (flow, settings) in (0..).zip(&settings) {
            let (mut began_ns, mut sent, mut idle_from) = (0, 0.0, 0);
            for departure in departures.iter().filter(|departure| departure.frame.flow == flow) {
                let arrived_ns = arrivals[usize::try_from(departure.frame.id).unwrap()].at_ns;
                if arrived_ns > idle_from {
                    (began_ns, sent) = (arrived_ns, 0.0);
                }
                sent += f64::from(departure.frame.bytes);
                idle_from = departure.start_ns;
                let owed = bytes_at(settings.rate_min_bps, departure.end_ns - began_ns);
                // As above, and a packet that the period before has had in advance.
                prop_assert!(sent + f64::from(3 * LONGEST) >= owed, "flow {flow}: {sent} of {owed}");
            }
        }
    }
}

#[test]
fn the_rest_is_shared_by_weight() {
    // Minimum 40 and 10 % of the link; the other half 1:4, so 50:50.
    let settings = [(40, 1), (10, 4)].map(|(percent, weight)| FlowSettings {
        weight,
        rate_min_bps: LINK_BPS / 100 * percent,
        ..FlowSettings::default()
    });
    let departures = served(&settings, 1);
    for flow in 0..2 {
        let share = support::bytes_of(&departures, flow) as f64 / 1e6;
        assert!((share - 0.5).abs() < 0.01, "flow {flow}: {share}");
    }
}

#[test]
fn the_rest_goes_to_the_first_priority_after_all_minimum_rates() {
    let flow = |priority, percent| FlowSettings {
        priority,
        rate_min_bps: LINK_BPS / 100 * percent,
        ..FlowSettings::default()
    };
    let departures = served(&[flow(1, 30), flow(0, 10), flow(7, 20)], 1);
    for (flow, percent) in [(0, 30.0), (1, 50.0), (2, 20.0)] {
        let share = support::bytes_of(&departures, flow) as f64 / 1e4;
        assert!((share - percent).abs() < 1.0, "flow {flow}: {share} %");
    }
}

#[test]
fn minimum_rates_that_cannot_all_be_met_starve_nobody() {
    let settings = [90, 45, 45].map(|percent| FlowSettings {
        rate_min_bps: LINK_BPS / 100 * percent,
        ..FlowSettings::default()
    });
    let departures = served(&settings, 1);
    for (flow, percent) in [(0, 50.0), (1, 25.0), (2, 25.0)] {
        let share = support::bytes_of(&departures, flow) as f64 / 1e4;
        assert!((share - percent).abs() < 2.0, "flow {flow}: {share} %");
    }
}

/// One flow, its rate limited to 1/8 byte per ns; its credit is 1,250 bytes per 10,000 ns.
fn credit(order: Order, flows: u32) -> Scheduler<Frame> {
    let kind = Kind::Credit { period_ns: 10_000, order };
    Scheduler::new(Config::new(flows, kind)).unwrap()
}

fn limited(rate_bps: u64) -> FlowSettings {
    FlowSettings { rate_max_bps: Some(rate_bps), ..FlowSettings::default() }
}

#[test]
fn a_flow_out_of_credit_waits_for_its_callback() {
    let mut scheduler = credit(Order::InTurn, 2);
    scheduler.set(0, limited(1_000_000_000), 0).unwrap();
    for id in 0..10 {
        scheduler.enqueue(Frame { flow: 0, bytes: 500, id }, 0).unwrap();
    }
    let mut ask = |now_ns| match scheduler.dequeue(now_ns) {
        Next::Packet(frame) => Ok(frame.id),
        Next::Wait { until_ns } => Err(until_ns),
        Next::Empty => unreachable!(),
    };
    assert_eq!([ask(0), ask(0)], [Ok(0), Ok(1)]);
    // 250 bytes are left, and lost at the end of the period: credit is not saved.
    assert_eq!([ask(0), ask(9_999)], [Err(10_000), Err(10_000)]);
    assert_eq!([ask(10_000), ask(10_500)], [Ok(2), Ok(3)]);
    assert_eq!(ask(10_500), Err(20_000));
}

#[test]
fn credit_reaches_a_little_less_than_the_rate() {
    // Adamczyk and Chydzinski 2012: "the actual rate is always a little smaller than rate". At 35
    // Mbit/s and Xen's 50 ms a period's credit is 218,750 bytes, of which 145 packets use 217,500.
    let kind = Kind::Credit { period_ns: 50_000_000, order: Order::InTurn };
    let mut scheduler = support::scheduler(1, kind);
    scheduler.set(0, limited(35_000_000), 0).unwrap();
    for id in 0..5_000 {
        scheduler.enqueue(Frame { flow: 0, bytes: 1_500, id }, 0).unwrap();
    }
    let departures = support::run(&mut scheduler, &[], 0..1_000_000_000);
    assert_eq!(departures.len(), 20 * 145);
}

#[test]
fn a_packet_longer_than_the_credit_waits_for_several_periods() {
    let mut scheduler = credit(Order::InTurn, 1);
    scheduler.set(0, limited(400_000_000), 0).unwrap();
    for id in 0..3 {
        scheduler.enqueue(Frame { flow: 0, bytes: 1_500, id }, 0).unwrap();
    }
    let departures = support::run(&mut scheduler, &[], support::FOREVER);
    let starts: Vec<_> = departures.iter().map(|departure| departure.start_ns).collect();
    assert_eq!(starts, [20_000, 50_000, 80_000]);
}

#[test]
fn without_a_rate_in_turn_is_round_robin_and_at_random_is_not() {
    let order_of = |order| {
        let mut scheduler = credit(order, 2);
        for id in 0..400 {
            scheduler.enqueue(Frame { flow: u32::from(id % 2 == 1), bytes: 1_500, id }, 0).unwrap();
        }
        let departures = support::run(&mut scheduler, &[], 0..200 * 1_500);
        departures.into_iter().map(|departure| departure.frame.flow).collect::<Vec<_>>()
    };
    assert!(order_of(Order::InTurn).chunks(2).all(|pair| pair == [0, 1]));
    let random = |seed| order_of(Order::Random(Prng::new(seed, "netback")));
    assert_eq!(random(1), random(1));
    assert_ne!(random(1), random(2));
    let longest_run = random(1).chunk_by(|a, b| a == b).map(<[u32]>::len).max();
    assert!(longest_run >= Some(5), "{longest_run:?}");
}

#[test]
fn a_rate_taken_away_holds_no_longer() {
    let mut scheduler = credit(Order::InTurn, 1);
    scheduler.set(0, limited(1_000_000_000), 0).unwrap();
    for id in 0..4 {
        scheduler.enqueue(Frame { flow: 0, bytes: 1_000, id }, 0).unwrap();
    }
    assert!(matches!(scheduler.dequeue(0), Next::Packet(_)));
    assert_eq!(scheduler.dequeue(0), Next::Wait { until_ns: 10_000 });
    // Another rate: its credit comes with the next period.
    scheduler.set(0, limited(2_000_000_000), 4_000).unwrap();
    assert_eq!(scheduler.dequeue(4_000), Next::Wait { until_ns: 10_000 });
    scheduler.set(0, FlowSettings::default(), 5_000).unwrap();
    let departures = support::run(&mut scheduler, &[], 5_000..u64::MAX);
    let starts: Vec<_> = departures.iter().map(|departure| departure.start_ns).collect();
    assert_eq!(starts, [5_000, 6_000, 7_000]);
}
