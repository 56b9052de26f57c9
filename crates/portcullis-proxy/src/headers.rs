//! The header fields that a proxy removes and writes.

pub(super) mod forwarded;
pub(super) mod hop_by_hop;
