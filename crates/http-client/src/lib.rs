//! A client that sends HTTP/1.1 requests at exact times, and tells how long each took from its
//! intended time: what a user waits for, however late the client or the server is (no coordinated
//! omission). One thread, as many connections as are needed; in a closed loop as many requests as
//! the server can answer.
//!
//! Every request of the window is accounted for: offered = answered + failed, each failure with its
//! reason; what this host itself ran out of is a reason of its own.
#![forbid(unsafe_code)]

mod answer;
mod client;
mod connection;
mod error;
mod plan;
mod report;
mod schedule;

pub use answer::{Answer, Malformed};
pub use client::{Control, run};
pub use error::{Error, Result};
pub use plan::{Arrivals, Plan};
pub use report::{Failure, Report};
pub use schedule::Schedule;
