//! Requests in turns: their paths, how they begin, and what begins after them.

use super::{
    names::{Names, Node},
    paths, require,
};
use crate::{
    engine::{
        Engine, NEVER,
        frame::Mark,
        ids::{FlowId, Id, PortId, RingId, RouterId},
        requests::{RequestFlow, Turn},
    },
    error::{Error, Result},
    model::{self, Begin, FrameBytes, Model, Pattern, Traffic},
};

/// What the pattern of such an entry says.
pub(super) struct Asked<'a> {
    pub(super) begin: &'a Begin,
    pub(super) turns: &'a [model::Turn],
    pub(super) again_ns: u64,
}

/// Where requests come in by the wire, at which router, and how they follow each other there.
pub(super) type Source = (RingId, RouterId, Pattern);

/// Adds an entry's requests; those that begin at a rate need a source.
pub(super) fn add(
    engine: &mut Engine,
    model: &Model,
    names: &Names,
    (flow, traffic): (FlowId, &Traffic),
    asked: &Asked,
) -> Result<Option<Source>> {
    let element = &format!("traffic {}", traffic.name);
    let turns = asked
        .turns
        .iter()
        .map(|turn| built(engine, model, names, element, turn))
        .collect::<Result<Vec<Turn>>>()?;
    let number = turns.len();
    require((1..=Mark::MAX).contains(&number), element, "turns", number, "1 to 32767")?;
    let first = turns[0];
    let same = matches!(traffic.frame_bytes, FrameBytes::Fixed(bytes) if bytes == first.bytes);
    require(same, element, "frame_bytes", first.bytes, "what the first of the turns has")?;
    let start_ns = traffic.start_ns;
    let closed = match *asked.begin {
        Begin::Closed { requests } => {
            require((1..=65_536).contains(&requests), element, "requests", requests, "1 to 65536")?;
            Some((requests, start_ns))
        }
        Begin::Cbr { .. } | Begin::Poisson { .. } | Begin::After { .. } => None,
    };
    let of = RequestFlow {
        turns,
        again_ns: asked.again_ns,
        stop_ns: traffic.stop_ns.unwrap_or(NEVER),
        closed,
        followers: Vec::new(),
    };
    engine.host.requests.add(flow, of, model.traffic.len());
    let pattern = match *asked.begin {
        Begin::Cbr { rate_pps } => Pattern::Cbr { rate_pps },
        Begin::Poisson { rate_pps } => Pattern::Poisson { rate_pps },
        Begin::Closed { .. } | Begin::After { .. } => return Ok(None),
    };
    Ok(Some((first.ring, first.router, pattern)))
}

fn built(
    engine: &mut Engine,
    model: &Model,
    names: &Names,
    element: &str,
    turn: &model::Turn,
) -> Result<Turn> {
    let router = names.routers.find(element, "turns", &turn.router)?;
    let (ring, port) = ends(model, names, element, router)?;
    let bytes = turn.frame_bytes;
    require((1..=16_384).contains(&bytes), element, "frame_bytes", bytes, "1 to 16384 bytes")?;
    engine.host.network.tell_requests(port);
    Ok(Turn { ring, router, bytes, outside_ns: turn.outside_ns, busy_ns: turn.busy_ns })
}

/// The ring by which a turn's frame comes in, and the port by which it goes out.
fn ends(model: &Model, names: &Names, element: &str, router: RouterId) -> Result<(RingId, PortId)> {
    let both = (paths::entrance(model, names, router)?, paths::exit(model, names, router)?);
    let (Some(Node::Ring(ring)), Some(Node::Port(port))) = both else {
        let name = &model.routers[router.index()].name;
        let problem = format!("the path of {name} does not lead from a ring to a port");
        return Err(Error::wrong(element, problem));
    };
    Ok((ring, port))
}

/// Once all entries are there: which begin after which.
pub(super) fn follow(
    engine: &mut Engine,
    names: &Names,
    flow: FlowId,
    element: &str,
    traffic: &str,
) -> Result<()> {
    let answered = names.traffic.find(element, "begin", traffic)?;
    if engine.host.requests.follow(flow, answered) {
        return Ok(());
    }
    Err(Error::wrong(element, format!("{traffic}, after which it begins, has no requests")))
}
