//! What routers must keep to get into a queue.

use isolane_sched::TokenBucket;

use super::{names::Names, require};
use crate::{
    engine::{
        admission::{Admission, Budget},
        ids::{Id, RouterId, Table},
    },
    error::{Error, Result},
    model,
};

/// By router; empty where all are welcome. `room`: what the queue holds of each.
pub(super) fn admissions(
    element: &str,
    names: &Names,
    all: &[model::Admission],
    room: u32,
) -> Result<Table<RouterId, Option<Box<Admission>>>> {
    let mut by_router = Table::default();
    for one in all {
        let router = names.routers.find(element, "router", &one.router)?;
        while by_router.len() <= router.index() {
            by_router.push(None);
        }
        let element = format!("{element}: admission of {}", one.router);
        if by_router[router].is_some() {
            return Err(Error::wrong(element, "it is given twice"));
        }
        by_router[router] = Some(Box::new(admission(&element, names, one, room)?));
    }
    Ok(by_router)
}

fn admission(element: &str, names: &Names, one: &model::Admission, room: u32) -> Result<Admission> {
    let capacity = one.capacity.unwrap_or(room);
    let burst = one.burst.unwrap_or(capacity);
    require((1..=room).contains(&capacity), element, "capacity", capacity, "1 to the queue's")?;
    require(
        (capacity..=room).contains(&burst),
        element,
        "burst",
        burst,
        "capacity to the queue's",
    )?;
    Ok(Admission {
        capacity: capacity as usize,
        burst: burst as usize,
        calm_ns: one.calm_ns,
        overflowed_ns: None,
        // A frame is a byte, and a byte takes 8 bits.
        frames: bucket(element, "rate_pps", one.rate_pps, "burst_frames", one.burst_frames, 8)?,
        bytes: bucket(element, "rate_bps", one.rate_bps, "burst_bytes", one.burst_bytes, 1)?,
        overhead_bytes: 20,
        budget: budget(element, names, one)?,
    })
}

#[expect(clippy::too_many_arguments, reason = "two keys with their values")]
fn bucket(
    element: &str,
    rate_key: &'static str,
    rate: Option<u64>,
    depth_key: &'static str,
    depth: Option<u32>,
    bits: u64,
) -> Result<Option<TokenBucket>> {
    let (rate, depth) = match (rate, depth) {
        (None, None) => return Ok(None),
        (Some(rate), Some(depth)) => (rate, depth),
        (None, Some(_)) => {
            return Err(Error::Missing { element: element.to_owned(), key: rate_key });
        }
        (Some(_), None) => {
            return Err(Error::Missing { element: element.to_owned(), key: depth_key });
        }
    };
    require((1..=1_000_000_000_000).contains(&rate), element, rate_key, rate, "1 to 10^12")?;
    require((1..=1 << 29).contains(&depth), element, depth_key, depth, "1 to 536870912")?;
    let bucket = TokenBucket::new(rate * bits, depth.into(), 0);
    bucket.map(Some).map_err(|error| Error::wrong(element, error.to_string()))
}

fn budget(element: &str, names: &Names, one: &model::Admission) -> Result<Option<Budget>> {
    let (context, percent) = match (&one.context, one.cpu_pct) {
        (None, None) => return Ok(None),
        (Some(context), Some(percent)) => (context, percent),
        (None, Some(_)) => {
            return Err(Error::Missing { element: element.to_owned(), key: "context" });
        }
        (Some(_), None) => {
            return Err(Error::Missing { element: element.to_owned(), key: "cpu_pct" });
        }
    };
    let possible = (0.01..=100_000.0).contains(&percent);
    require(possible, element, "cpu_pct", percent, "0.01 to 100000 percent")?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive, and at most 10^12"
    )]
    let rate_ns = (percent * 1e7).round() as u64;
    let depth_ns = one.cpu_burst_ns.unwrap_or(rate_ns / 100);
    require(depth_ns > 0, element, "cpu_burst_ns", depth_ns, "1 or more")?;
    Ok(Some(Budget {
        context: names.contexts.find(element, "context", context)?,
        rate_ns,
        depth_ns,
        left: i128::from(depth_ns) * 1_000_000_000,
        at_ns: 0,
        seen_ns: 0,
    }))
}
