//! The engine of the playground as a library: the idea of each scene that is built in, and the texts of its lanes.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[rustfmt::skip]
#[allow(unreachable_pub, clippy::type_complexity, clippy::unnecessary_wraps, reason = "people paste what is in it")]
mod layers;
mod mistakes;
mod outputs;
mod result;
mod scenes;
mod states;
