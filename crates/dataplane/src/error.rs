//! What can go wrong between here and the kernel.

use std::{io, path::PathBuf};

use libbpf_rs::MapCore;

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
    /// This process may not open as many files as a program and its tables take: that says nothing
    /// about the kernel.
    #[error(
        "too many open files: the BPF program '{program}' takes up to {DESCRIPTORS} descriptors, and \
         this process may open {limit} files in all; raise that limit (ulimit -n 1024)"
    )]
    Descriptors {
        /// Name of the program family, as in `bpf/`.
        program: &'static str,
        /// `RLIMIT_NOFILE` of this process.
        limit: u64,
    },
    /// Signals came all the time while the kernel checked a program: that says nothing about it.
    #[error(
        "the loading of the BPF program '{program}' was interrupted by signals again and again, as a \
         profiler or debugger sends them; try again without it"
    )]
    Interrupted {
        /// Name of the program family, as in `bpf/`.
        program: &'static str,
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
    /// Called out of order, or a program of `bpf/` that is not what this crate expects: a bug of
    /// this crate or its caller, told instead of a panic.
    #[error("{0}")]
    State(&'static str),
}

/// Descriptors that loading one program family takes at most: programs, tables, links, and what
/// libbpf tries the kernel out with.
pub(crate) const DESCRIPTORS: usize = 100;

/// Keeps libbpf from writing to stderr: errors carry the kernel's reason.
pub fn silence_libbpf() {
    libbpf_rs::set_print(None);
}

impl Error {
    /// What the kernel said when it refused an entry of a table.
    pub(crate) fn table(map: &impl MapCore, error: &libbpf_rs::Error) -> Self {
        Self::Table { name: map.name().to_string_lossy().into_owned(), reason: one_line(error) }
    }
}

/// The first line of a libbpf error chain: the reason, without the verifier's log.
pub(crate) fn one_line(error: &libbpf_rs::Error) -> String {
    format!("{error:#}")
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or("unknown reason")
        .to_owned()
}
