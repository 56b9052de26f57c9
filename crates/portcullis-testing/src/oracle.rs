//! What is right, computed another way.
//!
//! Nothing here uses the arithmetic of `portcullis-core`: quantities are exact fractions over the period of the quota, in
//! 128 bits, and decisions follow from the log of everything that was charged.
//!
//! - [`Model`] is a quota with the algorithm that is meant by it; [`Model::promise`] holds a log of admissions against
//!   what the algorithm promises about every window, and says how far the promise was reached.
//! - [`Reference`] is a [`Subject`](crate::Subject) that decides from the full log by definition. It is for time that does
//!   not go backwards and quotas that do not change.

mod ledger;
mod meter;
mod promise;
mod reference;
mod windows;

use portcullis_core::{Anchor, FixedWindow, Gcra, Quota, QuotaError, Strategy};

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
    Meter,
    Windows(Anchor),
}

impl Model {
    /// Evenly spaced requests; without a burst, one of 1.
    pub const fn gcra(quota: Quota) -> Self {
        Self { quota, kind: Kind::Meter }
    }

    /// A count per window.
    pub const fn fixed_window(quota: Quota, anchor: Anchor) -> Self {
        Self { quota, kind: Kind::Windows(anchor) }
    }

    /// The same in terms of `portcullis-core`.
    ///
    /// # Errors
    ///
    /// If the quota exceeds a bound of its strategy.
    pub const fn strategy(&self) -> Result<Strategy, QuotaError> {
        match self.kind {
            Kind::Meter => match Gcra::new(self.quota) {
                Ok(gcra) => Ok(Strategy::Gcra(gcra)),
                Err(error) => Err(error),
            },
            Kind::Windows(anchor) => match FixedWindow::new(self.quota) {
                Ok(windows) => Ok(Strategy::FixedWindow(windows.anchored(anchor))),
                Err(error) => Err(error),
            },
        }
    }

    /// The most units at one instant.
    pub(crate) fn most_at_once(&self) -> u32 {
        match self.kind {
            Kind::Meter => self.quota.asked_burst().unwrap_or(1),
            Kind::Windows(_) => self.quota.limit(),
        }
    }

    /// In microseconds.
    pub(crate) fn period(&self) -> u64 {
        u64::try_from(self.quota.period().as_micros()).expect("a quota bounds its period")
    }
}
