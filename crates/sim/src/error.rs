//! What can be wrong with a model.

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Bad input. Each names its element.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not JSON, a key unknown or missing, or a value of the wrong type.
    #[error("model: {0}")]
    Format(String),
    /// A cost that is needed.
    #[error("{element}: {key} is missing")]
    Missing {
        /// Kind and name of the thing.
        element: String,
        /// Which key.
        key: &'static str,
    },
    /// A value outside its range.
    #[error("{element}: {key}: {value} is not possible; accepted: {accepted}")]
    Range {
        /// Kind and name of the thing.
        element: String,
        /// Which key.
        key: &'static str,
        /// What was asked.
        value: String,
        /// What would do.
        accepted: &'static str,
    },
    /// A name that nothing has.
    #[error("{element}: {key}: there is no {kind} `{name}`; there are: {known}")]
    Unknown {
        /// Kind and name of the thing.
        element: String,
        /// Which key.
        key: &'static str,
        /// What the name should be of.
        kind: &'static str,
        /// The name.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// A name that two things have.
    #[error("{kind} `{name}` is there twice")]
    Twice {
        /// What they are.
        kind: &'static str,
        /// Their name.
        name: String,
    },
    /// A path, or two together, that leads back to where it was.
    #[error("router {router}: the path has a cycle: {cycle}")]
    Cycle {
        /// Whose path.
        router: String,
        /// The names on the way round.
        cycle: String,
    },
    /// Things that do not fit together.
    #[error("{element}: {problem}")]
    Wrong {
        /// Kind and name of the thing.
        element: String,
        /// What does not fit.
        problem: String,
    },
}

impl Error {
    pub(crate) fn wrong(element: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Wrong { element: element.into(), problem: problem.into() }
    }
}
