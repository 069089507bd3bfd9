//! Who runs, and for how long.

use super::*;

const MS: u64 = 1_000_000;

fn settings() -> model::Eevdf {
    model::Eevdf { slice_ns: 3 * MS, ..model::Eevdf::default() }
}

fn eevdf() -> Eevdf {
    Eevdf::new(settings())
}

fn tasks<const N: usize>(eevdf: &mut Eevdf, weights: [u64; N]) -> [EntityId; N] {
    weights.map(|weight| eevdf.add_task(Task { weight, ..Task::of_nice(0) }, None))
}

/// Time of each, ns, when whoever runs is charged in such steps.
fn run(eevdf: &mut Eevdf, step_ns: u64, steps: usize) -> Table<EntityId, u64> {
    let mut ran = Table::filled(0, eevdf.entities.len());
    let mut current = eevdf.choose().unwrap();
    for _ in 0..steps {
        ran[current] += step_ns;
        if eevdf.charge(current, step_ns) {
            current = eevdf.choose().unwrap();
        }
    }
    ran
}

#[test]
fn time_goes_by_weight() {
    let mut eevdf = eevdf();
    let tasks = tasks(&mut eevdf, [1_024, 335, 15]);
    for task in tasks {
        eevdf.wake(task);
    }
    let ran = run(&mut eevdf, 100_000, 1_000_000);
    for (task, weight) in tasks.into_iter().zip([1_024.0, 335.0, 15.0]) {
        let share = ran[task] as f64 / 1e11;
        assert!((share / (weight / 1_374.0) - 1.0).abs() < 0.001, "{weight}: {share}");
    }
}

#[test]
fn nobody_is_ever_further_from_its_share_than_a_slice_and_a_tick() {
    let mut eevdf = eevdf();
    let tasks = tasks(&mut eevdf, [1_024, 2_048, 512]);
    for task in tasks {
        eevdf.wake(task);
    }
    let mut ran = Table::filled(0, 3);
    let mut current = eevdf.choose().unwrap();
    for step in 1_u64..=20_000 {
        ran[current] += 4 * MS;
        if eevdf.charge(current, 4 * MS) {
            current = eevdf.choose().unwrap();
        }
        for (task, weight) in tasks.into_iter().zip([1_024, 2_048, 512]) {
            let share = step * 4 * MS * weight / 3_584;
            assert!(ran[task] <= share + 4 * MS, "{step}");
            assert!(ran[task] + 7 * MS >= share, "{step}");
        }
    }
}

#[test]
fn groups_share_whatever_number_of_tasks_they_have() {
    let mut eevdf = eevdf();
    let groups = [eevdf.add_group(2_048), eevdf.add_group(1_024)];
    let tasks = [0, 1, 1, 1].map(|g| eevdf.add_task(Task::of_nice(0), Some(groups[g])));
    for task in tasks {
        eevdf.wake(task);
    }
    let ran = run(&mut eevdf, MS, 90_000);
    let of_second: u64 = tasks[1..].iter().map(|&task| ran[task]).sum();
    let ratio = ran[tasks[0]] as f64 / of_second as f64;
    assert!((ratio - 2.0).abs() < 0.002, "{ratio}");
    assert!(ran[tasks[1]].abs_diff(ran[tasks[3]]) <= 6 * MS);
}

#[test]
fn who_wakes_waits_until_the_turn_is_over() {
    let mut eevdf = eevdf();
    let [hog, sleeper] = tasks(&mut eevdf, [1_024; 2]);
    eevdf.wake(hog);
    assert_eq!(eevdf.choose(), Some(hog));
    eevdf.charge(hog, MS);
    eevdf.wake(sleeper);
    assert!(!eevdf.preempts(sleeper, hog), "its turn lasts 3 ms");
    assert!(!eevdf.charge(hog, MS));
    assert!(eevdf.charge(hog, MS));
    assert_eq!(eevdf.choose(), Some(sleeper));
}

#[test]
fn a_shorter_slice_goes_first_unless_it_is_a_batch() {
    for (batch, first) in [(false, true), (true, false)] {
        let mut eevdf = eevdf();
        let [hog] = tasks(&mut eevdf, [1_024]);
        let short = Task { slice_ns: Some(MS / 10), batch, ..Task::of_nice(0) };
        let short = eevdf.add_task(short, None);
        eevdf.wake(hog);
        eevdf.choose();
        eevdf.charge(hog, MS);
        eevdf.wake(short);
        assert_eq!(eevdf.preempts(short, hog), first);
        assert_eq!(eevdf.choose(), Some(if first { short } else { hog }));
        // Beside it nobody's turn is longer than that slice.
        if first {
            assert!(eevdf.charge(short, MS / 10));
            assert_eq!(eevdf.choose(), Some(hog));
            assert!(eevdf.charge(hog, MS / 10));
        }
    }
}

#[test]
fn a_sleeper_that_ran_ahead_stays_until_the_others_have_caught_up() {
    let mut eevdf = eevdf();
    let [hog, sleeper] = tasks(&mut eevdf, [1_024; 2]);
    eevdf.wake(sleeper);
    assert_eq!(eevdf.choose(), Some(sleeper));
    eevdf.charge(sleeper, MS);
    eevdf.wake(hog);
    eevdf.charge(sleeper, MS);
    eevdf.sleep(sleeper);
    assert!(eevdf.entities[sleeper].delayed, "it is 0.5 ms ahead of the virtual time");
    assert_eq!((eevdf.choose(), eevdf.queues[top()].queued), (Some(hog), 2));
    eevdf.charge(hog, MS / 2);
    // It is back before that: behind, as far as it was.
    eevdf.requeue(sleeper);
    eevdf.wake(sleeper);
    assert!(!eevdf.entities[sleeper].delayed);
    assert_eq!(eevdf.lag(sleeper), -signed(MS / 4));
    eevdf.sleep(sleeper);
    eevdf.charge(hog, 10 * MS);
    assert_eq!(eevdf.choose(), Some(hog));
    assert!(!eevdf.entities[sleeper].queued, "it has left");
    assert_eq!((eevdf.entities[sleeper].lag, eevdf.queues[top()].queued), (0, 1));
}

#[test]
fn it_is_forgiven_what_was_charged_before_it_came_back_and_not_what_is_charged_then() {
    for (before, after) in [(10 * MS, 0), (0, 10 * MS), (6 * MS, 4 * MS)] {
        let mut eevdf = eevdf();
        let [hog, sleeper] = tasks(&mut eevdf, [1_024; 2]);
        eevdf.wake(sleeper);
        eevdf.choose();
        eevdf.wake(hog);
        eevdf.charge(sleeper, 2 * MS);
        eevdf.sleep(sleeper);
        assert_eq!(eevdf.choose(), Some(hog));
        eevdf.charge(hog, before);
        eevdf.requeue(sleeper);
        eevdf.charge(hog, after);
        eevdf.wake(sleeper);
        let behind = if before > 0 { after } else { after - 2 * MS };
        assert_eq!(eevdf.lag(sleeper), signed(behind) / 2);
        assert!(
            eevdf.preempts(sleeper, hog),
            "who is behind goes first, and the other's turn is over"
        );
    }
}

#[test]
fn who_leaves_with_time_to_its_credit_comes_back_with_it_but_hoards_no_more_than_two_slices() {
    let mut eevdf = eevdf();
    let [hog, sleeper] = tasks(&mut eevdf, [1_024; 2]);
    eevdf.wake(hog);
    eevdf.wake(sleeper);
    assert_eq!(eevdf.choose(), Some(hog));
    eevdf.charge(hog, 2 * MS);
    eevdf.sleep(sleeper);
    assert_eq!(eevdf.entities[sleeper].lag, signed(MS));
    eevdf.charge(hog, 100 * MS);
    eevdf.wake(sleeper);
    assert_eq!(eevdf.lag(sleeper), signed(MS), "as before, in the virtual time with it");
    eevdf.charge(hog, 100 * MS);
    eevdf.sleep(sleeper);
    assert_eq!(eevdf.entities[sleeper].lag, signed(6 * MS));
}

#[test]
fn a_group_leaves_when_its_last_task_does() {
    let mut eevdf = eevdf();
    let group = eevdf.add_group(2);
    let inside = eevdf.add_task(Task::of_nice(0), Some(group));
    let [outside] = tasks(&mut eevdf, [1_024]);
    eevdf.wake(inside);
    assert_eq!(eevdf.choose(), Some(inside));
    eevdf.wake(outside);
    eevdf.charge(inside, MS);
    eevdf.sleep(inside);
    assert!(eevdf.entities[group].delayed);
    assert_eq!((eevdf.choose(), eevdf.queues[top()].queued), (Some(outside), 2));
    // A thousandth of the weight is far ahead after 1 ms: 512 of the other's.
    eevdf.charge(outside, 513 * MS);
    assert_eq!((eevdf.choose(), eevdf.queues[top()].queued), (Some(outside), 1));
    eevdf.sleep(outside);
    assert_eq!((eevdf.choose(), eevdf.queues[top()].queued), (None, 0));
}

#[test]
fn a_new_weight_keeps_the_lag() {
    let mut eevdf = eevdf();
    let [hog, other] = tasks(&mut eevdf, [1_024; 2]);
    eevdf.wake(hog);
    eevdf.wake(other);
    assert_eq!(eevdf.choose(), Some(hog));
    eevdf.charge(hog, 2 * MS);
    eevdf.set_weight(other, 4_096);
    // 1 ms behind at a weight of 1,024 is 0.25 ms at four times that.
    assert_eq!(eevdf.lag(other), signed(MS / 4));
    assert!(eevdf.charge(hog, MS));
    assert_eq!(eevdf.choose(), Some(other));
    let ran = run(&mut eevdf, 100_000, 1_000_000);
    assert!((ran[other] as f64 / ran[hog] as f64 - 4.0).abs() < 0.01);
}

#[test]
fn after_a_beat_who_is_chosen_has_a_turn_also_if_it_was_alone() {
    let mut eevdf = Eevdf::new(model::Eevdf { beat_ns: Some(MS / 10), ..settings() });
    let [hog, other] = tasks(&mut eevdf, [1_024; 2]);
    eevdf.wake(hog);
    eevdf.choose();
    eevdf.charge(hog, MS / 10);
    assert!(eevdf.tick(hog));
    assert_eq!(eevdf.choose(), Some(hog));
    eevdf.wake(other);
    assert!(!eevdf.preempts(other, hog));
}

#[test]
fn a_batch_that_is_back_early_leaves_the_core_to_whom_it_is() {
    let mut eevdf = eevdf();
    let [hog] = tasks(&mut eevdf, [1_024]);
    let batch = eevdf.add_task(Task { batch: true, ..Task::of_nice(0) }, None);
    eevdf.wake(batch);
    eevdf.choose();
    eevdf.wake(hog);
    eevdf.charge(batch, MS);
    eevdf.sleep(batch);
    assert!(eevdf.entities[batch].delayed);
    assert_eq!(eevdf.choose(), Some(hog));
    assert!(eevdf.requeue(batch), "nobody is charged");
    eevdf.wake(batch);
    assert!(!eevdf.entities[batch].delayed);
    assert!(!eevdf.requeue(batch), "it is back");
}

#[test]
fn a_group_has_the_slice_of_those_that_it_still_holds() {
    let mut eevdf = eevdf();
    let group = eevdf.add_group(1_024);
    let [outside] = tasks(&mut eevdf, [1_024]);
    let long = eevdf.add_task(Task::of_nice(0), Some(group));
    let short = Task { slice_ns: Some(MS / 10), ..Task::of_nice(0) };
    let short = eevdf.add_task(short, Some(group));
    eevdf.wake(short);
    eevdf.choose();
    eevdf.wake(long);
    eevdf.wake(outside);
    assert_eq!(eevdf.entities[group].slice_ns, signed(MS / 10));
    eevdf.charge(short, MS);
    eevdf.sleep(short);
    assert!(eevdf.entities[short].delayed);
    assert_eq!(eevdf.entities[group].slice_ns, signed(MS / 10));
    for _ in 0..4 {
        let next = eevdf.choose().unwrap();
        eevdf.charge(next, 4 * MS);
    }
    assert!(!eevdf.entities[short].queued);
    assert_eq!(eevdf.entities[group].slice_ns, signed(3 * MS));
}

#[test]
fn a_pacemaker_ends_turns() {
    for paced in [false, true] {
        let beat_ns = paced.then_some(MS / 10);
        let mut eevdf = Eevdf::new(model::Eevdf { beat_ns, ..settings() });
        let [hog, other] = tasks(&mut eevdf, [1_024; 2]);
        eevdf.wake(hog);
        eevdf.choose();
        eevdf.wake(other);
        assert!(!eevdf.charge(hog, MS / 10), "its turn lasts 3 ms");
        assert_eq!(eevdf.tick(hog), paced);
        if paced {
            assert_eq!(eevdf.choose(), Some(other));
        }
    }
}
