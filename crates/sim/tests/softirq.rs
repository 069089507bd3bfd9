//! NAPI's rules, and what follows from who may interrupt whom.

use crate::support::{self, attempt, complaint, context, direct, kpps, macvtap, simulate};
use serde_json::{Value, json};

#[test]
fn a_timer_polls_a_ring_whether_frames_come_or_not() {
    let mut model = direct(&[1_000], 1_000.0, Some(&[1024]));
    let wakes = |model: &Value| {
        let results = simulate(model);
        assert_eq!(results.flows[0].window.received.frames, 1_000);
        (results.cores[0].interrupts, results.flows[0].delay.max_ns.expect("frames came"))
    };
    let (interrupts, longest_ns) = wakes(&model);
    assert!((1_000..1_300).contains(&interrupts), "one for each frame, and ticks: {interrupts}");
    assert!(longest_ns < 5_000, "{longest_ns}");
    model["nics"][0]["rings"][0]["timer"] = json!(true);
    let (interrupts, longest_ns) = wakes(&model);
    // 50 us after each poll that has emptied the ring.
    assert!((19_000..20_300).contains(&interrupts), "{interrupts}");
    assert!((40_000..60_000).contains(&longest_ns), "{longest_ns}");
    model["nics"][0]["rings"][0]["moderation_ns"] = json!(0);
    let told = complaint(&model);
    assert!(
        told.contains("moderation_ns") && told.contains("1000 ns or more with a timer"),
        "{told}"
    );
}

#[test]
fn an_overloaded_ring_is_polled_64_frames_at_a_time() {
    let results = simulate(&direct(&[1_480_000], 800.0, None));
    let stage = &results.stages[0];
    // One second at 800 ns a frame.
    assert!(stage.frames.abs_diff(1_250_000) <= 1, "{}", stage.frames);
    assert!(stage.polls.abs_diff(stage.frames / 64) <= 1, "never fewer, never more");
    // It stays in polling mode: interrupts are timer ticks.
    assert_eq!(results.cores[0].interrupts, 250);
}

#[test]
fn rings_take_turns() {
    // Both overloaded, by very different loads: the same number of frames each.
    let results = simulate(&direct(&[800_000, 680_000], 1_600.0, None));
    let [a, b] = [0, 1].map(|stage| results.stages[stage].frames);
    assert!(a.abs_diff(b) <= 64, "{a} {b}");
    // One overloaded: the other keeps all of its frames.
    let results = simulate(&direct(&[1_080_000, 400_000], 800.0, None));
    assert!(results.flows[1].drops.is_empty());
    // 1,250 kpps less VR2's 400 and the interrupts that it needs.
    assert!((kpps(&results, 0) - 842.0).abs() < 5.0, "{}", kpps(&results, 0));
}

#[test]
fn moderation_bounds_interrupts_and_its_cost_is_paid() {
    let mut model = direct(&[1_000], 800.0, None);
    let results = simulate(&model);
    // A frame each ms: an interrupt each, besides the ticks; at once, as the ring was quiet.
    let interrupts = results.cores[0].interrupts;
    assert!((1_000..=1_251).contains(&interrupts), "{interrupts}");
    assert_eq!(results.flows[0].delay.max_ns, Some(672 + 500 + 800 + 672));
    model["traffic"][0]["pattern"]["rate_pps"] = json!(400_000);
    let results = simulate(&model);
    // 50 us and a poll of 21 frames or so between interrupts.
    assert!((19_000..=20_250).contains(&results.cores[0].interrupts));
}

#[test]
fn a_wire_carries_its_line_rate_and_no_more() {
    let results = simulate(&direct(&[2_000_000], 400.0, None));
    let (begin, end) = results.window_ns;
    let offered = results.flows[0].window.offered.frames;
    assert!(offered.abs_diff((end - begin) / 672) <= 1, "{offered}");
    assert_eq!(results.flows[0].window.received.frames, offered - results.flows[0].left);
}

/// The heart of it: nothing in the model says livelock. With macvtap, frames that the process will never
/// see take the core from it; with a ring of its own, what it cannot serve costs nothing.
#[test]
fn livelock_emerges_behind_macvtap_and_not_behind_a_ring_of_its_own() {
    let at = |load_pps| kpps(&simulate(&macvtap(load_pps)), 0);
    assert!((at(250_000) - 250.0).abs() < 1.0);
    let (peak, overload) = (at(300_000), at(1_480_000));
    assert!(overload < 0.4 * peak, "collapses: {overload} of {peak}");
    let results = simulate(&macvtap(1_480_000));
    let softirq = context(&results, "softirq").cpu_ns as f64 / 1e9;
    assert!((softirq - 1.48 * 0.46).abs() < 0.01, "the softirq serves all there is: {softirq}");
    let direct = |load_pps| kpps(&simulate(&direct(&[load_pps], 3_260.0, Some(&[1024]))), 0);
    let (peak, overload) = (direct(300_000), direct(1_480_000));
    assert!(overload > 0.98 * peak, "{overload} of {peak}");
}

#[test]
fn a_softirq_that_never_ends_leaves_the_process_what_its_rules_leave() {
    // 800 ns a frame at line rate: the softirq alone needs more than the core.
    let overloaded = |rules: serde_json::Value| {
        let mut model = macvtap(1_480_000);
        model["stages"][1]["frame_ns"] = json!(500);
        model["softirq"] = rules;
        simulate(&model)
    };
    // As of Linux 4.9: ksoftirqd shares the core with the process, fairly.
    let modern = overloaded(json!({}));
    let share = context(&modern, "vm").cpu_ns as f64 / 1e9;
    assert!((share - 0.5).abs() < 0.06, "{share}");
    assert!(modern.cores[0].ksoftirqd_ns > 400_000_000);
    // As of Linux 3.2 each tick lets the softirq run ahead of all threads once more.
    let old = overloaded(support::old_softirq());
    let old_share = context(&old, "vm").cpu_ns as f64 / 1e9;
    assert!(old_share < 0.7 * share, "{old_share} {share}");
    // As of today each interrupt does: between two of them the process hardly begins.
    let current = overloaded(json!({"defer_to_ksoftirqd": false}));
    let left = context(&current, "vm").cpu_ns as f64 / 1e9;
    assert!(left < 0.2 * share, "{left} {share}");
}

#[test]
fn budget_and_time_end_a_round() {
    // A thread that always wants the core gets it after one round: 300 frames make 5 polls (of 320).
    let mut model = direct(&[1_480_000], 800.0, None);
    model["softirq"] = json!({"restarts": 1});
    model["contexts"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "hog", "kind": "process", "cores": ["cpu"], "nice": 0}));
    model["loads"] = json!([{"name": "hog", "context": "hog", "load": {"kind": "cpu"}}]);
    let results = simulate(&model);
    let share = context(&results, "hog").cpu_ns as f64 / 1e9;
    assert!((share - 0.5).abs() < 0.03, "ksoftirqd and it are equals: {share}");
    model["softirq"] = json!({"restarts": 1, "budget": 0});
    assert!(attempt(&model).is_err());
}

#[test]
fn cold_caches_cost_when_routers_alternate() {
    let mut model = direct(&[740_000, 740_000], 700.0, None);
    let warm = simulate(&model);
    for stage in model["stages"].as_array_mut().unwrap() {
        stage["cold_ns"] = json!(4_000);
    }
    let cold = simulate(&model);
    let total = |results| kpps(results, 0) + kpps(results, 1);
    // 64 frames at 700 ns, and 4 us per change of the router.
    let expected = total(&warm) * 64.0 * 700.0 / (64.0 * 700.0 + 4_000.0);
    assert!((total(&cold) / expected - 1.0).abs() < 0.01, "{} {expected}", total(&cold));
}
