//! Models for the tests, and what is asked of every result.

use isolane_sim::{
    Error, Results, parse,
    results::{ContextTime, Flow},
    run, to_json,
};
use serde_json::{Value, json};

pub const SECOND_NS: u64 = 1_000_000_000;

/// Simulates, and checks what must hold of every result.
pub fn simulate(model: &Value) -> Results {
    let results = attempt(model).expect("a possible model");
    check(&results);
    results
}

pub fn attempt(model: &Value) -> Result<Results, Error> {
    run(&parse(&model.to_string())?, &mut || false)
}

pub fn complaint(model: &Value) -> String {
    attempt(model).expect_err("something is wrong with it").to_string()
}

/// Frames are conserved, by flow, by router and by place; cores' and contexts' time adds up.
pub fn check(results: &Results) {
    for flow in results.flows.iter().chain(&results.routers) {
        let lost: u64 = flow.drops.values().sum();
        let came = flow.offered.frames + flow.again;
        assert_eq!(came, flow.received.frames + lost + flow.left, "{}", flow.name);
        let lost: u64 = flow.window.drops.values().sum();
        assert!(flow.window.offered.frames >= flow.window.received.frames + lost);
        assert_eq!(flow.delay.count, flow.window.received.frames);
        let binned: u64 = flow.bins.iter().map(|bin| bin.received).sum();
        assert!(flow.bins.is_empty() || binned == flow.received.frames);
    }
    let dropped = |flow: &Flow, point: &str| flow.drops.get(point).copied().unwrap_or(0);
    for point in &results.drop_points {
        let by_flow: u64 = results.flows.iter().map(|flow| dropped(flow, &point.name)).sum();
        assert_eq!(by_flow, point.dropped, "{}", point.name);
        assert!(point.entered >= point.dropped + point.left);
    }
    for core in &results.cores {
        assert!(core.busy_ns <= core.window_ns, "{}", core.name);
        let contexts: u64 = results.contexts.iter().filter_map(|c| c.cores.get(&core.name)).sum();
        assert_eq!(core.busy_ns, core.irq_ns + contexts, "{}", core.name);
        let modes: u64 = core.modes.values().sum();
        assert!(modes.abs_diff(core.busy_ns) <= 2_000, "{}: {modes} {}", core.name, core.busy_ns);
    }
    for context in &results.contexts {
        let accounts: i64 = context.accounts.values().sum();
        let cpu_ns = i64::try_from(context.cpu_ns).expect("far less than 2^63");
        // Each account is rounded down to a whole ns.
        assert!((accounts - cpu_ns).abs() <= 1_000, "{context:?}");
    }
}

pub fn same_bytes(model: &Value) {
    let [a, b] = [(); 2].map(|()| to_json(&attempt(model).expect("a possible model")));
    assert!(a == b, "two runs differ");
}

pub fn kpps(results: &Results, flow: usize) -> f64 {
    let window_ns = results.window_ns.1 - results.window_ns.0;
    results.flows[flow].window.received.frames as f64 * 1e6 / window_ns as f64
}

pub fn context<'a>(results: &'a Results, name: &str) -> &'a ContextTime {
    results.contexts.iter().find(|context| context.name == name).expect("there is one")
}

pub fn cbr(name: &str, rate_pps: u32) -> Value {
    json!({"name": name, "router": name, "frame_bytes": 64,
           "pattern": {"kind": "cbr", "rate_pps": rate_pps}})
}

/// Linux 3.2: pending softirqs go on at each interrupt.
pub fn old_softirq() -> Value {
    json!({"restart_time_ns": null, "stop_for_threads": false, "defer_to_ksoftirqd": false})
}

/// Routers on one core, each with a ring of its own; `frame_ns` in all. In the softirq, or in a
/// process each with these shares.
pub fn direct(loads_pps: &[u32], frame_ns: f64, shares: Option<&[u32]>) -> Value {
    let routers = || (1..=loads_pps.len()).map(|number| format!("vr{number}"));
    let in_process = |name: &str| if shares.is_some() { name.to_owned() } else { "softirq".into() };
    let mut contexts: Vec<Value> = routers()
        .filter(|_| shares.is_some())
        .map(|name| json!({"name": name, "kind": "process", "cores": ["cpu"], "group": name}))
        .collect();
    if shares.is_none() {
        contexts.push(json!({"name": "softirq", "kind": "softirq", "cores": ["cpu"]}));
    }
    let groups: Vec<Value> = routers()
        .zip(shares.unwrap_or_default())
        .map(|(name, shares)| json!({"name": name, "shares": shares}))
        .collect();
    let rings: Vec<Value> = routers()
        .map(|name| {
            json!({"name": format!("{name}.ring"), "capacity": 256, "moderation_ns": 50_000,
                   "irq_ns": 500})
        })
        .collect();
    let stages: Vec<Value> = routers()
        .map(|name| {
            json!({"name": format!("{name}.forward"), "context": in_process(&name),
                   "ring": format!("{name}.ring"), "frame_ns": frame_ns})
        })
        .collect();
    let paths: Vec<Value> = routers()
        .map(|name| {
            json!({"name": name, "path": [format!("{name}.ring"), format!("{name}.forward"), "out"]})
        })
        .collect();
    let traffic: Vec<Value> =
        routers().zip(loads_pps).map(|(name, &pps)| cbr(&name, pps)).collect();
    json!({
        "duration_ns": SECOND_NS + SECOND_NS / 10, "warm_up_ns": SECOND_NS / 10,
        "softirq": old_softirq(),
        "cores": [{"name": "cpu", "switch_ns": 1000}],
        "groups": groups, "contexts": contexts, "stages": stages, "routers": paths,
        "nics": [{"name": "in", "rate_bps": 1_000_000_000, "rings": rings}],
        "ports": [{"name": "out", "rate_bps": 1_000_000_000, "capacity": 256}],
        "traffic": traffic
    })
}

/// One VM behind macvtap: the softirq puts frames into a queue from which its process takes them.
pub fn macvtap(load_pps: u32) -> Value {
    json!({
        "duration_ns": SECOND_NS + SECOND_NS / 10, "warm_up_ns": SECOND_NS / 10,
        "softirq": old_softirq(),
        "cores": [{"name": "cpu", "switch_ns": 1000}],
        "contexts": [{"name": "softirq", "kind": "softirq", "cores": ["cpu"]},
                     {"name": "vm", "kind": "process", "cores": ["cpu"], "wake_ns": 2000}],
        "nics": [{"name": "in", "rate_bps": 1_000_000_000,
                  "rings": [{"name": "ring", "capacity": 256, "moderation_ns": 50_000, "irq_ns": 500}]}],
        "stages": [
            {"name": "napi", "context": "softirq", "ring": "ring", "frame_ns": 300, "account": "driver"},
            {"name": "macvtap", "context": "softirq", "frame_ns": 160},
            {"name": "guest", "context": "vm", "frame_ns": 2800,
             "queue": {"capacity": 500, "notify_ns": 500}}],
        "ports": [{"name": "out", "rate_bps": 1_000_000_000, "capacity": 256}],
        "routers": [{"name": "vr1", "path": ["ring", "napi", "macvtap", "guest", "out"]}],
        "traffic": [cbr("vr1", load_pps)]
    })
}

/// Two Xen guests that send through dom0's back-end; `netback` is the queue before it.
pub fn xen(netback: &Value, sender: &Value, guests_on: [&str; 2]) -> Value {
    let guest = |name: &str, core: &str| json!({"name": name, "kind": "vcpu", "cores": [core], "wake_ns": 3000});
    let core = |name: &str| json!({"name": name, "mode": "hypervisor", "switch_ns": 2000, "scheduler": {"kind": "credit"}});
    let traffic =
        |name: &str| json!({"name": name, "router": name, "frame_bytes": 1518, "pattern": sender});
    json!({
        "duration_ns": 10 * SECOND_NS, "warm_up_ns": SECOND_NS, "bin_ns": SECOND_NS,
        "cores": [core("p0"), core("p1"), core("p2")],
        "contexts": [{"name": "dom0", "kind": "vcpu", "cores": ["p0"]},
                     guest("vm1", guests_on[0]), guest("vm2", guests_on[1])],
        "ports": [{"name": "eth0", "rate_bps": 100_000_000, "capacity": 64}],
        "stages": [{"name": "send1", "context": "vm1", "frame_ns": 8000},
                   {"name": "send2", "context": "vm2", "frame_ns": 8000},
                   {"name": "netback", "context": "dom0", "frame_ns": 4000, "queue": netback}],
        "routers": [{"name": "vm1", "path": ["send1", "netback", "eth0"]},
                    {"name": "vm2", "path": ["send2", "netback", "eth0"]}],
        "traffic": [traffic("vm1"), traffic("vm2")]
    })
}
