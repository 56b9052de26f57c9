//! Counts messages in the process, and charges them in batches.

use std::fmt;
use std::sync::Arc;

use portcullis_core::StoreError;
use portcullis_core::store::Outcome;

use super::Limited;
use crate::Charge;

/// Counts the messages of one stream in this process, and calls the store once for a batch of units. Made by
/// [`Charge::meter`].
///
/// Units are charged **in advance**: no message passes that was not charged before, so all streams together never use more
/// units than the policies have admitted. At any time at most `batch - 1` units of a stream are charged and not used, which other
/// streams of the same key cannot use meanwhile. So a unit may be used later than it is charged, in the next period of its
/// policy: in any one period a stream uses at most `batch - 1` units more than were admitted in it. [`finish`](Self::finish) and
/// a drop return what is left.
///
/// Near the limit, where a batch does not fit, messages are charged one by one, so that none is denied that fits. Then the
/// batches double again up to their size. A batch emits [`ChargedMore`](crate::EventKind::ChargedMore), or
/// [`ChargeDenied`](crate::EventKind::ChargeDenied) if it does not fit; a message that is charged by itself emits what
/// [`Charge::check`] does. A policy that queues has no batches, since each message waits for its own slot.
///
/// A batch is part of the [`Charge`], and refunded or settled with it, once its last unit is used or it is returned.
///
/// ```
/// use portcullis::testing::{self, ManualClock};
/// use portcullis::{Policy, Quota};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let limiter = testing::limiter(&ManualClock::default());
/// let messages = Policy::fixed_window("messages", Quota::per_minute(100));
/// let charge = limiter.check(&messages).by(|key| key.part("user", b"ada")).cost(0).await?;
/// let mut meter = charge.meter(40);
/// for _ in 0..50 {
///     meter.check(1).await?;
/// }
/// let left = async || charge.check(0).await.map(|decision| decision.remaining());
/// assert_eq!(left().await?, 20, "two batches");
/// meter.finish().await?;
/// assert_eq!(left().await?, 50);
/// # Ok(())
/// # }
/// ```
#[must_use = "a meter counts nothing by itself"]
pub struct Meter {
    charge: Charge,
    batch: u64,
    /// The size of the next batch.
    next: u64,
    /// Units that are charged and not used, all of them in `current`.
    credit: u64,
    current: Option<Outcome>,
}

impl Meter {
    pub(super) fn new(charge: Charge, batch: u64) -> Self {
        Self { charge, batch, next: batch, credit: 0, current: None }
    }

    /// Checks a message that costs `units`. Calls the store only if the current batch has fewer.
    ///
    /// # Errors
    ///
    /// If the message is rejected, as by [`Charge::check`]. What is left of the batch stays for smaller messages.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, a batch may stay charged that is not used.
    pub async fn check(&mut self, units: u64) -> Result<(), Limited> {
        let missing = units.saturating_sub(self.credit);
        if missing == 0 {
            self.credit = self.credit.saturating_sub(units);
            return Ok(());
        }
        let ahead = if self.next > missing { self.charge.charge_ahead(self.next).await } else { None };
        if let Some(ahead) = ahead {
            self.credit = self.next.saturating_sub(missing);
            self.start_batch(Some(ahead));
        } else {
            if self.next > missing {
                self.next = 1;
            }
            drop(self.charge.check(missing).await?);
            self.credit = 0;
            self.start_batch(None);
        }
        self.next = self.next.saturating_mul(2).clamp(1, self.batch.max(1));
        Ok(())
    }

    /// Returns the units that are charged and not used, in this batch.
    pub fn credit(&self) -> u64 {
        self.credit
    }

    /// Refunds what is left of the batch, under each policy.
    ///
    /// # Errors
    ///
    /// If the store cannot answer: the units may stay charged.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped once it was polled, the units may stay charged.
    pub async fn finish(mut self) -> Result<(), StoreError> {
        match self.take_unused() {
            Some((ahead, unused)) => self.charge.return_unused(ahead, unused).await,
            None => Ok(()),
        }
    }

    /// Replaces the batch, whose units are all used.
    fn start_batch(&mut self, batch: Option<Outcome>) {
        if let Some(used) = std::mem::replace(&mut self.current, batch) {
            self.charge.record(used);
        }
    }

    fn take_unused(&mut self) -> Option<(Outcome, u64)> {
        let unused = std::mem::take(&mut self.credit);
        self.current.take().map(|current| (current, unused))
    }
}

impl Drop for Meter {
    /// Refunds what is left of the batch in a task of the tokio runtime. Without a runtime, or beyond 1 024 such tasks of a
    /// limiter, it stays charged.
    fn drop(&mut self) {
        let Some((ahead, unused)) = self.take_unused() else { return };
        if unused == 0 {
            return self.charge.record(ahead);
        }
        let charge = self.charge.clone();
        let limits = Arc::clone(&self.charge.config().limits);
        limits.detach(async move {
            // The events tell of it.
            let _ = charge.return_unused(ahead, unused).await;
        });
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meter")
            .field("batch", &self.batch)
            .field("credit", &self.credit)
            .finish_non_exhaustive()
    }
}
