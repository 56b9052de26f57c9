//! The request of a client: its head as the limits and the upstream see it, its body, its progress, and its place.

mod activity;
mod body;
mod place;
mod prepare;

pub(super) use activity::Activity;
pub(super) use body::{BodyError, RequestBody};
pub(super) use place::{Place, RequestPlace, Stream};
pub(super) use prepare::{Prepared, add_via, prepare};
