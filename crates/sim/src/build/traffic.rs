//! Traffic and loads.

use isolane_sched::Prng;

use super::{
    millipps,
    names::{Names, Node},
    paths, ps,
    requests::{self, Asked},
    require,
};
use crate::{
    engine::{
        Engine, NEVER,
        frame::Mark,
        ids::{FlowId, Id, RouterId},
        load::Load,
        network::sources::{Gaps, OnOff, Pace, Ramp, Sizes, Source},
        senders::Connection,
        workers::Input,
    },
    error::{Error, Result},
    model::{self, Begin, ContextKind, FrameBytes, LoadKind, Model, Pattern, Release, Traffic},
};

pub(super) fn build(engine: &mut Engine, model: &Model, names: &Names) -> Result<()> {
    for (flow, traffic) in engine.names.flows.ids().zip(&model.traffic) {
        let element = format!("traffic {}", traffic.name);
        let router = names.routers.find(&element, "router", &traffic.router)?;
        engine.names.router_of.push(router);
        let entry = Entry { flow, router, element, traffic };
        match &traffic.pattern {
            Pattern::Sender { .. } => add_senders(engine, model, names, &entry)?,
            Pattern::Requests { begin, turns, again_ns } => {
                let asked = Asked { begin, turns, again_ns: *again_ns };
                let of = (flow, traffic);
                if let Some((ring, router, pattern)) =
                    requests::add(engine, model, names, of, &asked)?
                {
                    let source = source(model, &Entry { router, ..entry }, &pattern, ring)?;
                    engine.host.network.add_ring_source(ring, source);
                }
            }
            _ => add_source(engine, model, names, &entry)?,
        }
    }
    for (flow, traffic) in engine.names.flows.ids().zip(&model.traffic) {
        if let Pattern::Requests { begin: Begin::After { traffic: answered }, .. } =
            &traffic.pattern
        {
            let element = format!("traffic {}", traffic.name);
            requests::follow(engine, names, flow, &element, answered)?;
        }
    }
    for load in &model.loads {
        add_load(engine, model, names, load)?;
    }
    let mut connections = engine.host.workers.connections().iter();
    if connections.any(|connection| connection.released_when_sent) {
        engine.host.network.tell_senders();
    }
    Ok(())
}

struct Entry<'a> {
    flow: FlowId,
    router: RouterId,
    element: String,
    traffic: &'a Traffic,
}

fn prng(model: &Model, element: &str, what: &str) -> Prng {
    Prng::new(model.seed, &format!("{element} {what}"))
}

fn sizes(model: &Model, entry: &Entry) -> Result<Sizes> {
    let possible = |bytes: u16| (1..=16_384).contains(&bytes);
    match &entry.traffic.frame_bytes {
        FrameBytes::Fixed(bytes) => {
            let accepted = "1 to 16384 bytes";
            require(possible(*bytes), &entry.element, "frame_bytes", bytes, accepted)?;
            Ok(Sizes::Fixed(*bytes))
        }
        FrameBytes::Of(sizes) => {
            let holds = !sizes.is_empty() && sizes.iter().all(|&bytes| possible(bytes));
            let accepted = "one or more sizes of 1 to 16384 bytes";
            require(holds, &entry.element, "frame_bytes", format!("{sizes:?}"), accepted)?;
            Ok(Sizes::Of(sizes.clone(), prng(model, &entry.element, "sizes")))
        }
    }
}

/// A moment within the first gap, ns.
fn phase_ns(model: &Model, element: &str, gap_ns: u64) -> u64 {
    let gap_ns = u32::try_from(gap_ns).unwrap_or(u32::MAX);
    prng(model, element, "phase").below(gap_ns).into()
}

fn add_source(engine: &mut Engine, model: &Model, names: &Names, entry: &Entry) -> Result<()> {
    match paths::entrance(model, names, entry.router)? {
        Some(Node::Ring(ring)) => {
            let pattern = &entry.traffic.pattern;
            engine.host.network.add_ring_source(ring, source(model, entry, pattern, ring)?);
        }
        Some(Node::Port(port)) => {
            let pattern = &entry.traffic.pattern;
            engine.host.network.add_port_source(port, source(model, entry, pattern, ())?);
        }
        Some(Node::Stage(_)) | None => {
            let problem = "its router's path begins with a stage, which only a sender can feed";
            return Err(Error::wrong(&entry.element, problem));
        }
    }
    Ok(())
}

fn source<To>(model: &Model, entry: &Entry, pattern: &Pattern, to: To) -> Result<Source<To>> {
    let Entry { flow, router, element, traffic } = entry;
    let mut gaps = gaps(model, element, pattern)?;
    let offset_ns = match &mut gaps {
        Gaps::Cbr(pace) => phase_ns(model, element, pace.gap_ns()),
        Gaps::OnOff(bursts) => {
            let phase_ns = phase_ns(model, element, bursts.gap_ns());
            bursts.after_ns(phase_ns)
        }
        Gaps::Ramp(ramp) => ramp.next_ns(),
        Gaps::Poisson { mean_ns, .. } | Gaps::Bursts { mean_ns, .. } => {
            crate::random::exponential_ns(&mut prng(model, element, "phase"), *mean_ns)
        }
    };
    let stop_ns = traffic.stop_ns.unwrap_or(NEVER);
    let start_ns = traffic.start_ns + offset_ns;
    let mut sizes = sizes(model, entry)?;
    Ok(Source {
        next_ns: if start_ns < stop_ns { start_ns } else { NEVER },
        next_bytes: sizes.next(),
        flow: *flow,
        router: *router,
        to,
        stop_ns,
        sizes,
        gaps,
    })
}

fn gaps(model: &Model, element: &str, pattern: &Pattern) -> Result<Gaps> {
    match *pattern {
        Pattern::Cbr { rate_pps } => Ok(Gaps::Cbr(Pace::new(millipps(element, rate_pps)?))),
        Pattern::Poisson { rate_pps } => {
            let mut gaps = Gaps::Poisson { mean_ns: 0.0, prng: prng(model, element, "gaps") };
            gaps.set_rate(millipps(element, rate_pps)?);
            Ok(gaps)
        }
        Pattern::Bursts { rate_pps, burst_frames } => {
            require(burst_frames > 0, element, "burst_frames", 0, "1 or more")?;
            let prng = prng(model, element, "gaps");
            let mut gaps =
                Gaps::Bursts { mean_ns: 0.0, burst_frames, left: burst_frames - 1, prng };
            gaps.set_rate(millipps(element, rate_pps)?);
            Ok(gaps)
        }
        Pattern::OnOff { rate_pps, on_ns, period_ns } => {
            let accepted = "1 ns or more, and less than period_ns";
            require(on_ns > 0 && on_ns < period_ns, element, "on_ns", on_ns, accepted)?;
            Ok(Gaps::OnOff(OnOff::new(millipps(element, rate_pps)?, on_ns, period_ns)))
        }
        Pattern::Ramp { rate_pps, mid_ns } => {
            require(mid_ns > 0, element, "mid_ns", mid_ns, "1 ns or more")?;
            let phase = f64::from(prng(model, element, "phase").below(1000)) / 1000.0;
            Ok(Gaps::Ramp(Ramp::new(millipps(element, rate_pps)?, mid_ns, phase)))
        }
        Pattern::Sender { .. } | Pattern::Requests { .. } => {
            unreachable!("they are no open-loop sources")
        }
    }
}

fn add_senders(engine: &mut Engine, model: &Model, names: &Names, entry: &Entry) -> Result<()> {
    let Entry { flow, router, element, traffic } = entry;
    let Pattern::Sender { connections, window_frames, rate_pps, catch_up_ns, release } =
        traffic.pattern
    else {
        unreachable!("only for senders");
    };
    let Some((stage, segment)) = paths::sender_segment(engine, model, names, *router)? else {
        let problem = "a sender needs a path that begins with the stage that it runs in";
        return Err(Error::wrong(element, problem));
    };
    let context = engine.stages[stage].context;
    if engine.host.cpu.contexts()[context].kind == ContextKind::Softirq {
        return Err(Error::wrong(element, "a sender cannot run in a softirq"));
    }
    require((1..=1_000).contains(&connections), element, "connections", connections, "1 to 1000")?;
    require(window_frames > 0, element, "window_frames", 0, "1 or more")?;
    let total = engine.host.workers.connections().len() + connections as usize;
    require(total <= Mark::MAX, element, "connections", total, "at most 32767 in all")?;
    let pace = rate_pps.map(|rate_pps| millipps(element, rate_pps)).transpose()?.map(Pace::new);
    for number in 0..connections {
        let name = format!("{element} connection {number}");
        let phase_ns = pace.map_or(0, |pace| phase_ns(model, &name, pace.gap_ns()));
        let index = engine.host.workers.connections().next_id();
        let mut worker = paths::plain_worker(engine, Input::Connection(index));
        worker.segments[*router] = Some(segment.clone());
        worker.stage = Some(stage);
        worker.batch = model.stages[stage.index()].batch.unwrap_or(worker.batch);
        let mut sizes = sizes(model, entry)?;
        if let Sizes::Of(_, generator) = &mut sizes {
            *generator = prng(model, &name, "sizes");
        }
        engine.host.workers.add_connection(Connection {
            worker: engine.host.workers.workers().next_id(),
            flow: *flow,
            router: *router,
            bytes: sizes.next(),
            sizes,
            in_flight: 0,
            window: window_frames,
            released_when_sent: release == Release::Sent,
            pace,
            catch_up_ns,
            due_ns: traffic.start_ns + phase_ns,
            stop_ns: traffic.stop_ns.unwrap_or(NEVER),
        });
        engine.host.add_worker(context, worker);
    }
    Ok(())
}

fn add_load(engine: &mut Engine, model: &Model, names: &Names, load: &model::Load) -> Result<()> {
    let element = format!("load {}", load.name);
    let context = names.contexts.find(&element, "context", &load.context)?;
    if engine.host.cpu.contexts()[context].kind == ContextKind::Softirq {
        return Err(Error::wrong(element, "a load cannot run in a softirq"));
    }
    let cpu_ps = match load.load {
        LoadKind::Cpu => 0,
        LoadKind::Periodic { cpu_ns, .. } | LoadKind::Disk { cpu_ns, .. } => {
            require(cpu_ns >= 1.0, &element, "cpu_ns", cpu_ns, "1 ns or more")?;
            ps(&element, "cpu_ns", cpu_ns)?
        }
    };
    if let LoadKind::Disk { depth, blocking_permille, .. } = load.load {
        require((1..=4_096).contains(&depth), &element, "depth", depth, "1 to 4096")?;
        let accepted = "0 to 1000";
        require(
            blocking_permille <= 1_000,
            &element,
            "blocking_permille",
            blocking_permille,
            accepted,
        )?;
    }
    let index = engine.host.workers.loads().next_id();
    let mut worker = paths::plain_worker(engine, Input::Load(index));
    worker.batch = 1;
    let stop_ns = load.stop_ns.unwrap_or(NEVER);
    let generator = prng(model, &element, "times");
    let id = engine.host.add_worker(context, worker);
    let times_ns = (load.start_ns, stop_ns);
    let built = Load::new(&load.name, load.load.clone(), id, times_ns, generator);
    engine.host.workers.add_load(built.with_cost(cpu_ps));
    Ok(())
}
