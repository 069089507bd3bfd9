//! NICs, ports, queues, packet schedulers.

use isolane_sched::{
    Config, FlowSettings, Kind, Order, Packet, Prng, Scheduler, Transmission as Sending,
};

use super::{admission::admissions, names::Names, ps, require, whole_ns};
use crate::{
    engine::{
        DropPoint, Engine,
        ids::{BacklogId, DropPointId, Id, PortId, QueueId, RingId, Table},
        names::StageInfo,
        network::{
            Network,
            line::Line,
            port::Port,
            qdisc::{Qdisc, Scheduled},
            queue::Queue,
            ring::Ring,
            wire::Wire,
        },
    },
    error::{Error, Result},
    model::{self, BackPressure, ContextKind, Mode, Model, PacketScheduler, SchedulerKind, SortBy},
};

/// Where frames may be dropped, and the names: rings, queues, ports.
pub(super) fn drop_points(model: &Model) -> Table<DropPointId, (String, DropPoint)> {
    let rings = model.nics.iter().flat_map(|nic| &nic.rings).map(|ring| ring.name.clone());
    let queues = model.stages.iter().filter(|stage| stage.queue.is_some());
    let queues = queues.map(|stage| format!("{}.queue", stage.name));
    let ports = model.ports.iter().map(|port| port.name.clone());
    let rings = rings.enumerate().map(|(index, name)| (name, DropPoint::Ring(RingId::at(index))));
    let queues =
        queues.enumerate().map(|(index, name)| (name, DropPoint::Queue(QueueId::at(index))));
    let ports = ports.enumerate().map(|(index, name)| (name, DropPoint::Port(PortId::at(index))));
    rings.chain(queues).chain(ports).collect()
}

pub(super) fn build(engine: &mut Engine, model: &Model, names: &Names) -> Result<()> {
    for nic in &model.nics {
        build_nic(&mut engine.host.network, nic)?;
    }
    for stage in &model.stages {
        build_stage(engine, model, names, stage)?;
    }
    for port in &model.ports {
        let port = build_port(model, names, port)?;
        engine.host.network.add_port(port);
    }
    Ok(())
}

fn line(element: &str, rate_bps: u64, overhead_bytes: u32) -> Result<Line> {
    let possible = (1..=1_000_000_000_000).contains(&rate_bps);
    require(possible, element, "rate_bps", rate_bps, "1 to 10^12 bit/s")?;
    require(overhead_bytes <= 1_000, element, "overhead_bytes", overhead_bytes, "0 to 1000")?;
    Ok(Line::new(rate_bps, overhead_bytes))
}

fn build_nic(network: &mut Network, nic: &model::Nic) -> Result<()> {
    let element = format!("nic {}", nic.name);
    let line = line(&element, nic.rate_bps, nic.overhead_bytes)?;
    let wire = network.add_wire(Wire::new(line, nic.latency_ns));
    for ring in &nic.rings {
        let element = format!("ring {}", ring.name);
        require(ring.capacity > 0, &element, "capacity", 0, "1 or more")?;
        let possible = (1..=ring.capacity).contains(&ring.refill);
        require(possible, &element, "refill", ring.refill, "1 to the capacity")?;
        let irq_ns =
            ring.irq_ns.ok_or(Error::Missing { element: element.clone(), key: "irq_ns" })?;
        let irq_ns = whole_ns(&element, "irq_ns", irq_ns)?;
        if ring.timer {
            let ns = ring.moderation_ns;
            require(ns >= 1_000, &element, "moderation_ns", ns, "1000 ns or more with a timer")?;
        }
        network.add_ring(Ring::new(wire, ring, irq_ns));
    }
    Ok(())
}

fn build_stage(
    engine: &mut Engine,
    model: &Model,
    names: &Names,
    stage: &model::Stage,
) -> Result<()> {
    let element = format!("stage {}", stage.name);
    let context = names.contexts.find(&element, "context", &stage.context)?;
    let own = match engine.host.cpu.contexts()[context].kind {
        ContextKind::Process => Mode::User,
        _ => Mode::Kernel,
    };
    let frame_ns =
        stage.frame_ns.ok_or(Error::Missing { element: element.clone(), key: "frame_ns" })?;
    let is_polled = stage.ring.is_some() || stage.queue.is_some();
    if stage.ring.is_some() && stage.queue.is_some() {
        return Err(Error::wrong(element, "it has both a ring and a queue"));
    }
    if stage.poll_ns != 0.0 && !is_polled {
        return Err(Error::wrong(element, "poll_ns needs a ring or a queue"));
    }
    if stage.drop_ns.is_some() && !is_polled {
        return Err(Error::wrong(element, "drop_ns needs a ring or a queue"));
    }
    require(stage.batch != Some(0), &element, "batch", 0, "1 or more")?;
    engine.stages.push(StageInfo {
        name: stage.name.clone(),
        context,
        account: stage.account.clone().unwrap_or_else(|| stage.name.clone()),
        mode: stage.mode.unwrap_or(own),
        frame_ps: ps(&element, "frame_ns", frame_ns)?,
        byte_ps: ps(&element, "byte_ns", stage.byte_ns)?,
        poll_ps: ps(&element, "poll_ns", stage.poll_ns)?,
        cold_ps: ps(&element, "cold_ns", stage.cold_ns)?,
        drop_ps: stage.drop_ns.map(|ns| ps(&element, "drop_ns", ns)).transpose()?,
    });
    let Some(queue) = &stage.queue else { return Ok(()) };
    let network = &mut engine.host.network;
    let shared = shared(network, &element, queue)?;
    // At most a backlog's capacity that was taken over, and as much again.
    let capacity = queue.capacity.saturating_mul(if shared.is_some() { 2 } else { 1 });
    let qdisc = qdisc(&element, model, names, capacity, queue.scheduler.as_ref())?;
    let notify_ps = ps(&element, "notify_ns", queue.notify_ns)?;
    let admissions = admissions(&element, names, &queue.admission, queue.capacity)?;
    let back_pressure = queue.back_pressure == BackPressure::On;
    network.add_queue(Queue::new(qdisc, shared, admissions).with(back_pressure, notify_ps));
    Ok(())
}

/// The backlog that a queue is part of; made when it is first named.
fn shared(network: &mut Network, element: &str, queue: &model::Queue) -> Result<Option<BacklogId>> {
    let Some(name) = &queue.shared else { return Ok(None) };
    let looks = queue.back_pressure == BackPressure::On;
    if queue.scheduler.is_some() || !queue.admission.is_empty() || looks {
        let problem =
            format!("{name} is shared, so it has no scheduler, admission or back-pressure");
        return Err(Error::wrong(element, problem));
    }
    let backlog = network.backlog(name, queue.capacity);
    let capacity = network.shared_backlog(backlog).capacity();
    if capacity != queue.capacity as usize {
        let problem =
            format!("capacity {}, where others of {name} have {capacity}", queue.capacity);
        return Err(Error::wrong(element, problem));
    }
    Ok(Some(backlog))
}

fn build_port(model: &Model, names: &Names, port: &model::Port) -> Result<Port> {
    let element = format!("port {}", port.name);
    let line = line(&element, port.rate_bps, port.overhead_bytes)?;
    require(port.capacity > 0, &element, "capacity", 0, "1 or more")?;
    let scheduler = port.scheduler.as_ref();
    let qdisc = match scheduler {
        None => None,
        Some(_) => Some(qdisc(&element, model, names, port.capacity, scheduler)?),
    };
    let admissions = admissions(&element, names, &port.admission, port.capacity)?;
    let built = Port::new(line, port.latency_ns, port.capacity, qdisc, admissions);
    Ok(built.for_routers(model.routers.len()))
}

fn qdisc(
    element: &str,
    model: &Model,
    names: &Names,
    capacity: u32,
    scheduler: Option<&PacketScheduler>,
) -> Result<Qdisc> {
    require(capacity > 0, element, "capacity", 0, "1 or more")?;
    let Some(settings) = scheduler else { return Ok(Qdisc::fifo(capacity)) };
    let mut scheduler = scheduler_of(element, model, settings, capacity)?;
    for flow in &settings.settings {
        let (id, flow) = self::settings(element, model, names, settings, flow)?;
        scheduler.set(id, flow, 0).map_err(|error| Error::wrong(element, error.to_string()))?;
    }
    let by_traffic = settings.flows == SortBy::Traffic;
    let overhead_bytes = settings.overhead_bytes;
    require(overhead_bytes <= 1_000, element, "overhead_bytes", overhead_bytes, "0 to 1000")?;
    let queued = Scheduled { scheduler, by_traffic, capacity, len: 0, overhead_bytes };
    Ok(Qdisc::Scheduled(Box::new(queued)))
}

fn flows(model: &Model, scheduler: &PacketScheduler) -> u32 {
    let flows = match scheduler.flows {
        SortBy::Router => model.routers.len(),
        SortBy::Traffic => model.traffic.len(),
    };
    u32::try_from(flows).expect("at most 4096")
}

fn scheduler_of<P: Packet>(
    element: &str,
    model: &Model,
    scheduler: &PacketScheduler,
    capacity: u32,
) -> Result<Scheduler<P>> {
    let flows = flows(model, scheduler);
    let kind = kind(element, model.seed, scheduler)?;
    let pool_packets =
        scheduler.pool_packets.unwrap_or_else(|| capacity.saturating_mul(flows).clamp(1, 1 << 24));
    let config = Config { flows, queue_packets: capacity, pool_packets, kind };
    Scheduler::new(config).map_err(|error| Error::wrong(element, error.to_string()))
}

fn kind(element: &str, seed: u64, scheduler: &PacketScheduler) -> Result<Kind> {
    check_keys(element, scheduler)?;
    let quantum_bytes = scheduler.quantum_bytes.unwrap_or(1_518);
    Ok(match scheduler.kind {
        SchedulerKind::Fifo => Kind::Fifo,
        SchedulerKind::RoundRobin => Kind::RoundRobin,
        SchedulerKind::Wfq => Kind::Wfq,
        SchedulerKind::StrictPriority => Kind::StrictPriority,
        SchedulerKind::Drr => Kind::Drr { quantum_bytes },
        SchedulerKind::Hierarchical => Kind::Hierarchical {
            quantum_bytes,
            burst_bytes: scheduler.burst_bytes.unwrap_or(15_180),
        },
        SchedulerKind::Credit => Kind::Credit {
            period_ns: scheduler.period_ns.unwrap_or(50_000_000),
            order: if scheduler.random.unwrap_or(false) {
                Order::Random(Prng::new(seed, element))
            } else {
                Order::InTurn
            },
        },
        SchedulerKind::Wrr => {
            let overhead_bytes = scheduler.transmission_overhead_bytes.unwrap_or(20);
            let sending = |rate_bps| Sending { rate_bps, overhead_bytes };
            Kind::Wrr { transmission: scheduler.transmission_bps.map(sending) }
        }
    })
}

fn check_keys(element: &str, scheduler: &PacketScheduler) -> Result<()> {
    use SchedulerKind::{Credit, Drr, Hierarchical, Wrr};
    let given: [(&str, bool, &[SchedulerKind]); 6] = [
        ("period_ns", scheduler.period_ns.is_some(), &[Credit]),
        ("random", scheduler.random.is_some(), &[Credit]),
        ("transmission_bps", scheduler.transmission_bps.is_some(), &[Wrr]),
        ("transmission_overhead_bytes", scheduler.transmission_overhead_bytes.is_some(), &[Wrr]),
        ("quantum_bytes", scheduler.quantum_bytes.is_some(), &[Drr, Hierarchical]),
        ("burst_bytes", scheduler.burst_bytes.is_some(), &[Hierarchical]),
    ];
    for (key, is_given, kinds) in given {
        if is_given && !kinds.contains(&scheduler.kind) {
            return Err(Error::wrong(
                element,
                format!("{key}: this kind of scheduler does not use it"),
            ));
        }
    }
    Ok(())
}

/// A flow of a scheduler, and what it is guaranteed.
pub(super) fn settings(
    element: &str,
    model: &Model,
    names: &Names,
    scheduler: &PacketScheduler,
    settings: &model::Settings,
) -> Result<(u32, FlowSettings)> {
    let name = &settings.flow;
    let flow: u32 = match scheduler.flows {
        SortBy::Router => names.routers.find(element, "flow", name)?.into(),
        SortBy::Traffic => names.traffic.find(element, "flow", name)?.into(),
    };
    let default = FlowSettings::default();
    let guaranteed = FlowSettings {
        weight: settings.weight.unwrap_or(default.weight),
        priority: settings.priority.unwrap_or(default.priority),
        rate_min_bps: settings.rate_min_bps.unwrap_or(default.rate_min_bps),
        rate_max_bps: settings.rate_max_bps,
        mean_packet_bytes: settings.mean_packet_bytes.unwrap_or(default.mean_packet_bytes),
        burst_bytes: settings.burst_bytes,
    };
    // A scheduler of the same kind says whether that is possible.
    let mut trial = scheduler_of::<Nothing>(element, model, scheduler, 1)?;
    let set = trial.set(flow, guaranteed, 0);
    set.map_err(|error| Error::wrong(element, format!("flow {}: {error}", settings.flow)))?;
    Ok((flow, guaranteed))
}

/// What is never queued.
struct Nothing;

impl Packet for Nothing {
    fn len_bytes(&self) -> u32 {
        0
    }

    fn flow(&self) -> u32 {
        0
    }
}
