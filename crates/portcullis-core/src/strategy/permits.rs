//! The permits of a strategy that limits requests in flight.

use super::{Strategy, in_place};
use crate::Timestamp;
use crate::algorithm::{RenewedPermits, State};
use crate::charge::Run;

impl Strategy {
    /// See [`InFlight::renew`](crate::InFlight::renew). Other strategies have no permits: nothing is held, and the state does not change.
    pub fn renew(&self, state: &mut Option<State>, now: Timestamp, runs: &[Run]) -> RenewedPermits {
        match self {
            Self::InFlight(limit) => in_place(state, |inner| limit.renew(inner, now, runs)),
            Self::TokenBucket(_)
            | Self::Gcra(_)
            | Self::LeakyBucket(_)
            | Self::FixedWindow(_)
            | Self::CalendarWindow(_)
            | Self::SlidingWindow(_)
            | Self::SlidingLog(_) => RenewedPermits { held: 0, changed: false },
        }
    }
}
