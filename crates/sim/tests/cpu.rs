//! CPU schedulers with real work under them.

use crate::support::{SECOND_NS, context, direct, kpps, same_bytes, simulate};
use serde_json::{Value, json};

#[test]
fn vms_share_the_core_by_their_shares() {
    for (shares, expected) in [([1024, 1024], 1.0), ([2048, 1024], 2.0), ([1024, 3072], 1.0 / 3.0)]
    {
        let results = simulate(&direct(&[740_000, 740_000], 1_500.0, Some(&shares)));
        let ratio = context(&results, "vr1").cpu_ns as f64 / context(&results, "vr2").cpu_ns as f64;
        // Shares count while both want the core; rings of 256 frames let each run dry now and then.
        assert!((ratio / expected - 1.0).abs() < 0.35, "{shares:?}: {ratio}");
        assert!(results.cores[0].busy_ns > 990_000_000);
    }
}

#[test]
fn an_unused_share_is_there_for_others() {
    let results = simulate(&direct(&[1_080_000, 100_000], 1_500.0, Some(&[1024, 1024])));
    assert!((kpps(&results, 1) - 100.0).abs() < 0.5, "less than its share: nothing lost");
    assert!(kpps(&results, 0) > 480.0, "{}", kpps(&results, 0));
}

#[test]
fn shares_may_change() {
    let hogs = |name: &str| json!({"name": name, "context": name, "load": {"kind": "cpu"}});
    let mut model = direct(&[10, 10], 1_500.0, Some(&[1024, 1024]));
    model["loads"] = json!([hogs("vr1"), hogs("vr2")]);
    let even = simulate(&model);
    assert!(context(&even, "vr1").cpu_ns.abs_diff(500_000_000) < 26_000_000);
    model["changes"] =
        json!([{"set": "shares", "at_ns": SECOND_NS / 10, "group": "vr1", "shares": 4096}]);
    let changed = simulate(&model);
    assert!(context(&changed, "vr1").cpu_ns.abs_diff(800_000_000) < 26_000_000);
}

/// The longest delay, ns, and the frames lost of a router that needs a tenth of the core beside a process that takes
/// all that it gets, under this scheduler.
fn beside_a_hog(scheduler: &Value, of_router: &Value) -> (u64, u64) {
    let results = simulate(&hog_model(scheduler, of_router));
    let flow = &results.flows[0];
    (flow.delay.max_ns.expect("frames came"), flow.window.drops.values().sum())
}

fn hog_model(scheduler: &Value, of_router: &Value) -> Value {
    // The second router has next to nothing to do, but its timer wakes it.
    let mut model = direct(&[100_000, 1], 1_000.0, Some(&[1024, 1024]));
    model["cores"][0]["scheduler"] = scheduler.clone();
    for router in 0..2 {
        model["nics"][0]["rings"][router]["timer"] = json!(true);
        model["stages"][router]["poll_ns"] = json!(500);
        for (key, value) in of_router.as_object().expect("keys of a context") {
            model["contexts"][router][key] = value.clone();
        }
    }
    let hog = json!({"name": "hog", "kind": "process", "cores": ["cpu"]});
    model["contexts"].as_array_mut().expect("contexts").push(hog);
    model["loads"] = json!([{"name": "hog", "context": "hog", "load": {"kind": "cpu"}}]);
    model
}

#[test]
fn under_cfs_who_has_slept_goes_first_and_under_eevdf_it_waits_for_a_tick() {
    let (longest_ns, lost) = beside_a_hog(&json!({"kind": "cfs"}), &json!({}));
    assert!(longest_ns < 200_000 && lost == 0, "{longest_ns}, {lost}");
    let eevdf = |tick_ns: u64| json!({"kind": "eevdf", "slice_ns": 700_000, "tick_ns": tick_ns});
    let (longest_ns, lost) = beside_a_hog(&eevdf(4_000_000), &json!({}));
    // A ring of 256 frames is full after 2.56 ms of 100 kpps.
    assert!(longest_ns > 2_560_000 && lost > 0, "{longest_ns}, {lost}");
    let (longest_ns, lost) = beside_a_hog(&eevdf(1_000_000), &json!({}));
    assert!(longest_ns < 1_600_000 && lost == 0, "{longest_ns}, {lost}");
}

#[test]
fn with_a_short_slice_it_goes_first_under_eevdf_too_unless_it_is_a_batch() {
    let scheduler = json!({"kind": "eevdf"});
    let short = json!({"slice_ns": 100_000});
    let batch = json!({"slice_ns": 100_000, "batch": true});
    // Woken while it is ahead of its share it waits for the tick in both cases.
    let [(_, of_short), (_, of_batch)] =
        [&short, &batch].map(|keys| beside_a_hog(&scheduler, keys));
    assert!(10 * of_short < of_batch, "{of_short}, {of_batch}");
    let paced = json!({"kind": "eevdf", "beat_ns": 150_000});
    let (longest_ns, lost) = beside_a_hog(&paced, &batch);
    assert!(longest_ns < 400_000 && lost == 0, "{longest_ns}, {lost}");
}

#[test]
fn under_eevdf_processes_share_the_core_by_their_shares() {
    for (shares, expected) in [([1024, 1024], 0.5), ([2048, 1024], 2.0 / 3.0), ([100, 900], 0.1)] {
        let mut model = direct(&[10, 10], 1_500.0, Some(&shares));
        model["cores"][0]["scheduler"] = json!({"kind": "eevdf"});
        let hog = |name: &str| json!({"name": name, "context": name, "load": {"kind": "cpu"}});
        model["loads"] = json!([hog("vr1"), hog("vr2")]);
        let share = context(&simulate(&model), "vr1").cpu_ns as f64 / SECOND_NS as f64;
        assert!((share - expected).abs() < 0.01, "{shares:?}: {share}");
        same_bytes(&model);
    }
}

fn vcpus(scheduler: &Value, vcpus: &[(u32, u32, Value)], cores: usize) -> Vec<f64> {
    let names: Vec<String> = (0..vcpus.len()).map(|number| format!("v{number}")).collect();
    let contexts: Vec<Value> = names
        .iter()
        .zip(vcpus)
        .map(|(name, (weight, cap_pct, cores))| {
            json!({"name": name, "kind": "vcpu", "cores": cores, "weight": weight, "cap_pct": cap_pct})
        })
        .collect();
    let loads: Vec<Value> = names
        .iter()
        .map(|name| json!({"name": name, "context": name, "load": {"kind": "cpu"}}))
        .collect();
    let cores: Vec<Value> = (0..cores)
        .map(|number| json!({"name": format!("p{number}"), "scheduler": scheduler}))
        .collect();
    let results = simulate(&json!({
        "duration_ns": 21 * SECOND_NS, "warm_up_ns": SECOND_NS,
        "cores": cores, "contexts": contexts, "loads": loads,
        "ports": [{"name": "out", "rate_bps": 1000, "capacity": 1}],
        "routers": [{"name": "r", "path": ["out"]}],
        "traffic": [{"name": "t", "router": "r", "frame_bytes": 64,
                     "pattern": {"kind": "cbr", "rate_pps": 1}}]
    }));
    names.iter().map(|name| context(&results, name).cpu_ns as f64 / 20e9).collect()
}

#[test]
fn the_credit_scheduler_shares_by_weight() {
    for exact in [false, true] {
        let scheduler = json!({"kind": "credit", "exact_accounting": exact});
        let used = vcpus(&scheduler, &[(512, 0, json!(["p0"])), (256, 0, json!(["p0"]))], 1);
        assert!((used[0] / used[1] - 2.0).abs() < 0.1, "{used:?}");
        assert!(used[0] + used[1] > 0.999);
    }
}

#[test]
fn the_credit_scheduler_keeps_caps_on_an_idle_core() {
    let scheduler = json!({"kind": "credit", "exact_accounting": true});
    let used = vcpus(&scheduler, &[(256, 25, json!(["p0"]))], 1);
    assert!((used[0] - 0.25).abs() < 0.02, "{used:?}");
}

#[test]
fn the_credit_scheduler_balances_cores() {
    let scheduler = json!({"kind": "credit", "exact_accounting": true});
    let anywhere = || (256, 0, json!(["p0", "p1"]));
    let used = vcpus(&scheduler, &[anywhere(), anywhere(), anywhere()], 2);
    assert!(used.iter().all(|used| (used - 2.0 / 3.0).abs() < 0.03), "{used:?}");
}

#[test]
fn exits_and_ticks_are_paid_by_whom_they_hit() {
    let mut model = direct(&[1_000_000, 10_000], 900.0, Some(&[1024, 1024]));
    let before = simulate(&model);
    assert_eq!(context(&before, "vr1").accounts.get("exit"), None);
    model["contexts"][0]["exit_ns"] = json!(2_000);
    model["contexts"][0]["wake_mode"] = json!("hypervisor");
    model["cores"][0]["tick_cost_ns"] = json!(1_000);
    let after = simulate(&model);
    let exits = context(&after, "vr1").accounts["exit"];
    assert!(exits > 5_000_000, "{exits}");
    assert_eq!(after.cores[0].modes["hypervisor"], exits.unsigned_abs());
    // Ticks take 1 us, all others 0.5 us; there are 250 ticks at most, as an idle core has none.
    let core = &after.cores[0];
    let ticks = (core.irq_ns - core.interrupts * 500) / 500;
    assert!((150..=250).contains(&ticks), "{ticks}");
}
