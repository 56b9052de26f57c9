//! What decides about the requests of a window.

/// What decides about one key in one span.
pub(super) trait Decider {
    /// Decides about a request; instants do not decrease.
    fn decide(&mut self, at: u64, region: usize) -> bool;

    /// Ends the window that ends at this instant, and returns what it cost.
    fn end_window(&mut self, end: u64) -> Traffic;
}

/// What a window of a key cost between regions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Traffic {
    pub(super) calls: u64,
    /// The regions that asked for units.
    pub(super) buyers: u64,
}

pub(super) fn admit(used: &mut u64, limit: u64) -> bool {
    let is_admitted = *used < limit;
    *used += u64::from(is_admitted);
    is_admitted
}
