//! Queues with conditions, stages that look before they work, and what schedulers count.

use crate::support::{SECOND_NS, complaint, context, kpps, simulate};
use serde_json::{Value, json};

/// A demultiplexer in a thread that goes first, and a router's thread behind a queue of 256 frames.
fn demultiplexed(load_pps: u32, admission: &Value) -> Value {
    json!({
        "duration_ns": SECOND_NS + SECOND_NS / 5, "warm_up_ns": SECOND_NS / 5,
        "cores": [{"name": "cpu"}],
        "contexts": [{"name": "nic", "kind": "thread", "cores": ["cpu"], "nice": -20},
                     {"name": "vr1", "kind": "thread", "cores": ["cpu"]}],
        "nics": [{"name": "eth0", "rate_bps": 10_000_000_000u64, "rings": [
            {"name": "ring", "capacity": 256, "moderation_ns": 50_000, "irq_ns": 0}]}],
        "stages": [
            {"name": "demux", "context": "nic", "ring": "ring", "frame_ns": 200, "drop_ns": 100},
            {"name": "forward", "context": "vr1", "frame_ns": 1_000,
             "queue": {"capacity": 256, "admission": admission}}],
        "ports": [{"name": "out", "rate_bps": 10_000_000_000u64, "capacity": 100}],
        "routers": [{"name": "vr1", "path": ["ring", "demux", "forward", "out"]}],
        "traffic": [{"name": "vr1", "router": "vr1", "frame_bytes": 64,
                     "pattern": {"kind": "cbr", "rate_pps": load_pps}}]
    })
}

fn dropped(results: &isolane_sim::Results) -> f64 {
    results.flows[0].window.drops.get("forward.queue").copied().unwrap_or(0) as f64
}

#[test]
fn what_finds_no_room_costs_less_and_is_lost_before_any_work() {
    let results = simulate(&demultiplexed(2_000_000, &json!([])));
    // The core is full: 200 + 1000 ns a frame that is served, 100 ns one that is not.
    let served = kpps(&results, 0) * 1e3;
    let core_ns = served * 1_200.0 + (2e6 - served) * 100.0;
    assert!((core_ns / 1e9 - 1.0).abs() < 0.002, "{core_ns}");
    let nic_ns = context(&results, "nic").cpu_ns as f64;
    assert!((nic_ns - served * 200.0 - dropped(&results) * 100.0).abs() < 1e6, "{nic_ns}");
    assert_eq!(results.drop_points[1].max, 256);
    assert!(results.flows[0].window.drops.keys().eq(["forward.queue"]));
}

#[test]
fn a_queue_that_overflows_has_less_room_than_one_that_does_not() {
    let p50_ns = |pps: u32| {
        let admission = json!([{"router": "vr1", "capacity": 10, "burst": 200}]);
        let results = simulate(&demultiplexed(pps, &admission));
        // At the beginning nothing has overflowed yet.
        assert_eq!(results.drop_points[1].max, 200);
        results.flows[0].delay.arrived_p50_ns.expect("frames arrived")
    };
    // Twice what it serves, and some percent more.
    let (overflowing_ns, slightly_ns) = (p50_ns(2_000_000), p50_ns(870_000));
    assert!(overflowing_ns < 100_000, "{overflowing_ns}");
    assert!(slightly_ns > 200_000, "{slightly_ns}");
}

#[test]
fn rates_are_kept_in_frames_and_in_bits() {
    let frames = json!([{"router": "vr1", "rate_pps": 50_000, "burst_frames": 10}]);
    let results = simulate(&demultiplexed(300_000, &frames));
    assert!((kpps(&results, 0) - 50.0).abs() < 0.05, "{}", kpps(&results, 0));
    // 64 + 20 bytes a frame.
    let bits = json!([{"router": "vr1", "rate_bps": 67_200_000, "burst_bytes": 3_000}]);
    let results = simulate(&demultiplexed(300_000, &bits));
    assert!((kpps(&results, 0) - 100.0).abs() < 0.1, "{}", kpps(&results, 0));
    // What is refused has cost the router nothing.
    assert!(context(&results, "vr1").cpu_ns.abs_diff(100_000_000) < 200_000);
}

#[test]
fn a_budget_caps_the_cpu_time_of_who_serves_the_queue() {
    for cap_pct in [5.0, 33.3, 60.0] {
        let budget = json!([{"router": "vr1", "context": "vr1", "cpu_pct": cap_pct}]);
        let results = simulate(&demultiplexed(1_500_000, &budget));
        let used_pct = context(&results, "vr1").cpu_ns as f64 / 1e7;
        assert!((used_pct - cap_pct).abs() < 0.05, "{cap_pct}: {used_pct}");
    }
    let budget = json!([{"router": "vr1", "context": "vr1", "cpu_pct": 60.0}]);
    let within = simulate(&demultiplexed(500_000, &budget));
    assert!(within.flows[0].drops.is_empty(), "{:?}", within.flows[0].drops);
}

#[test]
fn a_port_refuses_what_is_above_a_routers_rate() {
    let mut model = demultiplexed(300_000, &json!([]));
    model["ports"][0]["admission"] =
        json!([{"router": "vr1", "rate_pps": 50_000, "burst_frames": 10}]);
    let results = simulate(&model);
    assert!((kpps(&results, 0) - 50.0).abs() < 0.05, "{}", kpps(&results, 0));
    assert!(results.flows[0].window.drops.keys().eq(["out"]));
    // All the same, it has been worked on.
    assert!(context(&results, "vr1").cpu_ns.abs_diff(300_000_000) < 200_000);
}

/// Two routers straight into a port of 100 Mbit/s, one with long frames.
fn link(scheduler: &Value) -> [f64; 2] {
    let results = simulate(&json!({
        "duration_ns": 2 * SECOND_NS, "warm_up_ns": SECOND_NS / 5, "window_end_ns": SECOND_NS,
        "ports": [{"name": "out", "rate_bps": 100_000_000, "capacity": 300, "scheduler": scheduler}],
        "routers": [{"name": "short", "path": ["out"]}, {"name": "long", "path": ["out"]}],
        "traffic": [{"name": "short", "router": "short", "frame_bytes": 64,
                     "stop_ns": SECOND_NS, "pattern": {"kind": "cbr", "rate_pps": 300_000}},
                    {"name": "long", "router": "long", "frame_bytes": 1518,
                     "stop_ns": SECOND_NS, "pattern": {"kind": "cbr", "rate_pps": 10_000}}]
    }));
    [0, 1].map(|flow| {
        let received = results.flows[flow].window.received;
        (received.bytes + 20 * received.frames) as f64 * 8.0 / 0.8 / 1e6
    })
}

#[test]
fn a_scheduler_may_count_preambles_and_gaps() {
    let [short, long] = link(&json!({"kind": "drr", "overhead_bytes": 20}));
    assert!((short / long - 1.0).abs() < 0.01, "{short} {long}");
    let [short, long] = link(&json!({"kind": "drr"}));
    let cheated = (64.0 + 20.0) / 64.0 / ((1518.0 + 20.0) / 1518.0);
    assert!((short / long / cheated - 1.0).abs() < 0.01, "{short} {long}");
}

#[test]
fn a_flows_burst_is_its_own() {
    let with = |burst: u32| {
        let settings = json!([{"flow": "long", "rate_max_bps": 10_000_000, "burst_bytes": burst}]);
        link(&json!({"kind": "hierarchical", "overhead_bytes": 20, "burst_bytes": 2_000,
                     "settings": settings}))[1]
    };
    assert!((with(3_000) - 10.0).abs() < 0.2, "{}", with(3_000));
    // 2 Mbyte at once last for more than the window.
    assert!(with(2_000_000) > 15.0, "{}", with(2_000_000));
}

#[test]
fn wrong_conditions_are_refused_with_the_place() {
    let one = |condition: Value| complaint(&demultiplexed(1, &json!([condition])));
    let element = "stage forward: admission of vr1";
    for (condition, expected) in [
        (json!({"router": "vr2"}), "stage forward: router: there is no router `vr2`".to_owned()),
        (json!({"router": "vr1", "capacity": 257}), format!("{element}: capacity: 257 is not")),
        (json!({"router": "vr1", "burst": 300}), format!("{element}: burst: 300 is not possible")),
        (json!({"router": "vr1", "rate_pps": 5}), format!("{element}: burst_frames is missing")),
        (json!({"router": "vr1", "burst_bytes": 5}), format!("{element}: rate_bps is missing")),
        (
            json!({"router": "vr1", "rate_bps": 0, "burst_bytes": 5}),
            format!("{element}: rate_bps: 0"),
        ),
        (json!({"router": "vr1", "cpu_pct": 5.0}), format!("{element}: context is missing")),
        (
            json!({"router": "vr1", "cpu_pct": -1.0, "context": "vr1"}),
            format!("{element}: cpu_pct: -1 is not possible"),
        ),
    ] {
        assert!(one(condition).starts_with(&expected), "{expected}");
    }
    let twice = json!([{"router": "vr1"}, {"router": "vr1"}]);
    assert!(complaint(&demultiplexed(1, &twice)).contains("it is given twice"));
    let mut blind = demultiplexed(1, &json!([{"router": "vr1"}]));
    blind["stages"][0]["drop_ns"] = Value::Null;
    assert!(complaint(&blind).contains("stage demux: the queue behind it has an admission"));
    let mut pointless = demultiplexed(1, &json!([]));
    pointless["stages"][1]["drop_ns"] = json!(5);
    assert!(complaint(&pointless).contains("stage forward: drop_ns needs a queue behind"));
}

#[test]
fn who_polls_with_softirqs_off_keeps_the_core_for_the_whole_poll() {
    let mut model = demultiplexed(2_000_000, &json!([]));
    // 100 frames come between two interrupts, 128 while a poll of 64 lasts.
    model["nics"][0]["rings"][0]["capacity"] = json!(110);
    let lost = |results: &isolane_sim::Results| {
        results.flows[0].window.drops.get("ring").copied().unwrap_or(0)
    };
    assert_eq!(lost(&simulate(&model)), 0, "the first thread takes the core when it wakes");
    model["contexts"][1]["whole_polls"] = json!(true);
    let results = simulate(&model);
    assert!(lost(&results) > 1_000, "{}", lost(&results));
}
