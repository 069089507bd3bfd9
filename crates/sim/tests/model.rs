//! Wrong models, and what they are told; determinism; being stopped.

use crate::support::{SECOND_NS, check, complaint, direct, macvtap, same_bytes, simulate};
use isolane_sim::{parse, run};
use serde_json::{Value, json};

fn with(change: impl FnOnce(&mut Value)) -> String {
    let mut model = macvtap(100_000);
    change(&mut model);
    complaint(&model)
}

/// What follows a wrong value in the model of a VM behind macvtap: where, what, the message.
fn assert_refused(cases: Vec<(&str, Value, &str)>) {
    for (pointer, value, expected) in cases {
        let refused = with(|model| {
            *model.pointer_mut(pointer).expect("it is there") = value;
        });
        assert_eq!(refused, expected);
    }
}

#[test]
fn wrong_costs_and_sizes_are_refused_with_the_place() {
    assert_refused(vec![
        (
            "/stages/2/frame_ns",
            json!(-1),
            "stage guest: frame_ns: -1 is not possible; accepted: 0 to 10^12 ns",
        ),
        ("/stages/2/frame_ns", json!(null), "stage guest: frame_ns is missing"),
        ("/nics/0/rings/0/irq_ns", json!(null), "ring ring: irq_ns is missing"),
        (
            "/duration_ns",
            json!(0),
            "model: duration_ns: 0 is not possible; accepted: 1 ns to a day",
        ),
        (
            "/ports/0/capacity",
            json!(1u32 << 31),
            "model: capacity: 2147484404 is not possible; accepted: at most 2^24 frames in all queues \
             together",
        ),
        (
            "/traffic/0/pattern",
            json!({"kind": "sender", "window_frames": 1}),
            "traffic vr1: a sender needs a path that begins with the stage that it runs in",
        ),
    ]);
    let bins = with(|model| model["bin_ns"] = json!(1));
    assert!(bins.starts_with("model: bin_ns: 1 is not possible"), "{bins}");
}

#[test]
fn wrong_names_and_paths_are_refused_with_the_place() {
    assert_refused(vec![
        (
            "/routers/0/path/2",
            json!("macvlan"),
            "router vr1: path: there is no ring, stage or port `macvlan`; there are: ring, napi, \
             macvtap, guest, out",
        ),
        (
            "/routers/0/path",
            json!(["ring", "napi", "macvtap", "guest", "macvtap", "out"]),
            "router vr1: the path has a cycle: macvtap > guest > macvtap",
        ),
        (
            "/routers/0/path",
            json!(["ring", "napi"]),
            "router vr1: the path does not end with a port",
        ),
        (
            "/routers/0/path",
            json!(["ring", "guest", "out"]),
            "router vr1: stage guest does not serve the ring before it",
        ),
        (
            "/stages/1/context",
            json!("vm"),
            "router vr1: stage macvtap has no queue, so it runs in the context of napi, which is \
             softirq, not vm",
        ),
        (
            "/contexts/1/cores",
            json!(["cpu7"]),
            "context vm: cores: there is no core `cpu7`; there are: cpu",
        ),
        (
            "/contexts/1/kind",
            json!("vcpu"),
            "context vm: a vcpu needs cores under the credit scheduler",
        ),
        ("/ports/0/name", json!("ring"), "ring, stage or port `ring` is there twice"),
    ]);
    let unknown = with(|model| model["stages"][0]["frame_sn"] = json!(1));
    assert!(unknown.contains("unknown field `frame_sn`"), "{unknown}");
    assert!(complaint(&json!([])).starts_with("model: "));
}

#[test]
fn wrong_packet_schedulers_are_refused_with_the_place() {
    let with_scheduler =
        |scheduler: Value| with(|model| model["ports"][0]["scheduler"] = scheduler);
    assert_eq!(
        with_scheduler(json!({"kind": "fifo", "quantum_bytes": 3})),
        "port out: quantum_bytes: this kind of scheduler does not use it"
    );
    assert_eq!(
        with_scheduler(json!({"kind": "drr", "settings": [{"flow": "vr1", "weight": 0}]})),
        "port out: flow vr1: weight: 0 is not possible; accepted: 1 to 1048576"
    );
}

#[test]
fn same_seed_same_bytes_and_another_seed_others() {
    let mut model = macvtap(400_000);
    model["traffic"][0]["pattern"] = json!({"kind": "poisson", "rate_pps": 400_000});
    model["traffic"][0]["frame_bytes"] = json!([64, 64, 576, 1518]);
    same_bytes(&model);
    let first = simulate(&model);
    model["seed"] = json!(1);
    assert_ne!(first, simulate(&model));
}

#[test]
fn patterns_keep_their_rates() {
    for pattern in [
        json!({"kind": "cbr", "rate_pps": 100_000}),
        json!({"kind": "poisson", "rate_pps": 100_000}),
        json!({"kind": "bursts", "rate_pps": 100_000, "burst_frames": 32}),
        json!({"kind": "on-off", "rate_pps": 100_000, "on_ns": 1_000_000, "period_ns": 4_000_000}),
        json!({"kind": "on-off", "rate_pps": 100_000, "on_ns": 3_333, "period_ns": 1_000_003}),
        json!({"kind": "ramp", "rate_pps": 100_000, "mid_ns": 600_000_000}),
    ] {
        let mut model = direct(&[1], 500.0, None);
        model["traffic"][0]["pattern"] = pattern.clone();
        let offered = simulate(&model).flows[0].window.offered.frames;
        assert!(offered.abs_diff(100_000) < 3_000, "{pattern}: {offered}");
    }
}

#[test]
fn a_stopped_simulation_gives_what_it_has() {
    let mut model = direct(&[740_000, 740_000], 900.0, None);
    model["duration_ns"] = json!(100_000 * SECOND_NS / 2);
    let mut asked = 0;
    let mut stop = || {
        asked += 1;
        asked > 20
    };
    let results = run(&parse(&model.to_string()).unwrap(), &mut stop).unwrap();
    assert!(results.interrupted && results.ended_ns > SECOND_NS / 10);
    check(&results);
}

#[test]
fn the_window_is_a_part_of_the_run() {
    let mut model = direct(&[1_000_000], 800.0, None);
    model["duration_ns"] = json!(2 * SECOND_NS);
    model["window_end_ns"] = json!(SECOND_NS);
    model["traffic"][0]["stop_ns"] = json!(SECOND_NS);
    let results = simulate(&model);
    assert_eq!(results.window_ns, (SECOND_NS / 10, SECOND_NS));
    let flow = &results.flows[0];
    assert_eq!(flow.left, 0, "drained");
    assert_eq!(flow.window.offered.frames, flow.window.received.frames);
    assert!(flow.window.offered.frames.abs_diff(900_000) <= 1);
    assert!(results.cores[0].busy_ns.abs_diff(728_000_000) < 5_000_000, "{:?}", results.cores[0]);
}

/// A request through one host to another and back, stamped on the way.
#[test]
fn an_echo_passes_two_hosts_and_is_stamped_on_the_way() {
    let mut model = direct(&[1_000], 1_000.0, None);
    model["cores"] = json!([{"name": "cpu"}, {"name": "other"}]);
    let contexts = model["contexts"].as_array_mut().unwrap();
    contexts.push(json!({"name": "responder", "kind": "softirq", "cores": ["other"]}));
    model["nics"].as_array_mut().unwrap().push(json!(
        {"name": "far", "rate_bps": 1_000_000_000,
         "rings": [{"name": "far.ring", "capacity": 64, "irq_ns": 500}]}));
    model["ports"].as_array_mut().unwrap().push(json!(
        {"name": "back", "rate_bps": 1_000_000_000, "capacity": 64, "latency_ns": 100}));
    let stages = model["stages"].as_array_mut().unwrap();
    stages[0]["capture"] = json!(true);
    stages.push(json!({"name": "echo", "context": "responder", "ring": "far.ring",
                       "frame_ns": 2_000, "capture": true}));
    model["routers"][0]["path"] =
        json!(["vr1.ring", "vr1.forward", "out", "far.ring", "echo", "back"]);
    let results = simulate(&model);
    let flow = &results.flows[0];
    let there = 672 + 500 + 1_000;
    assert_eq!(flow.captures["vr1.forward"].max_ns, Some(there));
    let echoed = there + 672 + 500 + 2_000;
    assert_eq!(flow.captures["echo"].max_ns, Some(echoed));
    assert_eq!(flow.delay.min_ns, Some(echoed + 672 + 100));
    assert!(flow.drops.is_empty());
}

#[test]
fn a_change_of_a_queue_that_no_path_passes_changes_nothing() {
    let mut model = macvtap(100_000);
    let settings = json!({"flow": "vr1", "weight": 2});
    let queue = json!({"capacity": 9, "scheduler": {"kind": "drr"}});
    let unused = json!({"name": "unused", "context": "vm", "frame_ns": 1, "queue": queue});
    model["stages"].as_array_mut().expect("a list").push(unused);
    let before = simulate(&model);
    model["changes"] =
        json!([{"set": "flow", "at_ns": SECOND_NS / 2, "at": "unused", "settings": settings}]);
    assert_eq!(simulate(&model).flows, before.flows);
}
