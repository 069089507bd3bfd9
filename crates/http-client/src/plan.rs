//! What a client is asked to do.

use std::net::SocketAddr;

use crate::{Error, Result};

/// When requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Open loop: each request has its time, whatever became of those before it.
    Open {
        /// Thousandths of a request a second.
        rate_millirps: u64,
        /// Times between requests are exponential if there is a seed, else equal.
        poisson_seed: Option<u64>,
    },
    /// Closed loop: so many requests are under way at any time.
    Closed {
        /// How many.
        requests: usize,
    },
}

/// The requests of a client: one path of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The server.
    pub server: SocketAddr,
    /// Of the header `Host`.
    pub host: String,
    /// Path and query.
    pub path: String,
    /// When requests are sent.
    pub arrivals: Arrivals,
    /// Whether a connection takes more than one request.
    pub keep_alive: bool,
    /// Connections with a request under way, at most; a request that is due waits for one.
    pub max_connections: usize,
    /// When the warm-up begins, ns of `CLOCK_MONOTONIC`; None: at once.
    pub start_ns: Option<u64>,
    /// Time before the window, ns: its requests count for nothing.
    pub warm_up_ns: u64,
    /// Time whose requests count, ns.
    pub window_ns: u64,
    /// A request fails so long after its intended time, ns.
    pub timeout_ns: u64,
    /// Whether the thread has a core to itself: then it does not sleep while answers are awaited, so
    /// that no wake-up is in their latency, nor in the time of who sends them. At an ordinary priority:
    /// before others it would keep the softirq thread of its core from handing it the answers.
    pub own_core: bool,
}

impl Plan {
    /// Checks what the types do not.
    pub fn check(&self) -> Result<()> {
        let (what, value, accepted) = match self.arrivals {
            Arrivals::Open { rate_millirps: 0, .. } => ("rate", 0, "at least 0.001 requests/s"),
            Arrivals::Closed { requests: 0 } => ("requests", 0, "at least 1"),
            _ if self.max_connections == 0 => ("max_connections", 0, "at least 1"),
            _ if self.window_ns == 0 => ("window_ns", 0, "at least 1"),
            _ if self.timeout_ns == 0 => ("timeout_ns", 0, "at least 1"),
            _ => return Ok(()),
        };
        Err(Error::Plan { what, value, accepted })
    }

    /// The request as it is sent.
    pub(crate) fn request(&self) -> Vec<u8> {
        let connection = if self.keep_alive { "keep-alive" } else { "close" };
        format!(
            "GET {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: isolane\r\nAccept: */*\r\nConnection: {connection}\r\n\r\n",
            self.path, self.host
        )
        .into_bytes()
    }
}
