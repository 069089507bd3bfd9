//! Simulated frames per second of this machine, on one core.
//!
//! `plain`: two sources of 600 kpps of 64-byte frames, one queue of 1,000, one link: what ns-2 and ns-3
//! are set beside. `rathore`: scenario I of Rathore et al. (2013) at its last load, VR1 1,088 and VR2
//! 400 kpps, as containers and as VMs. Frames are those offered.

use std::{hint::black_box, time::Duration};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use isolane_sim::{Model, parse, run};

const DURATION_NS: u64 = 200_000_000;

fn plain(rate_bps: u64, scheduler: &str) -> Model {
    let source = |name: &str| {
        format!(
            r#"{{"name": "{name}", "router": "r", "frame_bytes": 64,
                 "pattern": {{"kind": "cbr", "rate_pps": 600000}}}}"#
        )
    };
    let json = format!(
        r#"{{"duration_ns": {DURATION_NS},
             "ports": [{{"name": "link", "rate_bps": {rate_bps}, "capacity": 1000{scheduler}}}],
             "routers": [{{"name": "r", "path": ["link"]}}],
             "traffic": [{}, {}]}}"#,
        source("a"),
        source("b")
    );
    parse(&json).expect("a model")
}

/// `vm`: the routers are processes of their own; else all is done in the softirq.
fn rathore(vm: bool) -> Model {
    let mut parts = [const { Vec::new() }; 5];
    for (router, rate_pps) in [("vr1", 1_088_000), ("vr2", 400_000)] {
        let context = if vm { router } else { "softirq" };
        if vm {
            parts[0].push(format!(
                r#"{{"name": "{router}", "kind": "process", "cores": ["cpu"], "wake_ns": 2000}}"#
            ));
        }
        parts[1].push(format!(
            r#"{{"name": "ring-{router}", "capacity": 256, "moderation_ns": 50000, "irq_ns": 500}}"#
        ));
        parts[2].push(format!(
            r#"{{"name": "forward-{router}", "context": "{context}", "ring": "ring-{router}",
                 "frame_ns": 780, "poll_ns": 300}}"#
        ));
        parts[3].push(format!(
            r#"{{"name": "{router}", "path": ["ring-{router}", "forward-{router}", "out"]}}"#
        ));
        parts[4].push(format!(
            r#"{{"name": "{router}", "router": "{router}", "frame_bytes": 64,
                 "pattern": {{"kind": "cbr", "rate_pps": {rate_pps}}}}}"#
        ));
    }
    if !vm {
        parts[0].push(r#"{"name": "softirq", "kind": "softirq", "cores": ["cpu"]}"#.to_owned());
    }
    let [contexts, rings, stages, routers, traffic] = parts.map(|part| part.join(", "));
    let json = format!(
        r#"{{"duration_ns": {DURATION_NS}, "cores": [{{"name": "cpu", "switch_ns": 1000}}],
             "contexts": [{contexts}], "stages": [{stages}], "routers": [{routers}],
             "nics": [{{"name": "in", "rate_bps": 1000000000, "rings": [{rings}]}}],
             "ports": [{{"name": "out", "rate_bps": 1000000000, "capacity": 256}}],
             "traffic": [{traffic}]}}"#
    );
    parse(&json).expect("a model")
}

fn frames(criterion: &mut Criterion) {
    let drr = r#", "scheduler": {"kind": "drr", "quantum_bytes": 1518, "flows": "traffic"}"#;
    let mut group = criterion.benchmark_group("frames");
    group.measurement_time(Duration::from_secs(4)).sample_size(20);
    for (name, model) in [
        ("plain/drop-tail/1G", plain(1_000_000_000, "")),
        ("plain/drop-tail/500M", plain(500_000_000, "")),
        ("plain/drr/1G", plain(1_000_000_000, drr)),
        ("plain/drr/500M", plain(500_000_000, drr)),
        ("rathore/scenario1/container", rathore(false)),
        ("rathore/scenario1/vm", rathore(true)),
    ] {
        let results = run(&model, &mut || false).expect("a possible model");
        let offered = results.flows.iter().map(|flow| flow.offered.frames).sum();
        group.throughput(Throughput::Elements(offered));
        group.bench_function(name, |bencher| {
            bencher.iter(|| run(black_box(&model), &mut || false).expect("a possible model"));
        });
    }
    group.finish();
}

criterion_group!(benches, frames);
criterion_main!(benches);
