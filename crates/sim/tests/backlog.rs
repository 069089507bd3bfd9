//! Rings that get slots back a number at a time, and backlogs that several stages share.

use crate::support::{SECOND_NS, attempt, cbr, complaint, kpps, same_bytes, simulate};
use isolane_sim::Results;
use serde_json::{Value, json};

/// One ring for both routers, in the softirq.
fn shared_ring(loads_pps: [u32; 2], refill: u32) -> Value {
    json!({
        "duration_ns": SECOND_NS + SECOND_NS / 10, "warm_up_ns": SECOND_NS / 10,
        "cores": [{"name": "cpu"}],
        "contexts": [{"name": "softirq", "kind": "softirq", "cores": ["cpu"]}],
        "nics": [{"name": "in", "rate_bps": 10_000_000_000_u64,
                  "rings": [{"name": "ring", "capacity": 256, "refill": refill, "irq_ns": 500}]}],
        "ports": [{"name": "out", "rate_bps": 10_000_000_000_u64, "capacity": 256}],
        "stages": [{"name": "forward", "context": "softirq", "ring": "ring", "frame_ns": 1500}],
        "routers": [{"name": "vr1", "path": ["ring", "forward", "out"]},
                    {"name": "vr2", "path": ["ring", "forward", "out"]}],
        "traffic": [cbr("vr1", loads_pps[0]), cbr("vr2", loads_pps[1])]
    })
}

/// The way of a container behind a bridge: the NIC's poll, and the core's backlog twice.
fn bridge(load_pps: u32, shared: Option<&str>) -> Value {
    let queue = |shared: Option<&str>| json!({"capacity": 1000, "shared": shared});
    let mut model = shared_ring([load_pps, 1], 16);
    model["stages"] = json!([
        {"name": "map", "context": "softirq", "ring": "ring", "frame_ns": 1000},
        {"name": "forward", "context": "softirq", "frame_ns": 1000, "queue": queue(shared)},
        {"name": "back", "context": "softirq", "frame_ns": 500, "queue": queue(shared)}]);
    let path =
        |name: &str| json!({"name": name, "path": ["ring", "map", "forward", "back", "out"]});
    model["routers"] = json!([path("vr1"), path("vr2")]);
    model
}

#[test]
fn slots_that_come_back_a_number_at_a_time_are_shared_as_the_load_is() {
    let kept = |refill| {
        let results = simulate(&shared_ring([225_000, 832_000], refill));
        [kpps(&results, 0) / 225.0, kpps(&results, 1) / 832.0]
    };
    let [slow, fast] = kept(16);
    assert!((slow / fast - 1.0).abs() < 0.1, "{slow} {fast}");
    // One at a time, whoever comes more often finds the free slot first.
    let [slow, fast] = kept(1);
    assert!(slow / fast < 0.75, "{slow} {fast}");
    assert!(complaint(&shared_ring([1, 1], 0)).contains("refill"));
    assert!(complaint(&shared_ring([1, 1], 257)).contains("1 to the capacity"));
}

/// With `a` a frame's chance to get in, a poll of the NIC and one of the backlog are 64 frames each:
/// 64 a + 64 a^2 = 64. So a is 0.618, and 0.382 of what the NIC took comes through.
#[test]
fn an_overloaded_backlog_that_is_passed_twice_keeps_the_golden_ratio() {
    let results = simulate(&bridge(900_000, Some("cpu")));
    let drops = |drop_point: &str| results.flows[0].window.drops[drop_point] as f64;
    let received = results.flows[0].window.received.frames as f64;
    let (first, second) = (drops("forward.queue"), drops("back.queue"));
    let came = received + first + second;
    assert!((received / came - 0.382).abs() < 0.01, "{}", received / came);
    // Not exactly: what is taken over comes in waves.
    assert!((second / first - 0.618).abs() < 0.05, "{}", second / first);
    // Up to 2,000 frames wait, so a frame waits twice for more than 2 ms.
    assert!(results.flows[0].delay.arrived_p50_ns.expect("frames came") > 4_000_000);
    same_bytes(&bridge(900_000, Some("cpu")));
}

/// At 2.5 us a frame, 300 kpps fit. Once the backlog overflows, most work is for frames that are lost.
#[test]
fn overload_of_a_shared_backlog_costs_most_of_the_throughput() {
    let fits = simulate(&bridge(300_000, Some("cpu")));
    assert!((kpps(&fits, 0) - 300.0).abs() < 1.0, "{}", kpps(&fits, 0));
    let overload = kpps(&simulate(&bridge(900_000, Some("cpu"))), 0);
    assert!(overload < 250.0, "{overload}");
    let separate = kpps(&simulate(&bridge(900_000, None)), 0);
    assert!(separate > 350.0, "with queues of their own each stage gets its turn: {separate}");
}

/// The one rule for who gets in, also where a stage looks before it works: what it does then not work
/// on is lost at the same point.
#[test]
fn a_stage_that_looks_finds_the_room_of_the_backlog() {
    let mut model = bridge(900_000, Some("cpu"));
    model["stages"][0]["drop_ns"] = json!(1000);
    let (looked, blind) = (simulate(&model), simulate(&bridge(900_000, Some("cpu"))));
    let lost = |results: &Results| results.flows[0].window.drops["forward.queue"];
    // A drop costs as much as the work: all else is the same.
    assert_eq!(lost(&looked), lost(&blind));
    let max =
        |name: &str| looked.drop_points.iter().find(|point| point.name == name).map(|p| p.max);
    assert!(max("forward.queue") <= Some(2000));
}

#[test]
fn what_cannot_be_shared_is_refused() {
    let mut model = bridge(1_000, Some("cpu"));
    model["stages"][2]["queue"]["capacity"] = json!(999);
    assert!(complaint(&model).contains("others of cpu have 1000"));
    let mut model = bridge(1_000, Some("cpu"));
    model["stages"][2]["queue"]["scheduler"] = json!({"kind": "drr"});
    assert!(complaint(&model).contains("cpu is shared"));
    let mut model = bridge(1_000, Some("cpu"));
    model["stages"][2]["queue"]["back_pressure"] = json!("on");
    assert!(complaint(&model).contains("cpu is shared"));
    let mut model = bridge(1_000, Some("cpu"));
    model["contexts"] = json!([{"name": "softirq", "kind": "softirq", "cores": ["cpu"]},
                               {"name": "thread", "kind": "thread", "cores": ["cpu"]}]);
    model["stages"][2]["context"] = json!("thread");
    assert!(complaint(&model).contains("shared in another context"));
    assert!(attempt(&bridge(1_000, None)).is_ok());
}
