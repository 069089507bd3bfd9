//! What keeps a client from starting; what happens to single requests is in [`crate::Failure`].

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What keeps a client from starting.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A value of the plan.
    #[error("{what} {value} of the plan; accepted: {accepted}")]
    Plan {
        /// Which one.
        what: &'static str,
        /// As it was given.
        value: u64,
        /// What would be accepted.
        accepted: &'static str,
    },
    /// The kernel refused a call that no request can do without.
    #[error("{call}: {source}")]
    Kernel {
        /// Which call.
        call: &'static str,
        /// Why.
        source: rustix::io::Errno,
    },
}

impl Error {
    pub(crate) fn kernel(call: &'static str) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |source| Self::Kernel { call, source }
    }
}
