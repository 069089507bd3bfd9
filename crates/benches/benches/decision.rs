//! Cost of a decision with 2, 64, 1,024 and 65,536 flows, all backlogged throughout.
//!
//! `decide` is the decision alone: dequeue, from queues that never run empty meanwhile. `steady` is
//! dequeue and enqueue, as on a link in balance. Packets are between 64 and 1514 bytes and come in
//! random order of flows, so that neither lengths nor places in memory can be guessed. Flows have
//! weights 1 and 2, and minimum rates, where the discipline has such.

use std::{cell::RefCell, hint::black_box, time::Duration};

use criterion::{
    BatchSize, BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main,
    measurement::WallTime,
};
use isolane_sched::{Config, FlowSettings, Kind, Next, Order, Packet, Prng, Scheduler};

const SIZES: [u32; 4] = [2, 64, 1_024, 65_536];
const LONGEST: u32 = 1_514;
/// Packets that wait per flow, at least; and in all, at least.
const PER_FLOW: u32 = 8;
const IN_ALL: u32 = 8_192;

type Group<'a> = BenchmarkGroup<'a, WallTime>;

/// As small as a descriptor would be.
#[derive(Clone, Copy)]
struct Frame {
    flow: u32,
    bytes: u32,
}

impl Packet for Frame {
    fn flow(&self) -> u32 {
        self.flow
    }

    fn len_bytes(&self) -> u32 {
        self.bytes
    }
}

fn kinds() -> Vec<(&'static str, Kind)> {
    let hierarchical = Kind::Hierarchical { quantum_bytes: LONGEST, burst_bytes: 10 * LONGEST };
    let random = Order::Random(Prng::new(1, "bench"));
    vec![
        ("fifo", Kind::Fifo),
        ("round-robin", Kind::RoundRobin),
        ("credit", Kind::Credit { period_ns: 50_000_000, order: Order::InTurn }),
        ("credit-random", Kind::Credit { period_ns: 50_000_000, order: random }),
        ("wrr", Kind::Wrr { transmission: None }),
        ("drr", Kind::Drr { quantum_bytes: LONGEST }),
        ("wfq", Kind::Wfq),
        ("strict-priority", Kind::StrictPriority),
        ("hierarchical", hierarchical),
    ]
}

fn settings(kind: &Kind, flow: u32, flows: u32) -> FlowSettings {
    let default = FlowSettings::default();
    let weight = 1 + flow % 2;
    match kind {
        Kind::Fifo | Kind::RoundRobin | Kind::Credit { .. } => default,
        Kind::Wrr { .. } | Kind::Drr { .. } | Kind::Wfq => FlowSettings { weight, ..default },
        Kind::StrictPriority => FlowSettings { priority: 7, ..default },
        // Half of 10 Gbit/s is promised.
        Kind::Hierarchical { .. } => {
            FlowSettings { weight, rate_min_bps: 5_000_000_000 / u64::from(flows), ..default }
        }
    }
}

/// A scheduler with the same number of packets in every queue.
fn backlogged(kind: &Kind, flows: u32) -> Scheduler<Frame> {
    let per_flow = PER_FLOW.max(IN_ALL / flows);
    let packets = flows * per_flow;
    let config =
        Config { flows, queue_packets: packets, pool_packets: packets, kind: kind.clone() };
    let mut scheduler = Scheduler::new(config).expect("the configuration is possible");
    for flow in 0..flows {
        scheduler.set(flow, settings(kind, flow, flows), 0).expect("the settings are possible");
    }
    let mut random = Prng::new(1, "packets");
    let mut order: Vec<_> = (0..packets).map(|packet| packet % flows).collect();
    for end in (1..packets).rev() {
        order.swap(end as usize, random.below(end + 1) as usize);
    }
    for flow in order {
        let frame = Frame { flow, bytes: 64 + random.below(LONGEST - 63) };
        assert!(scheduler.enqueue(frame, 0).is_ok(), "there is room");
    }
    scheduler
}

/// The next packet; on a link of 10 Gbit/s time goes on by as much as it takes.
fn decide(scheduler: &mut Scheduler<Frame>, now_ns: &mut u64) -> Frame {
    let Next::Packet(frame) = scheduler.dequeue(*now_ns) else { unreachable!("all backlogged") };
    *now_ns += u64::from(frame.bytes) * 8 / 10;
    frame
}

/// What `decide` works on; what it has taken out goes back in before the next time.
struct Bench {
    scheduler: Scheduler<Frame>,
    now_ns: u64,
    taken: Vec<Frame>,
}

impl Bench {
    fn take(&mut self, decisions: u32) {
        for _ in 0..decisions {
            let frame = decide(&mut self.scheduler, &mut self.now_ns);
            self.taken.push(frame);
        }
    }

    fn put_back(&mut self) {
        for frame in self.taken.drain(..) {
            assert!(self.scheduler.enqueue(frame, self.now_ns).is_ok(), "there was room before");
        }
    }
}

fn bench_decide(group: &mut Group<'_>, kind: &Kind, flows: u32) {
    // So few that no queue runs empty.
    let decisions = IN_ALL / 8;
    let taken = Vec::with_capacity(decisions as usize);
    let bench = RefCell::new(Bench { scheduler: backlogged(kind, flows), now_ns: 0, taken });
    group.throughput(Throughput::Elements(decisions.into()));
    group.bench_function(BenchmarkId::new("decide", flows), |bencher| {
        bencher.iter_batched(
            || bench.borrow_mut().put_back(),
            |()| bench.borrow_mut().take(decisions),
            BatchSize::PerIteration,
        );
    });
}

fn bench_steady(group: &mut Group<'_>, kind: &Kind, flows: u32) {
    let (mut scheduler, mut now_ns) = (backlogged(kind, flows), 0);
    group.throughput(Throughput::Elements(1));
    group.bench_function(BenchmarkId::new("steady", flows), |bencher| {
        bencher.iter(|| {
            let frame = decide(&mut scheduler, &mut now_ns);
            scheduler.enqueue(black_box(frame), now_ns).is_ok()
        });
    });
}

fn benches(criterion: &mut Criterion) {
    for (name, kind) in kinds() {
        let mut group = criterion.benchmark_group(name);
        group.warm_up_time(Duration::from_millis(300));
        for flows in SIZES {
            bench_decide(&mut group, &kind, flows);
            bench_steady(&mut group, &kind, flows);
        }
        group.finish();
    }
}

criterion_group!(decision, benches);
criterion_main!(decision);
