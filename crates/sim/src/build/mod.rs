//! From a model to an engine: names are resolved, and everything is checked.

mod admission;
mod cpu;
mod names;
mod net;
mod paths;
mod requests;
mod traffic;

use self::names::Names;
use crate::{
    engine::{Change, DropPoint, Engine, accounting::FrameAccounting, ids::Id},
    error::{Error, Result},
    model::{self, Model},
};

/// Limit of frames that all queues may hold together, and of entries of tables: what bounds memory.
const MAX_ENTRIES: u64 = 1 << 24;

/// An engine, ready to run.
pub(crate) fn engine(model: &Model) -> Result<Engine> {
    let names = Names::new(model)?;
    let window_ns = check_times(model)?;
    check_sizes(model)?;
    let bins_ns = model.bin_ns.map(|bin_ns| (bin_ns, model.duration_ns));
    let drop_points = net::drop_points(model);
    let accounting =
        FrameAccounting::new(model.traffic.len(), drop_points.len(), window_ns, bins_ns);
    let mut engine = Engine::new(model.duration_ns, cpu::build(model, &names)?, accounting);
    engine.names.flows = model.traffic.iter().map(|traffic| traffic.name.clone()).collect();
    engine.names.routers = model.routers.iter().map(|router| router.name.clone()).collect();
    engine.names.drop_points = drop_points;
    net::build(&mut engine, model, &names)?;
    paths::build(&mut engine, model, &names)?;
    traffic::build(&mut engine, model, &names)?;
    changes(&mut engine, model, &names)?;
    Ok(engine)
}

/// `Ok` where `holds`.
fn require(
    holds: bool,
    element: &str,
    key: &'static str,
    value: impl std::fmt::Display,
    accepted: &'static str,
) -> Result<()> {
    if holds {
        return Ok(());
    }
    Err(Error::Range { element: element.to_owned(), key, value: format!("{value}"), accepted })
}

/// A cost in ns as ps.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be within 0 to 10^15"
)]
fn ps(element: &str, key: &'static str, ns: f64) -> Result<u64> {
    require((0.0..=1e12).contains(&ns), element, key, ns, "0 to 10^12 ns")?;
    Ok((ns * 1e3).round() as u64)
}

/// A cost in whole ns.
fn whole_ns(element: &str, key: &'static str, ns: f64) -> Result<u64> {
    ps(element, key, ns).map(|ps| (ps + 500) / 1_000)
}

/// A rate in frames per second as frames per 1,000 seconds.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be within 1 to 10^12"
)]
fn millipps(element: &str, rate_pps: f64) -> Result<u64> {
    let possible = (0.001..=1e9).contains(&rate_pps);
    require(possible, element, "rate_pps", rate_pps, "0.001 to 10^9 frames/s")?;
    Ok((rate_pps * 1e3).round() as u64)
}

fn check_times(model: &Model) -> Result<(u64, u64)> {
    let Model { duration_ns, warm_up_ns, .. } = *model;
    let a_day_ns = 86_400_000_000_000;
    let possible = (1..=a_day_ns).contains(&duration_ns);
    require(possible, "model", "duration_ns", duration_ns, "1 ns to a day")?;
    let end_ns = model.window_end_ns.unwrap_or(duration_ns);
    require(end_ns <= duration_ns, "model", "window_end_ns", end_ns, "at most duration_ns")?;
    require(warm_up_ns < end_ns, "model", "warm_up_ns", warm_up_ns, "less than the window's end")?;
    if let Some(bin_ns) = model.bin_ns {
        require(bin_ns > 0, "model", "bin_ns", bin_ns, "1 or more")?;
        let bins = duration_ns.div_ceil(bin_ns) * model.traffic.len() as u64;
        require(
            bins <= MAX_ENTRIES,
            "model",
            "bin_ns",
            bin_ns,
            "so much that there are 2^24 bins at most",
        )?;
    }
    Ok((warm_up_ns, end_ns))
}

fn check_sizes(model: &Model) -> Result<()> {
    require(!model.routers.is_empty(), "model", "routers", 0, "1 or more")?;
    require(!model.traffic.is_empty(), "model", "traffic", 0, "1 or more")?;
    for (key, len) in [
        ("routers", model.routers.len()),
        ("traffic", model.traffic.len()),
        ("contexts", model.contexts.len()),
        ("stages", model.stages.len()),
    ] {
        require(len <= 4_096, "model", key, len, "at most 4096")?;
    }
    let rings = model.nics.iter().flat_map(|nic| &nic.rings);
    let queues = model.stages.iter().filter_map(|stage| stage.queue.as_ref());
    let flows = model.routers.len().max(model.traffic.len()) as u64;
    let times = |scheduled: bool| if scheduled { flows } else { 1 };
    let frames = rings.map(|ring| u64::from(ring.capacity)).sum::<u64>()
        + queues
            .map(|queue| u64::from(queue.capacity) * times(queue.scheduler.is_some()))
            .sum::<u64>()
        + model
            .ports
            .iter()
            .map(|port| u64::from(port.capacity) * times(port.scheduler.is_some()))
            .sum::<u64>();
    require(
        frames <= MAX_ENTRIES,
        "model",
        "capacity",
        frames,
        "at most 2^24 frames in all queues together",
    )
}

fn changes(engine: &mut Engine, model: &Model, names: &Names) -> Result<()> {
    for (number, change) in model.changes.iter().enumerate() {
        let at = format!("change {}", number + 1);
        let resolved = match change {
            model::Change::Flow { at: name, settings, .. } => {
                let drop_point = names.scheduler_at(&at, name)?;
                let scheduler = scheduler_at(model, drop_point);
                let Some(scheduler) = scheduler else {
                    return Err(Error::wrong(at, format!("{name} has no packet scheduler")));
                };
                let (flow, settings) = net::settings(&at, model, names, scheduler, settings)?;
                Change::Flow { at: drop_point, flow, settings }
            }
            model::Change::Shares { group, shares, .. } => {
                require((2..=262_144).contains(shares), &at, "shares", shares, "2 to 262144")?;
                Change::Shares {
                    group: names.groups.find(&at, "group", group)?,
                    shares: (*shares).into(),
                }
            }
            model::Change::Vcpu { context, weight, cap_pct, .. } => {
                let context = names.contexts.find(&at, "context", context)?;
                cpu::check_vcpu(&at, *weight, *cap_pct)?;
                if engine.host.cpu.contexts()[context].kind != model::ContextKind::Vcpu {
                    return Err(Error::wrong(at, "the context is no vcpu"));
                }
                Change::Vcpu { context, weight: *weight, cap_pct: *cap_pct }
            }
            model::Change::Rate { traffic, rate_pps, .. } => {
                let flow = names.traffic.find(&at, "traffic", traffic)?;
                Change::Rate { flow, rate_millipps: millipps(&at, *rate_pps)? }
            }
        };
        engine.changes.push((change.at_ns(), resolved));
    }
    Ok(())
}

fn scheduler_at(model: &Model, at: DropPoint) -> Option<&model::PacketScheduler> {
    match at {
        DropPoint::Port(port) => model.ports[port.index()].scheduler.as_ref(),
        DropPoint::Queue(queue) => {
            let mut queues = model.stages.iter().filter_map(|stage| stage.queue.as_ref());
            queues.nth(queue.index()).and_then(|queue| queue.scheduler.as_ref())
        }
        DropPoint::Ring(_) => None,
    }
}
