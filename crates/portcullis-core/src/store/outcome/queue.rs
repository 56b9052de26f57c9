//! Slots in the queue of a rate-based policy.

use super::Outcome;
use crate::charge::Position;

impl Outcome {
    /// The index of the check that reserved a slot in a [queue](crate::Strategy::queues).
    ///
    /// Returns `None` if the request is denied, if no check of a policy with a queue was charged, or if more than one was: a
    /// request that waits for slots in several queues cannot take over a slot in one of them.
    ///
    /// ```
    /// use portcullis::store::{Check, CheckResult, Checks, Outcome};
    /// use portcullis::{Policy, Quota, Secret, Timestamp};
    ///
    /// let mut hasher = Secret::published().hasher();
    /// hasher.writer().part("user", b"ada");
    /// let key = hasher.finish()?;
    /// let now = Timestamp::EPOCH;
    /// let outcome = |checks: Checks| {
    ///     let asked = checks.clone();
    ///     let of = |check: &Check| {
    ///         let strategy = check.policy.strategy();
    ///         let mut state = None;
    ///         strategy.charge(&mut state, now, check.cost);
    ///         CheckResult::of(strategy, state.as_ref(), now, check.cost, true)
    ///     };
    ///     Outcome::new(checks, now, asked.iter().map(of)).expect("one result per check")
    /// };
    ///
    /// let day = Policy::fixed_window("day", Quota::per_day(1_000));
    /// let queue = Policy::leaky_bucket("queue", Quota::per_second(10));
    /// let alone = outcome(Checks::one(day.clone(), key, 1));
    /// assert_eq!(alone.queue_index(), None);
    /// let both = outcome(Checks::one(day, key, 1).and(queue, key, 1)?);
    /// assert_eq!(both.queue_index(), Some(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    // For the layer alone, which keeps the requests in the queues.
    #[doc(hidden)]
    pub fn queue_index(&self) -> Option<usize> {
        let charged = self.checks.iter().zip(self.decisions.iter()).map(|(check, decision)| {
            check.policy.strategy().queues() && check.cost > 0 && decision.is_metered()
        });
        let mut queues = charged.enumerate().filter_map(|(index, is_queue)| is_queue.then_some(index));
        let index = queues.next().filter(|_| self.is_allowed())?;
        queues.next().is_none().then_some(index)
    }

    /// The position of the charge of the check at `index`. It is meaningless if the check was not charged.
    ///
    /// Returns `None` if there is no such check.
    // For the layer alone, as above; a store has the position in its `CheckResult`.
    #[doc(hidden)]
    pub fn position(&self, index: usize) -> Option<Position> {
        self.positions.get(index).copied()
    }

    /// Moves the charge of the check at `index` to another position, so that its receipt refers to the charge at that position. For
    /// a request that takes over the slot of another request in a queue, charged under the same policy and key with the same cost.
    ///
    /// Returns the outcome unchanged if there is no such check.
    // For the layer alone, as above.
    #[doc(hidden)]
    pub fn with_position(mut self, index: usize, position: Position) -> Self {
        if let Some(own) = self.positions.get_mut(index) {
            *own = position;
        }
        self
    }
}
