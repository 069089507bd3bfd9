//! Paths: from a list of names to workers, and what each does with a router's frames.

use super::names::{Names, Node};
use crate::{
    engine::{
        Engine,
        ids::{BacklogId, Id, RouterId, StageId, WorkerId},
        network::Output,
        workers::{Input, Segment, SegmentAccount, Worker},
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
        add_segments(engine, model, names, &path)?;
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

fn add_segments(engine: &mut Engine, model: &Model, names: &Names, path: &Path) -> Result<()> {
    let mut at = 0;
    while at < path.nodes.len() {
        match path.nodes[at] {
            Node::Ring(_) => at += 1,
            Node::Port(port) => {
                if let Some(&Node::Ring(ring)) = path.nodes.get(at + 1) {
                    engine.host.network.connect(port, path.router, ring);
                }
                at += 1;
            }
            Node::Stage(head) => {
                let (segment, next) = segment(model, names, path, at, engine);
                check_look_ahead(model, path, head, &segment, engine)?;
                if model.stages[head.index()].ring.is_some()
                    || model.stages[head.index()].queue.is_some()
                {
                    let worker = worker_of(engine, model, names, head)?;
                    engine.host.workers[worker].segments[path.router] = Some(segment);
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
    segment: &Segment,
    engine: &Engine,
) -> Result<()> {
    let conditions = match segment.output {
        Output::Queue(queue) => Some(engine.host.network.has_admission(queue, path.router)),
        Output::Port(_) => None,
    };
    let problem = match (segment.drop_ps, conditions) {
        (Some(_), None) => "drop_ns needs a queue behind the stage",
        (None, Some(true)) => "the queue behind it has an admission, so it needs drop_ns",
        _ => return Ok(()),
    };
    Err(Error::wrong(format!("stage {}", model.stages[head.index()].name), problem))
}

/// What is done from this stage on until the next queue, and where the path goes on behind it.
fn segment(
    model: &Model,
    names: &Names,
    path: &Path,
    from: usize,
    engine: &Engine,
) -> (Segment, usize) {
    let mut stages = Vec::new();
    let mut at = from;
    let output = loop {
        match path.nodes[at] {
            Node::Stage(stage) if at == from || names.queue_of[stage].is_none() => {
                stages.push(stage);
                at += 1;
            }
            Node::Stage(stage) => {
                break Output::Queue(names.queue_of[stage].expect("it has a queue"));
            }
            Node::Port(port) => break Output::Port(port),
            Node::Ring(_) => unreachable!("a ring follows a port only"),
        }
    };
    let sum = |cost: fn(&crate::engine::names::StageInfo) -> u64| {
        stages.iter().map(|&stage| cost(&engine.stages[stage])).sum()
    };
    let captures =
        stages.iter().copied().filter(|&stage| model.stages[stage.index()].capture).collect();
    let segment = Segment {
        frame_ps: sum(|stage| stage.frame_ps),
        byte_ps: sum(|stage| stage.byte_ps),
        cold_ps: sum(|stage| stage.cold_ps),
        drop_ps: engine.stages[stages[0]].drop_ps,
        output,
        captures,
        stages,
        account: SegmentAccount::default(),
    };
    (segment, at)
}

/// What a router's senders do: its path's first stage, and what follows without a queue.
pub(super) fn sender_segment(
    engine: &Engine,
    model: &Model,
    names: &Names,
    router: RouterId,
) -> Result<Option<(StageId, Segment)>> {
    let path = resolve(names, router, &model.routers[router.index()])?;
    match path.nodes.first() {
        Some(&Node::Stage(stage)) => Ok(Some((stage, segment(model, names, &path, 0, engine).0))),
        _ => Ok(None),
    }
}

/// A worker that takes as much at a time as a poll may, and that has no stage yet.
pub(super) fn plain_worker(engine: &Engine, input: Input) -> Worker {
    Worker::new(input, engine.host.cpu.softirq_rules().weight, engine.names.routers.len())
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
    let network = &mut engine.host.network;
    let (input, known) = match (&of.ring, names.queue_of[stage]) {
        (Some(ring), _) => {
            let ring = names.rings.find(&element, "ring", ring)?;
            (Input::Ring(ring), *network.poller_of_ring(ring))
        }
        (None, Some(queue)) => (Input::Queue(queue), *network.server_of_queue(queue)),
        (None, None) => unreachable!("only stages with a ring or a queue"),
    };
    if let Some(known) = known {
        if engine.host.workers[known].stage != Some(stage) {
            return Err(Error::wrong(element, "another stage serves its ring already"));
        }
        return Ok(known);
    }
    let info = &engine.stages[stage];
    let mut worker = plain_worker(engine, input);
    worker.poll_ps = info.poll_ps;
    worker.stage = Some(stage);
    worker.batch = of.batch.unwrap_or(worker.batch);
    let id = engine.host.add_worker(info.context, worker);
    match input {
        Input::Ring(ring) => *engine.host.network.poller_of_ring(ring) = Some(id),
        Input::Queue(queue) => {
            *engine.host.network.server_of_queue(queue) = Some(id);
            if let Some(backlog) = engine.host.network.backlog_of(queue) {
                add_poller(engine, &element, backlog, stage)?;
            }
        }
        Input::Backlog(_) | Input::Connection(_) | Input::Load(_) => {}
    }
    Ok(id)
}

/// Makes who polls a shared backlog, unless it is there: its polls cost what the first stage's would.
fn add_poller(
    engine: &mut Engine,
    element: &str,
    backlog: BacklogId,
    first: StageId,
) -> Result<()> {
    let context = engine.stages[first].context;
    if let Some(poller) = *engine.host.network.poller_of_backlog(backlog) {
        if engine.host.cpu.context_of(poller) == context {
            return Ok(());
        }
        let name = engine.host.network.shared_backlog(backlog).name();
        return Err(Error::wrong(element, format!("{name} is shared in another context")));
    }
    let mut worker = plain_worker(engine, Input::Backlog(backlog));
    worker.poll_ps = engine.stages[first].poll_ps;
    worker.stage = Some(first);
    let id = engine.host.add_worker(context, worker);
    *engine.host.network.poller_of_backlog(backlog) = Some(id);
    Ok(())
}

/// Where this router's path begins: its open-loop traffic enters there.
pub(super) fn entrance(model: &Model, names: &Names, router: RouterId) -> Result<Option<Node>> {
    let path = resolve(names, router, &model.routers[router.index()])?;
    Ok(path.nodes.first().copied())
}

/// Where it ends.
pub(super) fn exit(model: &Model, names: &Names, router: RouterId) -> Result<Option<Node>> {
    let path = resolve(names, router, &model.routers[router.index()])?;
    Ok(path.nodes.last().copied())
}
