//! What can go wrong between here and the kernel.

use std::{io, path::PathBuf};

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Bad input, or a kernel that refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting that cannot be carried out.
    #[error("{key}: {value} is not possible; accepted: {accepted}")]
    Spec {
        /// Which setting.
        key: &'static str,
        /// What was asked.
        value: String,
        /// What would do.
        accepted: String,
    },
    /// The kernel refused a program.
    #[error("the kernel refused the BPF program '{program}', which needs {feature}: {reason}")]
    Load {
        /// Name of the program family, as in `bpf/`.
        program: &'static str,
        /// The kernel feature that it rests on.
        feature: &'static str,
        /// The kernel's or libbpf's reason, one line.
        reason: String,
    },
    /// A program could not be put on an interface.
    #[error("cannot attach a program to interface {interface}: {reason}")]
    Attach {
        /// Its name in its namespace.
        interface: String,
        /// Why.
        reason: String,
    },
    /// A table of a program refused an entry.
    #[error("the table {name} refused an entry: {reason}")]
    Table {
        /// Name of the map.
        name: String,
        /// Why.
        reason: String,
    },
    /// A network namespace could not be entered.
    #[error("cannot enter network namespace {path}: {source}")]
    Netns {
        /// Its file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A core that the generator cannot be put on.
    #[error("cannot run on core {core}: {source}")]
    Core {
        /// The core asked for.
        core: usize,
        /// Why.
        source: io::Error,
    },
    /// The kernel ended the generator's run.
    #[error("the kernel ended the generator: {source}")]
    Run {
        /// Why.
        source: io::Error,
    },
    /// Something called out of order: our bug, told to the caller instead of a panic.
    #[error("{0}")]
    State(&'static str),
}

/// The last line of a libbpf error chain, without the verifier's dump.
pub(crate) fn one_line(error: &libbpf_rs::Error) -> String {
    format!("{error:#}")
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or("unknown reason")
        .to_owned()
}
