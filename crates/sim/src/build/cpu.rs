//! Cores, groups, contexts.

use super::{names::Names, ps, require, whole_ns};
use crate::{
    engine::{
        Engine,
        cfs::{Cfs, weight_of_nice},
        core::{Context, ContextBill, Core, CpuScheduler, ScheduledAs},
        credit::Credit,
        ids::{ContextId, CoreId, EntityId, Id, Table},
    },
    error::{Error, Result},
    model::{self, ContextKind, Mode, Model, Softirq},
};

pub(super) fn softirq(model: &Model) -> Result<Softirq> {
    let rules = model.softirq.clone();
    let Softirq { weight, budget, restarts, .. } = rules;
    for (key, value) in [("weight", weight), ("budget", budget), ("restarts", restarts)] {
        require(value > 0, "softirq", key, value, "1 or more")?;
    }
    Ok(rules)
}

pub(super) fn build(engine: &mut Engine, model: &Model, names: &Names) -> Result<()> {
    for core in &model.cores {
        engine.cores.push(build_core(core)?);
        engine.tasks.push(Table::default());
    }
    engine.credit = credit(model)?;
    for group in &model.groups {
        let element = format!("group {}", group.name);
        let possible = (2..=262_144).contains(&group.shares);
        require(possible, &element, "shares", group.shares, "2 to 262144")?;
        engine.groups.push(Table::filled(None, model.cores.len()));
    }
    for context in &model.contexts {
        build_context(engine, model, names, context)?;
    }
    // Behind all others, so that numbers of contexts are those of the model.
    for core in engine.cores.ids() {
        if engine.cores[core].softirq.context.is_some() {
            add_ksoftirqd(engine, core);
        }
    }
    Ok(())
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
            CpuScheduler::Cfs(Box::new(Cfs::new(settings.clone())))
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
    engine: &mut Engine,
    model: &Model,
    names: &Names,
    context: &model::Context,
) -> Result<()> {
    let element = format!("context {}", context.name);
    require(!context.cores.is_empty(), &element, "cores", "[]", "1 or more")?;
    let mut cores = Vec::new();
    for core in &context.cores {
        let core = names.cores.find(&element, "cores", core)?;
        check_kind(&element, context, &engine.cores[core])?;
        cores.push(core);
    }
    let id = engine.contexts.next_id();
    let core = cores[0];
    let scheduled_as = match context.kind {
        ContextKind::Softirq => {
            if engine.cores[core].softirq.context.replace(id).is_some() {
                return Err(Error::wrong(element, "its core has a softirq already"));
            }
            ScheduledAs::Softirq
        }
        ContextKind::Thread | ContextKind::Process => {
            ScheduledAs::Task(add_task(engine, model, names, context, core, id)?)
        }
        ContextKind::Vcpu => {
            check_vcpu(&element, context.weight, context.cap_pct)?;
            engine.vcpus.push(id);
            let credit = engine.credit.as_mut().expect("its core is under the credit scheduler");
            ScheduledAs::Vcpu(credit.add(context.weight, context.cap_pct, cores))
        }
    };
    let own = if context.kind == ContextKind::Process { Mode::User } else { Mode::Kernel };
    engine.contexts.push(Context {
        wake_ps: ps(&element, "wake_ns", context.wake_ns)?,
        exit_ps: ps(&element, "exit_ns", context.exit_ns)?,
        cold_ps: ps(&element, "cold_ns", context.cold_ns)?,
        wake_mode: context.wake_mode.unwrap_or(own),
        whole_polls: context.whole_polls,
        ..plain_context(&context.name, context.kind, scheduled_as, core, engine.cores.len())
    });
    Ok(())
}

fn check_kind(element: &str, context: &model::Context, core: &Core) -> Result<()> {
    let is_cfs = matches!(core.scheduler, CpuScheduler::Cfs(_));
    let problem = match context.kind {
        ContextKind::Vcpu if is_cfs => "a vcpu needs cores under the credit scheduler",
        ContextKind::Vcpu => return Ok(()),
        _ if !is_cfs => "only a vcpu runs under the credit scheduler",
        _ if context.cores.len() > 1 => "only a vcpu may have several cores",
        _ => return Ok(()),
    };
    Err(Error::wrong(element, problem))
}

fn plain_context(
    name: &str,
    kind: ContextKind,
    scheduled_as: ScheduledAs,
    core: CoreId,
    cores: usize,
) -> Context {
    Context {
        name: name.to_owned(),
        kind,
        is_ksoftirqd: false,
        core,
        scheduled_as,
        runnable: false,
        blocked: 0,
        list: std::collections::VecDeque::new(),
        worker: None,
        suspended: None,
        overhead_ps: 0,
        wake_ps: 0,
        exit_ps: 0,
        cold_ps: 0,
        last_router: None,
        wake_mode: Mode::Kernel,
        whole_polls: false,
        before_ns: 0,
        bill: ContextBill { cpu_ns: Table::filled(0, cores), ..ContextBill::default() },
    }
}

#[expect(clippy::too_many_arguments, reason = "a part of build_context")]
fn add_task(
    engine: &mut Engine,
    model: &Model,
    names: &Names,
    context: &model::Context,
    core: CoreId,
    id: ContextId,
) -> Result<EntityId> {
    let element = format!("context {}", context.name);
    require((-20..=19).contains(&context.nice), &element, "nice", context.nice, "-20 to 19")?;
    let group = match &context.group {
        None => None,
        Some(name) => Some(names.groups.find(&element, "group", name)?),
    };
    let CpuScheduler::Cfs(cfs) = &mut engine.cores[core].scheduler else {
        unreachable!("checked by kind");
    };
    let tasks = &mut engine.tasks[core];
    let group = group.map(|group| {
        *engine.groups[group][core].get_or_insert_with(|| {
            // Groups and tasks are numbered together.
            tasks.push(None);
            cfs.add_group(model.groups[group.index()].shares.into())
        })
    });
    tasks.push(Some(id));
    Ok(cfs.add_task(weight_of_nice(context.nice), group))
}

fn add_ksoftirqd(engine: &mut Engine, core: CoreId) {
    let id = engine.contexts.next_id();
    let name = format!("ksoftirqd/{}", engine.cores[core].name);
    let CpuScheduler::Cfs(cfs) = &mut engine.cores[core].scheduler else { return };
    let entity = cfs.add_task(weight_of_nice(0), None);
    engine.tasks[core].push(Some(id));
    engine.cores[core].softirq.ksoftirqd = Some(id);
    engine.contexts.push(Context {
        is_ksoftirqd: true,
        ..plain_context(
            &name,
            ContextKind::Thread,
            ScheduledAs::Task(entity),
            core,
            engine.cores.len(),
        )
    });
}
