//! The state of connections at one instant.

/// What connections do now, summed over them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gauges {
    /// The connections, whether or not they are up.
    pub(crate) links: u64,
    /// The connections that are up.
    pub(crate) connected: u64,
    /// The connections whose breaker is open.
    pub(crate) open: u64,
    /// The connections whose breaker is open, and has let a probe through.
    pub(crate) probing: u64,
    /// Calls that have a permit.
    pub(crate) in_flight: u64,
    /// The most calls that may have a permit.
    pub(crate) in_flight_limit: u64,
    /// Calls that wait for a permit.
    pub(crate) waiting: u64,
    /// Decisions that wait for a combined call.
    pub(crate) uncombined: u64,
}
