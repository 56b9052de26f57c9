//! What a request asks for: its body, and the caller that it names.

pub(crate) mod bodies;
pub(crate) mod body;
pub(crate) mod target;
mod unique;
