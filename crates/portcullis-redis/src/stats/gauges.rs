//! The state of connections at one instant.

use std::ops::Add;

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

impl Add for Gauges {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            links: self.links + other.links,
            connected: self.connected + other.connected,
            open: self.open + other.open,
            probing: self.probing + other.probing,
            in_flight: self.in_flight + other.in_flight,
            in_flight_limit: self.in_flight_limit + other.in_flight_limit,
            waiting: self.waiting + other.waiting,
            uncombined: self.uncombined + other.uncombined,
        }
    }
}
