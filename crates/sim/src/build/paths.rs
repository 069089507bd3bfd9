//! Paths: from a list of names to workers and their routes.

use super::names::{Names, Node};
use crate::{
    engine::{
        Engine,
        ids::{BacklogId, ContextId, Id, RouterId, StageId, Table, WorkerId},
        network::Beyond,
        worker::{Exit, Input, Route, Worker},
    },
    error::{Error, Result},
    model::{Model, Router, Stage},
};

/// A path, its names resolved.
struct Path<'a> {
    router: RouterId,
    element: String,
    nodes: Vec<Node>,
    names: &'a [String],
}

pub(super) fn build(engine: &mut Engine, model: &Model, names: &Names) -> Result<()> {
    for (index, router) in engine.names.routers.ids().zip(&model.routers) {
        let path = resolve(names, index, router)?;
        check(model, names, &path)?;
        add_routes(engine, model, names, &path)?;
    }
    Ok(())
}

fn resolve<'a>(names: &Names, router: RouterId, of: &'a Router) -> Result<Path<'a>> {
    let element = format!("router {}", of.name);
    for (at, name) in of.path.iter().enumerate() {
        if let Some(before) = of.path[..at].iter().position(|other| other == name) {
            let cycle = of.path[before..=at].join(" > ");
            return Err(Error::Cycle { router: of.name.clone(), cycle });
        }
    }
    let nodes =
        of.path.iter().map(|name| names.node(&element, name)).collect::<Result<Vec<Node>>>()?;
    Ok(Path { router, element, nodes, names: &of.path })
}

/// Whether each thing fits the one before it.
fn check(model: &Model, names: &Names, path: &Path) -> Result<()> {
    let wrong = |problem: String| Err(Error::wrong(&path.element, problem));
    for (at, &node) in path.nodes.iter().enumerate() {
        let name = &path.names[at];
        let before = at.checked_sub(1).map(|before| path.nodes[before]);
        match node {
            Node::Ring(_) => {
                if !matches!(before, None | Some(Node::Port(_))) {
                    return wrong(format!("only a port leads to a ring, here {name}"));
                }
            }
            Node::Port(_) => {
                if !matches!(before, None | Some(Node::Stage(_))) {
                    return wrong(format!("no stage is before port {name}"));
                }
            }
            Node::Stage(stage) => {
                if let Some(problem) = misfit(model, names, &model.stages[stage.index()], before) {
                    return wrong(problem);
                }
            }
        }
    }
    match path.nodes.last() {
        Some(Node::Port(_)) => Ok(()),
        _ => wrong("the path does not end with a port".to_owned()),
    }
}

/// What is wrong with this stage after that.
fn misfit(model: &Model, names: &Names, stage: &Stage, before: Option<Node>) -> Option<String> {
    let name = &stage.name;
    let after_own_ring = |ring: &String| match before {
        Some(Node::Ring(before)) => names.rings.get(ring) == Some(before),
        _ => false,
    };
    if let Some(ring) = &stage.ring {
        let wrong = || format!("stage {name} serves ring {ring}, which is not before it");
        return (!after_own_ring(ring)).then(wrong);
    }
    match (&stage.queue, before) {
        (_, Some(Node::Ring(_))) => Some(format!("stage {name} does not serve the ring before it")),
        (_, Some(Node::Port(_))) => {
            Some(format!("after a port a ring follows, or nothing, not stage {name}"))
        }
        (Some(_), None) => Some(format!("stage {name} has a queue, but nothing is before it")),
        (None, Some(Node::Stage(before))) => {
            let before = &model.stages[before.index()];
            (before.context != stage.context).then(|| {
                format!(
                    "stage {name} has no queue, so it runs in the context of {}, which is {}, not {}",
                    before.name, before.context, stage.context
                )
            })
        }
        _ => None,
    }
}

fn add_routes(engine: &mut Engine, model: &Model, names: &Names, path: &Path) -> Result<()> {
    let mut at = 0;
    while at < path.nodes.len() {
        match path.nodes[at] {
            Node::Ring(_) => at += 1,
            Node::Port(port) => {
                if let Some(&Node::Ring(ring)) = path.nodes.get(at + 1) {
                    engine.ports[port].beyond[path.router] = Beyond::Ring(ring);
                    engine.ports[port].eager = true;
                }
                at += 1;
            }
            Node::Stage(head) => {
                let (route, next) = route(model, names, path, at, engine);
                check_look_ahead(model, path, head, &route, engine)?;
                if model.stages[head.index()].ring.is_some()
                    || model.stages[head.index()].queue.is_some()
                {
                    let worker = worker_of(engine, model, names, head)?;
                    engine.workers[worker].routes[path.router] = Some(route);
                }
                at = next;
            }
        }
    }
    Ok(())
}

/// A stage that looks before it works (`drop_ns`) needs a queue behind it; a queue with an admission needs a
/// stage before it that looks.
fn check_look_ahead(
    model: &Model,
    path: &Path,
    head: StageId,
    route: &Route,
    engine: &Engine,
) -> Result<()> {
    let conditions = match route.exit {
        Exit::Queue(queue) => {
            let admission = &engine.queues[queue].admission;
            Some(admission.get(path.router).is_some_and(Option::is_some))
        }
        Exit::Port(_) => None,
    };
    let problem = match (route.drop_ps, conditions) {
        (Some(_), None) => "drop_ns needs a queue behind the stage",
        (None, Some(true)) => "the queue behind it has an admission, so it needs drop_ns",
        _ => return Ok(()),
    };
    Err(Error::wrong(format!("stage {}", model.stages[head.index()].name), problem))
}

/// The route from this stage on, and where the path goes on behind it.
fn route(
    model: &Model,
    names: &Names,
    path: &Path,
    from: usize,
    engine: &Engine,
) -> (Route, usize) {
    let mut stages = Vec::new();
    let mut at = from;
    let exit = loop {
        match path.nodes[at] {
            Node::Stage(stage) if at == from || names.queue_of[stage].is_none() => {
                stages.push(stage);
                at += 1;
            }
            Node::Stage(stage) => {
                break Exit::Queue(names.queue_of[stage].expect("it has a queue"));
            }
            Node::Port(port) => break Exit::Port(port),
            Node::Ring(_) => unreachable!("a ring follows a port only"),
        }
    };
    let sum = |cost: fn(&crate::engine::StageInfo) -> u64| {
        stages.iter().map(|&stage| cost(&engine.stages[stage])).sum()
    };
    let captures =
        stages.iter().copied().filter(|&stage| model.stages[stage.index()].capture).collect();
    let route = Route {
        frame_ps: sum(|stage| stage.frame_ps),
        byte_ps: sum(|stage| stage.byte_ps),
        cold_ps: sum(|stage| stage.cold_ps),
        drop_ps: engine.stages[stages[0]].drop_ps,
        exit,
        captures,
        stages,
        frames: 0,
        bytes: 0,
        colds: 0,
        refused: 0,
    };
    (route, at)
}

/// The route of a router's senders: from its path's first stage.
pub(super) fn sender_route(
    engine: &Engine,
    model: &Model,
    names: &Names,
    router: RouterId,
) -> Result<Option<(StageId, Route)>> {
    let path = resolve(names, router, &model.routers[router.index()])?;
    match path.nodes.first() {
        Some(&Node::Stage(stage)) => Ok(Some((stage, route(model, names, &path, 0, engine).0))),
        _ => Ok(None),
    }
}

pub(super) fn plain_worker(engine: &Engine, context: ContextId, input: Input) -> Worker {
    Worker {
        context,
        input,
        batch: engine.softirq_rules.weight,
        poll_ps: 0,
        routes: Table::filled(None, engine.names.routers.len()),
        stage: None,
        pending: false,
        polled: 0,
        frame: None,
        cold: false,
        noticed: false,
        remainder_ps: 0,
        debt_ps: 0,
        retry_ns: u64::MAX,
        polls: 0,
        notify_ps: 0,
    }
}

/// The worker of a stage with a ring or a queue; made when it is first met.
fn worker_of(
    engine: &mut Engine,
    model: &Model,
    names: &Names,
    stage: StageId,
) -> Result<WorkerId> {
    let of = &model.stages[stage.index()];
    let element = format!("stage {}", of.name);
    let input = match (&of.ring, names.queue_of[stage]) {
        (Some(ring), _) => Input::Ring(names.rings.find(&element, "ring", ring)?),
        (None, Some(queue)) => Input::Queue(queue),
        (None, None) => unreachable!("only stages with a ring or a queue"),
    };
    let known = match input {
        Input::Ring(ring) => engine.rings[ring].worker,
        Input::Queue(queue) => engine.queues[queue].worker,
        Input::Shared(_) | Input::Connection(_) | Input::Load(_) => {
            unreachable!("not a stage's")
        }
    };
    if let Some(known) = known {
        if engine.workers[known].stage != Some(stage) {
            return Err(Error::wrong(element, "another stage serves its ring already"));
        }
        return Ok(known);
    }
    let info = &engine.stages[stage];
    let mut worker = plain_worker(engine, info.context, input);
    worker.poll_ps = info.poll_ps;
    worker.stage = Some(stage);
    worker.batch = of.batch.unwrap_or(worker.batch);
    let index = engine.workers.push(worker);
    match input {
        Input::Ring(ring) => engine.rings[ring].worker = Some(index),
        Input::Queue(queue) => {
            engine.queues[queue].worker = Some(index);
            if let Some(shared) = engine.queues[queue].shared {
                add_poller(engine, &element, shared, index)?;
            }
        }
        Input::Shared(_) | Input::Connection(_) | Input::Load(_) => {}
    }
    Ok(index)
}

/// Makes who polls a shared backlog, unless it is there: its polls cost what the first stage's would.
fn add_poller(
    engine: &mut Engine,
    element: &str,
    shared: BacklogId,
    first: WorkerId,
) -> Result<()> {
    let (context, poller) = (engine.workers[first].context, engine.shared[shared].worker);
    if let Some(poller) = poller {
        if engine.workers[poller].context == context {
            return Ok(());
        }
        let name = &engine.shared[shared].name;
        return Err(Error::wrong(element, format!("{name} is shared in another context")));
    }
    let mut worker = plain_worker(engine, context, Input::Shared(shared));
    worker.poll_ps = engine.workers[first].poll_ps;
    worker.stage = engine.workers[first].stage;
    engine.shared[shared].worker = Some(engine.workers.push(worker));
    Ok(())
}

/// Where this router's path begins: its open-loop traffic enters there.
pub(super) fn entrance(model: &Model, names: &Names, router: RouterId) -> Result<Option<Node>> {
    let path = resolve(names, router, &model.routers[router.index()])?;
    Ok(path.nodes.first().copied())
}
