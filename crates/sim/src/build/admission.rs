//! What routers must keep to get into a queue.

use isolane_sched::TokenBucket;

use super::{names::Names, require};
use crate::{
    engine::network::admission::{Admission, Admissions, Budget, Pressure},
    error::{Error, Result},
    model,
};

/// What each router's frames must keep. `limit`: what the queue holds of each.
pub(super) fn admissions(
    element: &str,
    names: &Names,
    all: &[model::Admission],
    limit: u32,
) -> Result<Admissions> {
    let mut admissions = Admissions::default();
    for one in all {
        let router = names.routers.find(element, "router", &one.router)?;
        let element = format!("{element}: admission of {}", one.router);
        if admissions.has(router) {
            return Err(Error::wrong(element, "it is given twice"));
        }
        admissions.add(router, admission(&element, names, one, limit)?);
    }
    Ok(admissions)
}

fn admission(
    element: &str,
    names: &Names,
    one: &model::Admission,
    limit: u32,
) -> Result<Admission> {
    let capacity = one.capacity.unwrap_or(limit);
    let burst = one.burst.unwrap_or(capacity);
    require((1..=limit).contains(&capacity), element, "capacity", capacity, "1 to the queue's")?;
    require(
        (capacity..=limit).contains(&burst),
        element,
        "burst",
        burst,
        "capacity to the queue's",
    )?;
    Ok(Admission {
        capacity: capacity as usize,
        burst: burst as usize,
        pressure: Pressure::default(),
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
