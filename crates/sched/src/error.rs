//! What a caller can ask for that is not possible.

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Bad input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A value outside its range.
    #[error("{key}: {value} is not possible; accepted: {accepted}")]
    Range {
        /// Which setting.
        key: &'static str,
        /// What was asked.
        value: u64,
        /// What would do.
        accepted: &'static str,
    },
    /// A flow that the scheduler does not have.
    #[error("flow {flow} does not exist; accepted: 0 to {last}")]
    NoSuchFlow {
        /// What was asked.
        flow: u32,
        /// The last one there is.
        last: u32,
    },
    /// A setting that would have no effect.
    #[error("{key}: {scheduler} does not use it; leave it at its default")]
    NotUsed {
        /// Which setting.
        key: &'static str,
        /// The kind of scheduler.
        scheduler: &'static str,
    },
}

/// `Ok` where `holds`.
pub(crate) fn require(
    holds: bool,
    key: &'static str,
    value: u64,
    accepted: &'static str,
) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::Range { key, value, accepted }) }
}
