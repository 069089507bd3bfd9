//! Cores, groups, contexts.

use super::{names::Names, ps, require, whole_ns};
use crate::{
    engine::{
        cpu::{
            Cpu,
            context::ContextCosts,
            core::{Core, CpuScheduler},
            credit::Credit,
            fair::{Fair, Task},
        },
        ids::{CoreId, GroupId, Id, Table},
    },
    error::{Error, Result},
    model::{self, ContextKind, Mode, Model, Softirq},
};

/// Cores, with all that runs on them.
pub(super) fn build(model: &Model, names: &Names) -> Result<Cpu> {
    let rules = softirq(model)?;
    let cores = model.cores.iter().map(build_core).collect::<Result<Table<CoreId, Core>>>()?;
    let mut cpu = Cpu::new(cores, credit(model)?, rules);
    for group in &model.groups {
        let element = format!("group {}", group.name);
        let possible = (2..=262_144).contains(&group.shares);
        require(possible, &element, "shares", group.shares, "2 to 262144")?;
        cpu.add_group();
    }
    for context in &model.contexts {
        build_context(&mut cpu, model, names, context)?;
    }
    // Behind all others, so that numbers of contexts are those of the model.
    cpu.add_ksoftirqds();
    Ok(cpu)
}

fn softirq(model: &Model) -> Result<Softirq> {
    let rules = model.softirq.clone();
    let Softirq { weight, budget, restarts, .. } = rules;
    for (key, value) in [("weight", weight), ("budget", budget), ("restarts", restarts)] {
        require(value > 0, "softirq", key, value, "1 or more")?;
    }
    Ok(rules)
}

fn build_core(core: &model::Core) -> Result<Core> {
    let element = format!("core {}", core.name);
    let scheduler = match &core.scheduler {
        model::CpuScheduler::Cfs(settings) => {
            for (key, ns) in [
                ("tick_ns", settings.tick_ns),
                ("latency_ns", settings.latency_ns),
                ("min_granularity_ns", settings.min_granularity_ns),
            ] {
                let possible = (1_000..=1_000_000_000).contains(&ns);
                require(possible, &element, key, ns, "1000 to 1000000000 ns")?;
            }
            let ns = settings.wakeup_granularity_ns;
            require(ns <= 1_000_000_000, &element, "wakeup_granularity_ns", ns, "at most 1 s")?;
            CpuScheduler::Fair(Box::new(Fair::cfs(settings.clone())), Table::default())
        }
        model::CpuScheduler::Eevdf(settings) => {
            let model::Eevdf { tick_ns, slice_ns, beat_ns, .. } = *settings;
            let beat_ns = beat_ns.unwrap_or(tick_ns);
            for (key, ns) in [("tick_ns", tick_ns), ("slice_ns", slice_ns), ("beat_ns", beat_ns)] {
                let possible = (1_000..=1_000_000_000).contains(&ns);
                require(possible, &element, key, ns, "1000 to 1000000000 ns")?;
            }
            CpuScheduler::Fair(Box::new(Fair::eevdf(settings.clone())), Table::default())
        }
        model::CpuScheduler::Credit(_) => CpuScheduler::Credit,
    };
    Ok(Core::new(
        &core.name,
        core.mode,
        scheduler,
        ps(&element, "switch_ns", core.switch_ns)?,
        whole_ns(&element, "tick_cost_ns", core.tick_cost_ns)?,
    ))
}

/// One scheduler for all cores that are under it.
fn credit(model: &Model) -> Result<Option<Credit>> {
    let mut settings: Option<&model::Credit> = None;
    let mut cores = Vec::new();
    for (index, core) in (0..).map(CoreId::at).zip(&model.cores) {
        let model::CpuScheduler::Credit(of_core) = &core.scheduler else { continue };
        let element = format!("core {}", core.name);
        if settings.is_some_and(|settings| settings != of_core) {
            return Err(Error::wrong(
                element,
                "all cores under the credit scheduler share its settings",
            ));
        }
        let tick_ns = of_core.tick_ns;
        let possible = (1_000..=1_000_000_000).contains(&tick_ns);
        require(possible, &element, "tick_ns", tick_ns, "1000 to 1000000000 ns")?;
        let possible = of_core.slice_ns >= tick_ns && of_core.slice_ns <= 10_000_000_000;
        require(possible, &element, "slice_ns", of_core.slice_ns, "tick_ns to 10 s")?;
        settings = Some(of_core);
        cores.push(index);
    }
    Ok(settings.map(|settings| Credit::new(settings.clone(), model.cores.len(), cores)))
}

pub(super) fn check_vcpu(element: &str, weight: u32, cap_pct: u32) -> Result<()> {
    require((1..=65_535).contains(&weight), element, "weight", weight, "1 to 65535")?;
    require(cap_pct <= 100, element, "cap_pct", cap_pct, "0 to 100")
}

fn build_context(
    cpu: &mut Cpu,
    model: &Model,
    names: &Names,
    context: &model::Context,
) -> Result<()> {
    let model::Context { name, kind, .. } = context;
    let element = format!("context {name}");
    require(!context.cores.is_empty(), &element, "cores", "[]", "1 or more")?;
    let mut cores = Vec::new();
    for core in &context.cores {
        let core = names.cores.find(&element, "cores", core)?;
        check_kind(&element, context, &cpu.cores()[core])?;
        cores.push(core);
    }
    let of_task = context.slice_ns.is_some() || context.batch;
    if of_task && !matches!(kind, ContextKind::Thread | ContextKind::Process) {
        return Err(Error::wrong(element, "slice_ns and batch are for threads and processes"));
    }
    match kind {
        ContextKind::Softirq => {
            let costs = costs(&element, context)?;
            if !cpu.add_softirq(name, cores[0], costs) {
                return Err(Error::wrong(element, "its core has a softirq already"));
            }
        }
        ContextKind::Thread | ContextKind::Process => {
            let task = task(&element, context, &cpu.cores()[cores[0]])?;
            let group = group(&element, model, names, context)?;
            cpu.add_task(name, *kind, cores[0], task, group, costs(&element, context)?);
        }
        ContextKind::Vcpu => {
            let (weight, cap_pct) = (context.weight, context.cap_pct);
            check_vcpu(&element, weight, cap_pct)?;
            cpu.add_vcpu(name, cores, weight, cap_pct, costs(&element, context)?);
        }
    }
    Ok(())
}

/// What the scheduler has to know of it.
fn task(element: &str, context: &model::Context, core: &Core) -> Result<Task> {
    let model::Context { nice, slice_ns, batch, .. } = *context;
    require((-20..=19).contains(&nice), element, "nice", nice, "-20 to 19")?;
    if let Some(ns) = slice_ns {
        if !core.has_slices() {
            return Err(Error::wrong(element, "slice_ns needs a core under the EEVDF scheduler"));
        }
        let possible = (100_000..=100_000_000).contains(&ns);
        require(possible, element, "slice_ns", ns, "100000 to 100000000 ns")?;
    }
    Ok(Task { slice_ns, batch, ..Task::of_nice(nice) })
}

/// The cgroup that a context is in, and its shares.
fn group(
    element: &str,
    model: &Model,
    names: &Names,
    context: &model::Context,
) -> Result<Option<(GroupId, u32)>> {
    let Some(name) = &context.group else { return Ok(None) };
    let group = names.groups.find(element, "group", name)?;
    Ok(Some((group, model.groups[group.index()].shares)))
}

fn costs(element: &str, context: &model::Context) -> Result<ContextCosts> {
    let own = if context.kind == ContextKind::Process { Mode::User } else { Mode::Kernel };
    Ok(ContextCosts {
        wake_ps: ps(element, "wake_ns", context.wake_ns)?,
        exit_ps: ps(element, "exit_ns", context.exit_ns)?,
        cold_ps: ps(element, "cold_ns", context.cold_ns)?,
        wake_mode: context.wake_mode.unwrap_or(own),
        whole_polls: context.whole_polls,
    })
}

fn check_kind(element: &str, context: &model::Context, core: &Core) -> Result<()> {
    let is_fair = core.is_fair();
    let problem = match context.kind {
        ContextKind::Vcpu if is_fair => "a vcpu needs cores under the credit scheduler",
        ContextKind::Vcpu => return Ok(()),
        _ if !is_fair => "only a vcpu runs under the credit scheduler",
        _ if context.cores.len() > 1 => "only a vcpu may have several cores",
        _ => return Ok(()),
    };
    Err(Error::wrong(element, problem))
}
