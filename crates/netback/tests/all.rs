//! The crate's tests, one program: linked once, and what they share compiled once.

mod back_end;
mod driver;
mod protocol;
mod ring_properties;
mod rings;
mod session;
mod wire;
