//! A host as a discrete-event model: cores that run one context at a time, CPU schedulers, NICs, queues,
//! and the paths that frames take through them.
//!
//! Pure: no clock, no I/O, no randomness but that of the model's seed, and nothing that differs from
//! machine to machine; the same model gives the same results, to the byte. Receive livelock, unfairness
//! and starvation are not in it anywhere: they follow from who may interrupt whom.
//!
//! ```
//! let model: isolane_sim::Model = isolane_sim::parse(r#"{
//!     "duration_ns": 1000000000,
//!     "ports": [{"name": "link", "rate_bps": 500000000, "capacity": 1000}],
//!     "routers": [{"name": "r", "path": ["link"]}],
//!     "traffic": [{"name": "t", "router": "r", "frame_bytes": 64,
//!                  "pattern": {"kind": "cbr", "rate_pps": 1000000}}]
//! }"#)?;
//! let results = isolane_sim::run(&model, &mut || false)?;
//! let flow = &results.flows[0];
//! assert_eq!(flow.received.frames, 744_047); // 500 Mbit/s, 84 bytes a frame on the wire
//! assert_eq!(flow.offered.frames, flow.received.frames + flow.drops["link"] + flow.left);
//! # Ok::<(), isolane_sim::Error>(())
//! ```
#![forbid(unsafe_code)]

mod build;
mod engine;
mod error;
pub mod model;
mod random;
pub mod results;

pub use error::{Error, Result};
pub(crate) use isolane_histogram as histogram;
pub use isolane_histogram::Histogram;
pub use model::Model;
pub use results::Results;

/// Reads a model.
pub fn parse(json: &str) -> Result<Model> {
    serde_json::from_str(json).map_err(|error| Error::Format(error.to_string()))
}

/// Simulates the model. `stop` is asked every now and then; when it says so, the results are those
/// so far.
pub fn run(model: &Model, stop: &mut dyn FnMut() -> bool) -> Result<Results> {
    let mut engine = build::engine(model)?;
    let finished = engine.run(stop);
    Ok(engine.results(finished))
}

/// The results as JSON.
///
/// # Panics
/// Never: they are names and numbers.
#[must_use]
pub fn to_json(results: &Results) -> String {
    serde_json::to_string(results).expect("names and numbers only")
}
