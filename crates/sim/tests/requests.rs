//! Requests in turns: each is answered once it has had all of them; what is lost comes again.

use crate::support::{SECOND_NS, complaint, direct, same_bytes, simulate};
use isolane_sim::{Results, results::Flow};
use serde_json::{Value, json};

/// What a turn costs, ns, and how long it is outside before it comes in.
const WORK_NS: u64 = 10_000;
const OUTSIDE_NS: u64 = 30_000;

/// One router in a softirq; its requests have so many turns.
fn router(begin: &Value, turns: usize) -> Value {
    let mut model = direct(&[1], 10_000.0, None);
    let turn = json!({"router": "vr1", "frame_bytes": 84, "outside_ns": OUTSIDE_NS});
    model["traffic"] = json!([{"name": "web", "router": "vr1", "frame_bytes": 84,
        "stop_ns": SECOND_NS,
        "pattern": {"kind": "requests", "begin": begin, "turns": vec![turn; turns]}}]);
    model
}

fn closed(requests: u32) -> Value {
    json!({"when": "closed", "requests": requests})
}

fn flow<'a>(results: &'a Results, name: &str) -> &'a Flow {
    results.flows.iter().find(|flow| flow.name == name).expect("there is one")
}

fn worked(results: &Results, stage: &str) -> u64 {
    results.stages.iter().find(|found| found.name == stage).expect("there is one").frames
}

#[test]
fn a_request_is_answered_after_all_of_its_turns() {
    let mut model = router(&closed(1), 3);
    model["warm_up_ns"] = 0.into();
    let results = simulate(&model);
    let web = flow(&results, "web");
    assert!(web.received.frames > 5_000, "{}", web.received.frames);
    assert_eq!(web.left, 0, "no more begin, and the last ones have had the time");
    assert_eq!(worked(&results, "vr1.forward"), 3 * web.received.frames);
    let at_least_ns = 3 * (WORK_NS + OUTSIDE_NS);
    let p50_ns = web.delay.p50_ns.expect("all were answered");
    // The moderation of interrupts is 50 us, each turn's wait for it less than that.
    assert!((at_least_ns..at_least_ns + 3 * 50_000).contains(&p50_ns), "{p50_ns}");
    same_bytes(&model);
}

#[test]
fn a_closed_loop_keeps_the_router_at_work() {
    let results = simulate(&router(&closed(64), 5));
    let web = flow(&results, "web");
    let maximum = SECOND_NS / (5 * WORK_NS);
    let answered = web.window.received.frames * 10 / 9; // of a window of 0.9 s before the stop
    assert!(answered > maximum * 8 / 10 && answered <= maximum, "{answered} of {maximum}");
}

#[test]
fn who_is_outside_serves_one_after_the_other() {
    let mut model = router(&closed(64), 2);
    for turn in model["traffic"][0]["pattern"]["turns"].as_array_mut().unwrap() {
        turn["busy_ns"] = 25_000.into();
    }
    let results = simulate(&model);
    let web = flow(&results, "web");
    let maximum = SECOND_NS / (2 * 25_000);
    let answered = web.window.received.frames * 10 / 9;
    assert!(
        answered > maximum * 95 / 100 && answered <= maximum * 101 / 100,
        "{answered} of {maximum}"
    );
}

#[test]
fn an_open_loop_asks_at_its_rate_whatever_comes_back() {
    for when in ["cbr", "poisson"] {
        let begin = json!({"when": when, "rate_pps": 2_000.0});
        let results = simulate(&router(&begin, 4));
        let web = flow(&results, "web");
        assert!(web.offered.frames.abs_diff(2_000) < 150, "{when}: {}", web.offered.frames);
        assert_eq!(web.received.frames, web.offered.frames, "{when}");
    }
    // More than it can do: they wait, and those that it does not come to are left.
    let results = simulate(&router(&json!({"when": "cbr", "rate_pps": 50_000.0}), 4));
    let web = flow(&results, "web");
    assert!(web.offered.frames.abs_diff(50_000) < 100);
    assert!(web.received.frames < 30_000 && web.left > 10_000, "{web:?}");
}

#[test]
fn what_is_lost_comes_again() {
    let mut model = router(&closed(300), 2);
    model["nics"][0]["rings"][0]["capacity"] = 16.into();
    model["warm_up_ns"] = 0.into();
    let results = simulate(&model);
    let web = flow(&results, "web");
    assert!(web.again > 0, "300 at a time do not fit into 16 slots");
    assert_eq!(web.drops["vr1.ring"], web.again);
    let max_ns = web.delay.max_ns.expect("some were answered");
    assert!(max_ns > 200_000_000, "it came again after 200 ms: {max_ns}");
    same_bytes(&model);
}

#[test]
fn a_router_may_do_more_in_some_turns_and_after_the_answer() {
    let mut model = router(&closed(4), 1);
    model["stages"].as_array_mut().unwrap().push(json!(
        {"name": "server", "context": "proxy", "frame_ns": 20_000,
         "queue": {"capacity": 128, "notify_ns": 500}}));
    model["contexts"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "proxy", "kind": "process", "cores": ["cpu"], "wake_ns": 1000}));
    model["routers"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "vr1/server", "path": ["vr1.ring", "vr1.forward", "server", "out"]}));
    let turn = |router: &str| json!({"router": router, "frame_bytes": 84, "outside_ns": 1000});
    model["traffic"][0]["pattern"]["turns"] =
        json!([turn("vr1"), turn("vr1/server"), turn("vr1/server")]);
    model["traffic"].as_array_mut().unwrap().push(json!(
        {"name": "closing", "router": "vr1/server", "frame_bytes": 84,
         "pattern": {"kind": "requests", "begin": {"when": "after", "traffic": "web"},
                     "turns": [turn("vr1"), turn("vr1")]}}));
    model["warm_up_ns"] = 0.into();
    let results = simulate(&model);
    let (web, closing) = (flow(&results, "web"), flow(&results, "closing"));
    assert!(web.received.frames > 1_000);
    assert_eq!(closing.offered, web.received);
    assert_eq!((web.left, closing.left), (0, 0));
    assert_eq!(worked(&results, "server"), 2 * web.received.frames);
    assert_eq!(worked(&results, "vr1.forward"), 5 * web.received.frames);
    let routers: Vec<&str> = results.routers.iter().map(|router| router.name.as_str()).collect();
    assert_eq!(routers, ["vr1", "vr1/server"], "what follows an answer is the other's");
}

#[test]
fn what_is_wrong_with_requests_is_said() {
    let mut model = router(&closed(0), 1);
    assert!(
        complaint(&model).contains("requests: 0 is not possible; accepted: 1 to 65536"),
        "{}",
        complaint(&model)
    );
    model = router(&closed(1), 0);
    assert!(
        complaint(&model).contains("turns: 0 is not possible; accepted: 1 to 32767"),
        "{}",
        complaint(&model)
    );
    model = router(&closed(1), 1);
    model["traffic"][0]["frame_bytes"] = 64.into();
    assert!(complaint(&model).contains("what the first of the turns has"), "{}", complaint(&model));
    model = router(&json!({"when": "after", "traffic": "nothing"}), 1);
    assert!(complaint(&model).contains("nothing"), "{}", complaint(&model));
    model["traffic"].as_array_mut().unwrap().push(crate::support::cbr("vr1", 10));
    model["traffic"][0]["pattern"]["begin"]["traffic"] = "vr1".into();
    assert!(complaint(&model).contains("has no requests"), "{}", complaint(&model));
}
