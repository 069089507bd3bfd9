//! The CPU: cores, the contexts that run on them, and who is next.
//!
//! A core has at most one piece of work at hand, with the time at which it is done; the engine takes
//! the earliest of all cores' and of the events, so that nothing needs to be undone. What a piece of work is, the
//! CPU does not know: where a core needs more of a poll, it asks ([`Ask`]), and [`super::frame_path`] answers.

pub(crate) mod context;
pub(crate) mod core;
pub(crate) mod credit;
mod dispatch;
pub(crate) mod fair;
mod schedule;
mod softirq;
mod state;
mod work;

pub(crate) use self::{
    state::Cpu,
    work::{Ask, Job, PS, Polled, Work},
};
