//! Strict priority: what it means, and that it means no more.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::support::{self, Arrival, Frame};
use isolane_sched::{FlowSettings, Kind, Next, Scheduler};
use proptest::prelude::*;

const FLOWS: u32 = 5;

fn with_priorities(priorities: &[u8]) -> Scheduler<Frame> {
    let mut scheduler = support::scheduler(FLOWS, Kind::StrictPriority);
    for (flow, &priority) in (0..).zip(priorities) {
        scheduler.set(flow, FlowSettings { priority, ..FlowSettings::default() }, 0).unwrap();
    }
    scheduler
}

fn hierarchical(shares: &[(u8, u32)]) -> Scheduler<Frame> {
    let kind = Kind::Hierarchical { quantum_bytes: support::LONGEST, burst_bytes: 3_000 };
    let mut scheduler = support::scheduler(FLOWS, kind);
    for (flow, &(priority, weight)) in (0..).zip(shares) {
        let settings = FlowSettings { priority, weight, ..FlowSettings::default() };
        scheduler.set(flow, settings, 0).unwrap();
    }
    scheduler
}

/// As long as flow `f` alone would take on the link, with others before it: the link alone, whatever
/// is left of it.
fn end_of_last(arrivals: &[Arrival]) -> u64 {
    arrivals
        .iter()
        .fold(0, |end_ns: u64, arrival| end_ns.max(arrival.at_ns) + u64::from(arrival.frame.bytes))
}

proptest! {
    #[test]
    fn the_lowest_number_goes_first(
        priorities in prop::collection::vec(0..8u8, FLOWS as usize),
        arrivals in support::arrivals(FLOWS, 300, 500),
    ) {
        let mut scheduler = with_priorities(&priorities);
        for departure in support::run(&mut scheduler, &arrivals, support::FOREVER) {
            let waiting = departure.backlogged.iter().zip(&priorities);
            let first = waiting.filter(|(backlogged, _)| **backlogged).map(|(_, priority)| priority);
            prop_assert_eq!(&priorities[departure.frame.flow as usize], first.min().unwrap());
        }
    }

    /// The same of the hierarchical scheduler's rest, however long the turn is that a flow of a higher
    /// number has begun, and whatever priority flows have from now on.
    #[test]
    fn a_turn_that_has_begun_waits_for_the_classes_above(
        mut shares in prop::collection::vec((0..8u8, 1..50u32), FLOWS as usize),
        steps in prop::collection::vec(
            (0..FLOWS, 64..=support::LONGEST, 0..3u32, prop::option::of((0..8u8, 1..50u32))), 1..400,
        ),
    ) {
        let mut scheduler = hierarchical(&shares);
        for (id, (flow, bytes, departures, change)) in (0..).zip(steps) {
            scheduler.enqueue(Frame { flow, bytes, id }, 0).unwrap();
            if let Some((priority, weight)) = change.filter(|_| id % 8 == 0) {
                shares[flow as usize] = (priority, weight);
                let settings = FlowSettings { priority, weight, ..FlowSettings::default() };
                scheduler.set(flow, settings, 0).unwrap();
            }
            for _ in 0..departures {
                let waiting = (0..FLOWS).filter(|&flow| scheduler.queued(flow) != Some(0));
                let first = waiting.map(|flow| shares[flow as usize].0).min();
                let sent = match scheduler.dequeue(0) {
                    Next::Packet(frame) => Some(shares[frame.flow as usize].0),
                    _ => None,
                };
                prop_assert_eq!(sent, first);
            }
        }
    }

    /// Lower classes get all that the higher leave: each class together with those above it is
    /// through when it would be without any below, but for the one packet under way on arrival.
    #[test]
    fn nobody_waits_for_more_than_the_classes_above(
        priorities in prop::collection::vec(0..8u8, FLOWS as usize),
        arrivals in support::arrivals(FLOWS, 300, 600),
    ) {
        let mut scheduler = with_priorities(&priorities);
        let departures = support::run(&mut scheduler, &arrivals, support::FOREVER);
        for class in 0..8 {
            let in_class = |flow: u32| priorities[flow as usize] <= class;
            let of_class: Vec<_> =
                arrivals.iter().copied().filter(|arrival| in_class(arrival.frame.flow)).collect();
            let ends = departures.iter().filter(|departure| in_class(departure.frame.flow));
            let last_ns = ends.map(|departure| departure.end_ns).max().unwrap_or(0);
            prop_assert!(last_ns <= end_of_last(&of_class) + u64::from(support::LONGEST));
        }
    }

    /// Flows of one priority take turns: while both wait, their numbers of packets differ by one.
    #[test]
    fn equals_take_turns(arrivals in support::arrivals(FLOWS, 300, 300)) {
        let mut scheduler = with_priorities(&[3; FLOWS as usize]);
        let mut departures = support::run(&mut scheduler, &arrivals, support::FOREVER);
        for departure in &mut departures {
            departure.frame.bytes = 1;
        }
        for i in 0..FLOWS {
            for j in 0..i {
                let difference = support::unfairness(&departures, (i, j), |_| 1.0);
                prop_assert!(difference <= 1.0, "{i} {j}: {difference}");
            }
        }
    }
}

#[test]
fn a_new_priority_moves_what_is_waiting() {
    let mut scheduler = with_priorities(&[0, 1, 2, 3, 4]);
    for flow in 0..FLOWS {
        scheduler.enqueue(Frame { flow, bytes: 100, id: 0 }, 0).unwrap();
    }
    scheduler.set(4, FlowSettings::default(), 0).unwrap();
    scheduler.set(0, FlowSettings { priority: 7, ..FlowSettings::default() }, 0).unwrap();
    let order: Vec<_> = std::iter::from_fn(|| match scheduler.dequeue(0) {
        Next::Packet(frame) => Some(frame.flow),
        _ => None,
    })
    .collect();
    assert_eq!(order, [4, 1, 2, 3, 0]);
}
