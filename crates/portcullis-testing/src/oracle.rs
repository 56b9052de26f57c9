//! What is right, computed another way.
//!
//! Nothing here uses the arithmetic of `portcullis-core`: quantities are exact fractions over the period of the quota, in
//! 128 bits, decisions follow from what was charged and when, and waits are found by trying.
//!
//! - [`Model`] is a quota with the algorithm that is meant by it; [`Model::promise`] holds a log of admissions against
//!   what the algorithm promises about every window, and says how far the promise was reached; [`Model::net_promise`] does
//!   so with refunds, and [`Model::outflow`] with the requests that a queue lets through.
//! - [`Reference`] is a [`SystemUnderTest`](crate::SystemUnderTest) that decides by definition. It is for time that does not go backwards
//!   and quotas that do not change.

mod entries;
mod ledger;
mod level;
mod net;
mod outflow;
mod positions;
mod promise;
mod reference;
mod refills;
mod slots;
mod windows;

use portcullis_core::{
    Anchor, FixedWindow, Gcra, LeakyBucket, Quota, QuotaError, Refill, SlidingLog, SlidingWindow, Strategy,
    TokenBucket,
};

pub use net::Event;
pub use promise::{Admission, Broken, Reached};
pub use reference::Reference;

/// A quota and the algorithm that is meant by it.
///
/// ```
/// use portcullis_core::{Anchor, Quota};
/// use portcullis_testing::oracle::Model;
///
/// let model = Model::fixed_window(Quota::per_minute(5), Anchor::FirstRequest);
/// assert_eq!(model.strategy()?.tag(), "fixed_window");
/// # Ok::<(), portcullis_core::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    pub(crate) quota: Quota,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Tokens,
    Refills,
    Spacing,
    Queue,
    Windows(Anchor),
    Slots(u32),
    Entries,
}

impl Model {
    /// A bucket of tokens; without a burst, as many as the limit.
    pub const fn token_bucket(quota: Quota, refill: Refill) -> Self {
        let kind = match refill {
            Refill::Greedy => Kind::Tokens,
            Refill::Interval => Kind::Refills,
        };
        Self { quota, kind }
    }

    /// Evenly spaced requests; without a burst, one of 1.
    pub const fn gcra(quota: Quota) -> Self {
        Self { quota, kind: Kind::Spacing }
    }

    /// A queue; without a burst, it holds as many units as the limit.
    pub const fn leaky_bucket(quota: Quota) -> Self {
        Self { quota, kind: Kind::Queue }
    }

    /// A count per window.
    pub const fn fixed_window(quota: Quota, anchor: Anchor) -> Self {
        Self { quota, kind: Kind::Windows(anchor) }
    }

    /// A count per slot, so many in a period.
    pub const fn sliding_window(quota: Quota, slots: u32) -> Self {
        Self { quota, kind: Kind::Slots(slots) }
    }

    /// Every unit with its time.
    pub const fn sliding_log(quota: Quota) -> Self {
        Self { quota, kind: Kind::Entries }
    }

    /// The same in terms of `portcullis-core`.
    ///
    /// # Errors
    ///
    /// If the quota exceeds a bound of its strategy.
    pub fn strategy(&self) -> Result<Strategy, QuotaError> {
        let quota = self.quota;
        Ok(match self.kind {
            Kind::Tokens => Strategy::TokenBucket(TokenBucket::new(quota)?),
            Kind::Refills => Strategy::TokenBucket(TokenBucket::new(quota)?.refilled(Refill::Interval)),
            Kind::Spacing => Strategy::Gcra(Gcra::new(quota)?),
            Kind::Queue => Strategy::LeakyBucket(LeakyBucket::new(quota)?),
            Kind::Windows(anchor) => Strategy::FixedWindow(FixedWindow::new(quota)?.anchored(anchor)),
            Kind::Slots(slots) => Strategy::SlidingWindow(SlidingWindow::with_slots(quota, slots)?),
            Kind::Entries => Strategy::SlidingLog(SlidingLog::new(quota)?),
        })
    }

    /// The most units at one instant.
    pub(crate) fn most_at_once(&self) -> u32 {
        let limit = self.quota.limit();
        match self.kind {
            Kind::Spacing => self.quota.asked_burst().unwrap_or(1),
            Kind::Tokens | Kind::Refills | Kind::Queue => self.quota.asked_burst().unwrap_or(limit),
            Kind::Windows(_) | Kind::Slots(_) | Kind::Entries => limit,
        }
    }

    /// In microseconds.
    pub(crate) fn period(&self) -> u64 {
        u64::try_from(self.quota.period().as_micros()).expect("a quota bounds its period")
    }
}
