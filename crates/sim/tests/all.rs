//! The crate's tests, one program: linked once, and what they share compiled once.

mod admission;
mod backlog;
mod conservation;
mod cpu;
mod model;
mod requests;
mod senders;
mod softirq;
mod support;
