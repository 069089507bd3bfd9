//! Senders, back-pressure, disk requests, changing settings: what Xen's back-end is made of.

use crate::support::{self, SECOND_NS, kpps, same_bytes, simulate, xen};
use isolane_sim::Results;
use serde_json::{Value, json};

fn netback(back_pressure: &str, scheduler: &Value) -> Value {
    json!({"capacity": 256, "notify_ns": 1000, "back_pressure": back_pressure,
           "scheduler": scheduler})
}

fn sender() -> Value {
    json!({"kind": "sender", "window_frames": 40})
}

/// 100 Mbit/s, 1,538 bytes a frame on the wire.
const LINK_KPPS: f64 = 8.127;

fn lost(results: &Results) -> u64 {
    results.flows.iter().map(|flow| flow.drops.values().sum::<u64>()).sum()
}

#[test]
fn a_sender_blocks_on_its_window_and_loses_nothing() {
    let model = xen(&netback("on", &json!({"kind": "round-robin"})), &sender(), ["p1", "p2"]);
    let results = simulate(&model);
    assert_eq!(lost(&results), 0);
    let total = kpps(&results, 0) + kpps(&results, 1);
    assert!((total - LINK_KPPS).abs() < 0.01, "the link is full: {total}");
    assert!((kpps(&results, 0) - kpps(&results, 1)).abs() < 0.05);
    for point in &results.drop_points {
        assert!(point.max <= 80, "two windows are all there can be: {point:?}");
    }
    same_bytes(&model);
}

#[test]
fn without_a_look_at_the_output_frames_are_lost_there() {
    let sender = json!({"kind": "sender", "window_frames": 40, "release": "taken"});
    let off = xen(&netback("off", &json!({"kind": "round-robin"})), &sender, ["p1", "p2"]);
    let results = simulate(&off);
    assert!(results.flows[0].drops["eth0"] > 1_000);
    let on = xen(&netback("on", &json!({"kind": "round-robin"})), &sender, ["p1", "p2"]);
    assert_eq!(lost(&simulate(&on)), 0);
}

#[test]
fn a_sender_blocks_on_a_full_queue_of_its_own() {
    let sender = json!({"kind": "sender", "window_frames": 10_000});
    let model = xen(&netback("on", &json!({"kind": "drr"})), &sender, ["p1", "p2"]);
    let results = simulate(&model);
    assert_eq!(lost(&results), 0, "it waits instead");
    let queue = results.drop_points.iter().find(|point| point.kind == "queue").unwrap();
    assert_eq!(queue.max, 512, "256 for each flow");
}

#[test]
fn rates_of_the_credit_scheduler_hold() {
    let settings = json!([{"flow": "vm1", "rate_max_bps": 20_000_000},
                          {"flow": "vm2", "rate_max_bps": 30_000_000}]);
    let scheduler = json!({"kind": "credit", "random": true, "settings": settings});
    // Windows that fit the port together: else credit is spent on frames that are lost there.
    let sender = json!({"kind": "sender", "window_frames": 20});
    let results = simulate(&xen(&netback("off", &scheduler), &sender, ["p1", "p1"]));
    for (flow, max_kpps) in [(0, 20e3 / 1_518.0 / 8.0), (1, 30e3 / 1_518.0 / 8.0)] {
        let got = kpps(&results, flow);
        assert!(got <= max_kpps * 1.001 && got > 0.95 * max_kpps, "{got} of {max_kpps}");
    }
}

#[test]
fn more_connections_take_more() {
    let scheduler = || netback("off", &json!({"kind": "fifo"}));
    // Together they fit the port: who has more frames on the way gets more.
    let sender = json!({"kind": "sender", "window_frames": 15});
    let mut model = xen(&scheduler(), &sender, ["p1", "p2"]);
    let ratio = |model: &Value| {
        let results = simulate(model);
        kpps(&results, 1) / kpps(&results, 0)
    };
    assert!((ratio(&model) - 1.0).abs() < 0.05);
    model["traffic"][1]["pattern"]["connections"] = json!(2);
    let two = ratio(&model);
    assert!(two > 1.5, "{two}");
}

#[test]
fn priorities_that_change_shift_the_link() {
    let weight = |flow: &str, weight: u32| json!({"flow": flow, "weight": weight, "mean_packet_bytes": 1518});
    let scheduler = json!({"kind": "wrr", "settings": [weight("vm1", 30), weight("vm2", 1)]});
    let sender = json!({"kind": "sender", "window_frames": 200});
    let mut model = xen(&netback("on", &scheduler), &sender, ["p1", "p2"]);
    model["changes"] = json!([
        {"set": "flow", "at_ns": 5 * SECOND_NS, "at": "netback", "settings": weight("vm1", 1)},
        {"set": "flow", "at_ns": 5 * SECOND_NS, "at": "netback", "settings": weight("vm2", 30)}]);
    let results = simulate(&model);
    let bin = |flow: usize, second: usize| results.flows[flow].bins[second].received as f64;
    assert!((bin(0, 3) / bin(1, 3) / 30.0 - 1.0).abs() < 0.2, "{}", bin(0, 3) / bin(1, 3));
    assert!((bin(1, 8) / bin(0, 8) / 30.0 - 1.0).abs() < 0.2, "{}", bin(1, 8) / bin(0, 8));
}

#[test]
fn disk_requests_that_block_dom0_hold_up_its_network() {
    let mut model = xen(&netback("off", &json!({"kind": "round-robin"})), &sender(), ["p1", "p2"]);
    let disk = |blocking_permille: u32| {
        json!([{"name": "disk", "context": "dom0", "start_ns": 2 * SECOND_NS,
                "stop_ns": 6 * SECOND_NS,
                "load": {"kind": "disk", "depth": 4, "cpu_ns": 50_000, "disk_ns": 5_000_000,
                         "blocking_permille": blocking_permille}}])
    };
    let sum = |results: &Results, second: usize| -> u64 {
        results.flows.iter().map(|flow| flow.bins[second].received).sum()
    };
    model["loads"] = disk(0);
    let busy = simulate(&model);
    assert!(sum(&busy, 4).abs_diff(sum(&busy, 8)) < 20, "CPU to spare");
    assert!(support::context(&busy, "dom0").accounts["disk"] > 100_000_000);
    model["loads"] = disk(600);
    let blocked = simulate(&model);
    assert!(
        sum(&blocked, 4) < sum(&blocked, 8) * 9 / 10,
        "{} {}",
        sum(&blocked, 4),
        sum(&blocked, 8)
    );
}

#[test]
fn a_pace_is_kept_and_caught_up_with() {
    let paced = |catch_up_ns: u64| {
        let sender = json!({"kind": "sender", "window_frames": 40, "rate_pps": 1000,
                            "catch_up_ns": catch_up_ns});
        let mut model = xen(&netback("on", &json!({"kind": "drr"})), &sender, ["p1", "p2"]);
        // dom0 does nothing for a second.
        model["loads"] = json!([{"name": "stop", "context": "dom0", "start_ns": 3 * SECOND_NS,
            "stop_ns": 4 * SECOND_NS,
            "load": {"kind": "disk", "cpu_ns": 1000, "disk_ns": 300_000_000,
                     "blocking_permille": 1000}}]);
        simulate(&model).flows[0].offered.frames
    };
    assert!(paced(10 * SECOND_NS).abs_diff(10_000) <= 1);
    assert!(paced(0) < 9_990);
}

#[test]
fn a_frame_that_goes_on_to_another_host_leaves_its_sender_once() {
    let ring = json!([{"name": "in", "capacity": 4, "irq_ns": 500}]);
    let model = json!({
        "duration_ns": SECOND_NS,
        "cores": [{"name": "cpu0"}, {"name": "cpu1"}],
        "contexts": [{"name": "vm", "kind": "process", "cores": ["cpu0"]},
                     {"name": "softirq", "kind": "softirq", "cores": ["cpu1"]}],
        "nics": [{"name": "nic", "rate_bps": 1_000_000_000, "rings": ring}],
        "stages": [{"name": "send", "context": "vm", "frame_ns": 1_000},
                   {"name": "forward", "context": "softirq", "ring": "in", "frame_ns": 20_000}],
        "ports": [{"name": "wire", "rate_bps": 1_000_000_000, "capacity": 16},
                  {"name": "out", "rate_bps": 1_000_000_000, "capacity": 16}],
        "routers": [{"name": "vr1", "path": ["send", "wire", "in", "forward", "out"]}],
        "traffic": [{"name": "vr1", "router": "vr1", "frame_bytes": 1518,
                     "pattern": {"kind": "sender", "window_frames": 8}}]
    });
    let results = simulate(&model);
    // It sends at the rate of the wire, 81,274 frames/s; what the other host cannot take is lost there.
    assert!((kpps(&results, 0) - 50.0).abs() < 1.0, "{}", kpps(&results, 0));
    assert!(results.flows[0].offered.frames > 81_000, "{}", results.flows[0].offered.frames);
    assert!(results.flows[0].drops["in"] > 30_000);
}

#[test]
fn senders_may_share_a_port_with_sources_of_its_own() {
    let traffic = |name: &str, pattern: Value| json!({"name": name, "router": name, "frame_bytes": 1518, "pattern": pattern});
    let model = json!({
        "duration_ns": SECOND_NS / 10,
        "cores": [{"name": "cpu"}],
        "contexts": [{"name": "vm", "kind": "process", "cores": ["cpu"], "wake_ns": 900},
                     {"name": "other", "kind": "process", "cores": ["cpu"]}],
        "loads": [{"name": "computing", "context": "other", "load": {"kind": "cpu"}}],
        "stages": [{"name": "send", "context": "vm", "frame_ns": 1_000}],
        // First in, first out: departures are worked out late, when somebody looks.
        "ports": [{"name": "out", "rate_bps": 1_000_000_000, "capacity": 16}],
        "routers": [{"name": "vm", "path": ["send", "out"]}, {"name": "straight", "path": ["out"]}],
        "traffic": [traffic("vm", json!({"kind": "sender", "window_frames": 8})),
                    traffic("straight", json!({"kind": "poisson", "rate_pps": 30_000}))]
    });
    let results = simulate(&model);
    assert!(results.flows.iter().all(|flow| flow.received.frames > 500), "{:?}", results.flows);
}
