//! What became of the requests.

use std::collections::BTreeMap;

use isolane_histogram::Histogram;
use rustix::io::Errno;

/// Why a request has no answer that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The server's host refused the connection.
    Refused,
    /// The connection was reset.
    Reset,
    /// No complete answer before the time-out.
    TimedOut,
    /// The server closed the connection before the answer was complete.
    CutShort,
    /// What was sent is no HTTP.
    Malformed,
    /// A status code of 400 or more.
    Status,
    /// There is no way to the server.
    Unreachable,
    /// This host's limit: no port is left for another connection.
    OutOfPorts,
    /// This process's limit: it may not have more descriptors, or there is no memory for them.
    OutOfFiles,
}

impl Failure {
    /// All of them, in the order of [`Report::failed`].
    pub const ALL: [Self; 9] = [
        Self::Refused,
        Self::Reset,
        Self::TimedOut,
        Self::CutShort,
        Self::Malformed,
        Self::Status,
        Self::Unreachable,
        Self::OutOfPorts,
        Self::OutOfFiles,
    ];

    /// What an error of a socket says about the request on it.
    pub(crate) fn of(error: Errno) -> Self {
        match error {
            Errno::CONNREFUSED => Self::Refused,
            Errno::ADDRNOTAVAIL | Errno::ADDRINUSE => Self::OutOfPorts,
            Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM => Self::OutOfFiles,
            Errno::TIMEDOUT => Self::TimedOut,
            Errno::NETUNREACH
            | Errno::HOSTUNREACH
            | Errno::NETDOWN
            | Errno::ACCESS
            | Errno::PERM
            | Errno::INVAL => Self::Unreachable,
            _ => Self::Reset,
        }
    }
}

/// What became of the requests of a window. `offered` is the sum of `answered` and `failed`.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// How long the window was, ns; shorter than planned where the client was stopped.
    pub window_ns: u64,
    /// Requests whose intended time is in the window.
    pub offered: u64,
    /// Of these answered with a status below 400.
    pub answered: u64,
    /// Of these failed, in the order of [`Failure::ALL`].
    pub failed: [u64; Failure::ALL.len()],
    /// Status codes of those that failed by one, with their counts.
    pub statuses: BTreeMap<u16, u64>,
    /// Answers with a status below 400 that were complete within the window, whenever they were asked for.
    pub completed: u64,
    /// Bytes of their bodies.
    pub completed_bytes: u64,
    /// Connections that were begun for requests of the window.
    pub connections: u64,
    /// Requests of the window that were sent again, since a kept connection was closed just then.
    pub retried: u64,
    /// Requests under way, at most, when one of the window was begun.
    pub max_in_flight: usize,
    /// From a request's intended time to its answer's last byte.
    pub latency: Histogram,
    /// Sum of these times, ns.
    pub latency_sum_ns: u64,
    /// From the call to the established connection.
    pub connect: Histogram,
    /// From a request's intended time to its first call: what is the client's own doing.
    pub late: Histogram,
}

impl Report {
    /// Requests that failed.
    #[must_use]
    pub fn failed_in_all(&self) -> u64 {
        self.failed.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_host_runs_out_of_is_told_from_what_the_server_does() {
        assert_eq!(Failure::of(Errno::CONNREFUSED), Failure::Refused);
        assert_eq!(Failure::of(Errno::CONNRESET), Failure::Reset);
        assert_eq!(Failure::of(Errno::TIMEDOUT), Failure::TimedOut);
        assert_eq!(Failure::of(Errno::NETUNREACH), Failure::Unreachable);
        assert_eq!(Failure::of(Errno::ADDRNOTAVAIL), Failure::OutOfPorts);
        assert_eq!(Failure::of(Errno::MFILE), Failure::OutOfFiles);
        let numbers = Failure::ALL.map(|failure| failure as usize);
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 7, 8], "the order of the counts");
    }
}
