//! DRR and WFQ within their published bounds, pairwise and against the fluid reference.

use crate::support::{self, Arrival, Departure, LONGEST, fluid::Fluid};
use isolane_sched::Kind;
use proptest::prelude::*;

const FLOWS: u32 = 4;
const QUANTUM: u32 = LONGEST;
/// What fixed-point tags and the floats of the tests may add, bytes.
const SLACK: f64 = 0.1;

fn drr() -> Kind {
    Kind::Drr { quantum_bytes: QUANTUM }
}

fn some_weights() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(1..20u32, FLOWS as usize)
}

fn served(kind: Kind, weights: &[u32], arrivals: &[Arrival]) -> Vec<Departure> {
    let mut scheduler = support::scheduler(FLOWS, kind);
    support::weights(&mut scheduler, weights);
    support::run(&mut scheduler, arrivals, support::FOREVER)
}

fn pairs() -> impl Iterator<Item = (u32, u32)> {
    (0..FLOWS).flat_map(|i| (0..i).map(move |j| (i, j)))
}

/// The longest frame of a flow, bytes.
fn longest_of(arrivals: &[Arrival], flow: u32) -> f64 {
    let of_flow = arrivals.iter().filter(|arrival| arrival.frame.flow == flow);
    of_flow.map(|arrival| arrival.frame.bytes).max().unwrap_or(0).into()
}

fn share(weights: &[u32]) -> impl Fn(u32) -> f64 {
    let weights = weights.to_vec();
    move |flow| weights[flow as usize].into()
}

/// The largest distance of each flow's service from the fluid's while all are backlogged in both,
/// bytes.
fn distance_from_fluid(
    departures: &[Departure],
    weights: &[u32],
    arrivals: &[Arrival],
) -> Vec<f64> {
    let mut fluid = Fluid::new(weights, arrivals);
    let mut sent = vec![0.0; weights.len()];
    let mut worst = vec![0.0f64; weights.len()];
    for departure in departures {
        sent[departure.frame.flow as usize] += f64::from(departure.frame.bytes);
        let fluid_sent = fluid.served_at(departure.end_ns).to_vec();
        if !fluid.all_backlogged() || departure.backlogged.contains(&false) {
            break;
        }
        for flow in 0..weights.len() {
            worst[flow] = worst[flow].max((sent[flow] - fluid_sent[flow]).abs());
        }
    }
    worst
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Shreedhar and Varghese 1996, FM <= 2 Max + Q, per unit of the smallest quantum.
    #[test]
    fn drr_is_as_fair_as_published(
        weights in some_weights(),
        arrivals in support::arrivals(FLOWS, 400, 300),
    ) {
        let departures = served(drr(), &weights, &arrivals);
        let smallest = *weights.iter().min().unwrap();
        let bound = f64::from(2 * LONGEST + QUANTUM * smallest);
        for pair in pairs() {
            let per_smallest = |flow: u32| f64::from(weights[flow as usize]) / f64::from(smallest);
            let measured = support::unfairness(&departures, pair, per_smallest);
            prop_assert!(measured <= bound, "{pair:?}: {measured} > {bound}");
        }
    }

    /// Stiliadis and Varma 1998: DRR is a latency-rate server with latency
    /// (3 F - 2 quantum) / link rate, F the sum of quanta: in a backlogged period that begins at b,
    /// a packet behind which W bytes have been served ends by b + latency + W / rate.
    #[test]
    fn drr_is_as_prompt_as_published(
        weights in some_weights(),
        arrivals in support::arrivals(FLOWS, 400, 500),
    ) {
        let departures = served(drr(), &weights, &arrivals);
        let frame: f64 = weights.iter().map(|&weight| f64::from(weight * QUANTUM)).sum();
        for flow in 0..FLOWS {
            let quantum = f64::from(weights[flow as usize] * QUANTUM);
            let latency = 3.0 * frame - 2.0 * quantum;
            let (mut began_ns, mut before, mut idle_from) = (0, 0.0, 0);
            for departure in departures.iter().filter(|departure| departure.frame.flow == flow) {
                let arrived_ns = arrivals[usize::try_from(departure.frame.id).unwrap()].at_ns;
                if arrived_ns > idle_from {
                    (began_ns, before) = (arrived_ns, 0.0);
                }
                let latest = began_ns as f64 + latency + before * frame / quantum;
                prop_assert!(departure.end_ns as f64 <= latest + SLACK);
                before += f64::from(departure.frame.bytes);
                idle_from = departure.start_ns;
            }
        }
    }

    /// Goyal, Vin and Cheng 1996 (fairness): |W_i / r_i - W_j / r_j| <= l_i / r_i + l_j / r_j.
    #[test]
    fn wfq_is_as_fair_as_published(
        weights in some_weights(),
        arrivals in support::arrivals(FLOWS, 400, 300),
    ) {
        let departures = served(Kind::Wfq, &weights, &arrivals);
        for (i, j) in pairs() {
            let share = share(&weights);
            let bound = longest_of(&arrivals, i) / share(i) + longest_of(&arrivals, j) / share(j);
            let measured = support::unfairness(&departures, (i, j), share);
            prop_assert!(measured <= bound + SLACK, "{i} {j}: {measured} > {bound}");
        }
    }

    /// Goyal, Vin and Cheng 1996 (delay): a packet ends by its expected arrival time, that in a
    /// fluid of its reserved rate alone, + the others' longest packets / C + its own length / C.
    #[test]
    fn wfq_is_as_prompt_as_published(
        weights in some_weights(),
        arrivals in support::arrivals(FLOWS, 400, 500),
    ) {
        let departures = served(Kind::Wfq, &weights, &arrivals);
        let sum: f64 = weights.iter().map(|&weight| f64::from(weight)).sum();
        for flow in 0..FLOWS {
            let rate = f64::from(weights[flow as usize]) / sum;
            let others: f64 =
                (0..FLOWS).filter(|&j| j != flow).map(|j| longest_of(&arrivals, j)).sum();
            let mut expected_ns = 0.0f64;
            for departure in departures.iter().filter(|departure| departure.frame.flow == flow) {
                let arrived_ns = arrivals[usize::try_from(departure.frame.id).unwrap()].at_ns;
                expected_ns = expected_ns.max(arrived_ns as f64);
                let latest = expected_ns + others + f64::from(departure.frame.bytes);
                prop_assert!(departure.end_ns as f64 <= latest + SLACK, "{flow} {departure:?} {latest}");
                expected_ns += f64::from(departure.frame.bytes) / rate;
            }
        }
    }

    /// With all backlogged the fluid serves each at its weight, so that a flow's distance from it is
    /// at most its share of the largest pairwise bound.
    #[test]
    fn both_stay_near_the_fluid(weights in some_weights(), seed in any::<u64>()) {
        let arrivals = support::backlog(FLOWS, 150, seed);
        let smallest = f64::from(*weights.iter().min().unwrap());
        let lightest = f64::from(LONGEST) / smallest;
        let drr_departures = served(drr(), &weights, &arrivals);
        let drr_distance = distance_from_fluid(&drr_departures, &weights, &arrivals);
        let wfq_departures = served(Kind::Wfq, &weights, &arrivals);
        let wfq_distance = distance_from_fluid(&wfq_departures, &weights, &arrivals);
        for flow in 0..FLOWS as usize {
            let weight = f64::from(weights[flow]);
            let pairwise = 2.0 * f64::from(LONGEST) / smallest + f64::from(QUANTUM);
            prop_assert!(drr_distance[flow] <= weight * pairwise + SLACK);
            let pairwise = f64::from(LONGEST) / weight + lightest;
            prop_assert!(wfq_distance[flow] <= weight * pairwise + SLACK);
        }
    }
}

#[test]
fn a_new_weight_gives_the_new_share() {
    for kind in [drr(), Kind::Wfq] {
        let mut scheduler = support::scheduler(2, kind);
        let arrivals = support::backlog(2, 6_000, 3);
        support::weights(&mut scheduler, &[30, 1]);
        let first = support::run(&mut scheduler, &arrivals, 0..2_000_000);
        let ratio = |departures: &[Departure]| {
            support::bytes_of(departures, 0) as f64 / support::bytes_of(departures, 1) as f64
        };
        assert!((27.0..33.0).contains(&ratio(&first)), "{}", ratio(&first));
        support::weights(&mut scheduler, &[1, 30]);
        let start_ns = first.last().unwrap().end_ns;
        let second = support::run(&mut scheduler, &[], start_ns..start_ns + 2_000_000);
        let inverse = 1.0 / ratio(&second);
        assert!((27.0..33.0).contains(&inverse), "{inverse}");
    }
}
