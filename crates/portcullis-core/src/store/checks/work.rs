//! The load that a decision puts on the server of a store.

use alloc::boxed::Box;
use core::fmt;

use super::Checks;
use crate::{Policy, PolicyName, SlidingWindow};

/// Policies whose [work](crate::Strategy::work) exceeds what one decision may take, [`Checks::MAX_WORK`].
///
/// ```
/// use portcullis::store::{SlidingWindow, Strategy, TooMuchWork};
/// use portcullis::{Policy, Quota};
///
/// let window = |name, slots| -> Result<_, portcullis::QuotaError> {
///     let window = SlidingWindow::with_slots(Quota::per_hour(100), slots)?;
///     Ok(Policy::literal(name, Strategy::SlidingWindow(window)))
/// };
/// assert!(TooMuchWork::check(&[window("fine", 600)?, window("coarse", 6)?]).is_ok());
/// let error = TooMuchWork::check(&[window("fine", 600)?, window("finer", 1_000)?]).unwrap_err();
/// assert_eq!(error.work(), 1_600);
/// # Ok::<(), portcullis::QuotaError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooMuchWork {
    policies: Box<[(PolicyName, u32)]>,
}

impl TooMuchWork {
    /// Adds up the work of the policies of one decision.
    ///
    /// # Errors
    ///
    /// If the sum exceeds [`Checks::MAX_WORK`].
    pub fn check<'p, I>(policies: I) -> Result<(), Self>
    where
        I: IntoIterator<Item = &'p Policy, IntoIter: Clone>,
    {
        let policies = policies.into_iter();
        if sum(policies.clone().map(|policy| policy.strategy().work())) <= Checks::MAX_WORK {
            return Ok(());
        }
        Err(Self {
            policies: policies.map(|policy| (policy.name().clone(), policy.strategy().work())).collect(),
        })
    }

    /// The policies, each with its work.
    pub fn policies(&self) -> impl ExactSizeIterator<Item = (&PolicyName, u32)> {
        self.policies.iter().map(|(policy, work)| (policy, *work))
    }

    /// The work of all policies together.
    pub fn work(&self) -> u32 {
        sum(self.policies().map(|(_, work)| work))
    }
}

impl fmt::Display for TooMuchWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} slots of work in one decision, which may have {}: ", self.work(), Checks::MAX_WORK)?;
        for (index, (policy, work)) in self.policies().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}policy {policy} has {work}")?;
        }
        f.write_str(
            "; use fewer slots per sliding window, or lower limits of sliding logs (100 units are a slot)",
        )
    }
}

impl core::error::Error for TooMuchWork {}

fn sum(work: impl Iterator<Item = u32>) -> u32 {
    work.fold(0, u32::saturating_add)
}

/// A single policy always fits: `Checks::one` cannot fail.
const _: () = assert!(SlidingWindow::MAX_SLOTS <= Checks::MAX_WORK, "one window fits into a decision");
