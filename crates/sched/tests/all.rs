//! The crate's tests, one program: linked once, and what they share compiled once.

mod conservation;
mod fairness;
mod fluid;
mod priority;
mod rates;
mod settings;
mod support;
mod wrr;
