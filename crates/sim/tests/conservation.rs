//! Whatever the model: frames are conserved, time adds up, and the same model gives the same bytes.

use crate::support::{SECOND_NS, attempt, check, old_softirq, same_bytes};
use proptest::prelude::*;
use serde_json::{Value, json};

fn pattern() -> impl Strategy<Value = Value> {
    (0..3u8, 1_000..2_000_000u32, 1..100u32).prop_map(|(kind, rate_pps, burst_frames)| match kind {
        0 => json!({"kind": "cbr", "rate_pps": rate_pps}),
        1 => json!({"kind": "poisson", "rate_pps": rate_pps}),
        _ => json!({"kind": "bursts", "rate_pps": rate_pps, "burst_frames": burst_frames}),
    })
}

fn scheduler() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(null)),
        Just(json!({"kind": "drr"})),
        Just(json!({"kind": "wfq", "flows": "traffic"})),
        Just(json!({"kind": "wrr", "transmission_bps": 1_000_000_000})),
        Just(json!({"kind": "credit", "random": true, "period_ns": 1_000_000,
                    "settings": [{"flow": "vr0", "rate_max_bps": 50_000_000}]})),
        Just(json!({"kind": "strict-priority"})),
        Just(json!({"kind": "hierarchical",
                    "settings": [{"flow": "vr0", "rate_max_bps": 50_000_000, "rate_min_bps": 1_000_000}]})),
    ]
}

/// A router's path: 0 all in the softirq; 1 a process behind a queue; 2 a process with a ring; 3 a thread,
/// a process and the thread again; 4 a process behind a queue with conditions.
type Router = (u8, Value, f64, u32);

fn admission(router: &str, capacity: u32) -> Value {
    json!([{"router": router, "capacity": capacity.div_ceil(2), "burst": capacity,
            "rate_pps": 90_000, "burst_frames": 20, "rate_bps": 200_000_000, "burst_bytes": 9_000,
            "context": router, "cpu_pct": 25.0, "cpu_burst_ns": 90_000}])
}

fn add_router(parts: &mut [Vec<Value>; 5], index: usize, router: &Router) {
    let (path, pattern, frame_ns, capacity) = router;
    let [contexts, rings, stages, routers, traffic] = parts;
    let name = format!("vr{index}");
    let part = |what: &str| format!("{name}.{what}");
    let core = format!("cpu{}", index % 2);
    let softirq = format!("softirq{}", index % 2);
    rings.push(json!({"name": part("ring"), "capacity": capacity, "irq_ns": 700,
                      "moderation_ns": 20_000 * (index as u64 % 3)}));
    let ring = part("ring");
    let first = if *path == 2 { name.clone() } else { softirq };
    let mut names = vec![ring.clone(), part("in")];
    let drop_ns = (*path == 4).then_some(77.7);
    stages.push(json!({"name": part("in"), "context": first, "ring": ring, "frame_ns": frame_ns,
                       "poll_ns": 200, "cold_ns": 50, "drop_ns": drop_ns, "capture": true}));
    contexts.push(json!({"name": name, "kind": "process", "cores": [core], "wake_ns": 1500.5,
                         "exit_ns": 300}));
    contexts.push(json!({"name": part("vhost"), "kind": "thread", "cores": [core], "nice": 3}));
    let mut queued = |what: &str, context: &str| {
        stages.push(json!({"name": part(what), "context": context, "frame_ns": frame_ns * 1.3,
                           "byte_ns": 0.1, "batch": 7,
                           "queue": {"capacity": capacity, "notify_ns": 333.3,
                                     "admission": if *path == 4 { admission(&name, *capacity) } else { json!([]) },
                                     "back_pressure": if index.is_multiple_of(2) { "on" } else { "off" }}}));
        names.push(part(what));
    };
    match path {
        1 | 4 => queued("guest", &name),
        3 => {
            queued("vhost-in", &part("vhost"));
            queued("guest", &name);
            queued("vhost-out", &part("vhost"));
        }
        _ => {}
    }
    names.push(format!("out{}", index % 2));
    routers.push(json!({"name": name, "path": names}));
    traffic.push(json!({"name": name, "router": name, "frame_bytes": [64, 300, 1518],
                        "pattern": pattern, "start_ns": 100_000 * index}));
}

fn models() -> impl Strategy<Value = Value> {
    let router = (0..5u8, pattern(), 50.0..3_000.0f64, 1..300u32);
    (prop::collection::vec(router, 1..5), any::<bool>(), scheduler(), any::<u64>()).prop_map(
        |(all, old, scheduler, seed)| {
            let mut parts = [const { Vec::new() }; 5];
            for (index, router) in all.iter().enumerate() {
                add_router(&mut parts, index, router);
            }
            let [mut contexts, rings, stages, routers, traffic] = parts;
            for core in 0..2 {
                contexts.push(json!({"name": format!("softirq{core}"), "kind": "softirq",
                                     "cores": [format!("cpu{core}")]}));
            }
            let port = |name: &str, scheduler: &Value| {
                json!({"name": name, "rate_bps": 300_000_000, "capacity": 40, "scheduler": scheduler})
            };
            json!({
                "seed": seed, "duration_ns": SECOND_NS / 100, "warm_up_ns": SECOND_NS / 971,
                "window_end_ns": SECOND_NS / 130, "bin_ns": 3_000_001,
                "softirq": if old { old_softirq() } else { json!({}) },
                "cores": [{"name": "cpu0", "switch_ns": 1000, "tick_cost_ns": 100},
                          {"name": "cpu1", "switch_ns": 500.7}],
                "loads": [
                    {"name": "disk", "context": "vr0", "start_ns": 10_000,
                     "load": {"kind": "disk", "depth": 3, "cpu_ns": 7000.3, "disk_ns": 90_000,
                              "blocking_permille": 300}},
                    {"name": "timer", "context": "vr0.vhost", "stop_ns": 4_000_000,
                     "load": {"kind": "periodic", "cpu_ns": 2500, "idle_ns": 40_000}}],
                "contexts": contexts, "stages": stages, "routers": routers, "traffic": traffic,
                "nics": [{"name": "in", "rate_bps": 1_000_000_000, "latency_ns": 500, "rings": rings}],
                "ports": [port("out0", &scheduler), port("out1", &Value::Null),
                          {"name": "unused", "rate_bps": 1_000, "capacity": 9, "admission": [
                              {"router": "vr0", "rate_pps": 5, "burst_frames": 1}]}]
            })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn nothing_is_lost_and_everything_adds_up(model in models()) {
        let results = attempt(&model).expect("a possible model");
        check(&results);
        same_bytes(&model);
    }
}
