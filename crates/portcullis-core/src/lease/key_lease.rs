//! What one process has in lease of one key.

use core::time::Duration;

use super::grant::{Answer, Grant, Returned, Spend};
use crate::algorithm::Snapshot;
use crate::store::Run;
use crate::{Strategy, Timestamp};

/// The units that one process has in lease of one key under one policy.
///
/// See the [module](crate::lease) for the protocol and its bound.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyLease {
    strategy: Strategy,
    max: u64,
    grant: Option<Grant>,
    /// Units of a call that is not answered yet.
    asked: u64,
    /// Units of refunds that are not answered yet.
    returning: u64,
    /// Answers to calls that were sent up to this instant are dropped.
    reset: Option<Duration>,
}

impl KeyLease {
    /// No lease of a key under a policy with this strategy, which allows at most `max` units per process and key.
    pub const fn new(strategy: Strategy, max: u64) -> Self {
        Self { strategy, max, grant: None, asked: 0, returning: 0, reset: None }
    }

    /// Takes a cost from the lease at the instant `now` of the process's clock. Returns `None`, and takes nothing, if the cost is
    /// 0 or exceeds the lease, if the lease has expired, or if it was charged under another quota.
    pub fn spend(&mut self, strategy: &Strategy, cost: u64, now: Duration) -> Option<Spend> {
        if *strategy != self.strategy {
            return None;
        }
        self.grant.as_mut()?.spend(strategy, cost, now)
    }

    /// Takes back units that were [spent](KeyLease::spend), because another policy has denied the request or because its
    /// charge is refunded.
    ///
    /// Returns false if the lease that they were spent from has ended, or if more than the maximum would be in lease. They
    /// have to be refunded at the store then.
    #[must_use = "units that are not taken back have to be refunded at the store"]
    pub fn put_back(&mut self, run: Run, now: Duration) -> bool {
        if self.in_lease().saturating_add(run.units) > self.max {
            return false;
        }
        let live = self.grant.as_mut().filter(|grant| grant.is_live(now));
        live.is_some_and(|grant| grant.put_back(&self.strategy, run))
    }

    /// The estimated instant on the store's clock, and the figures that the store has reported after it charged the lease, counted
    /// down; `None` without a lease.
    pub fn figures(&self, now: Duration) -> Option<(Timestamp, Snapshot)> {
        self.grant.as_ref().map(|grant| grant.figures(now))
    }

    /// Records what the store has answered at its instant `at` to a check without units for a lease: from now on the
    /// [figures](KeyLease::figures) are those, so that a lease does not show what others have used since. An answer that is older
    /// than the figures changes nothing.
    pub fn update(&mut self, at: Timestamp, snapshot: Snapshot, now: Duration) {
        if let Some(grant) = &mut self.grant {
            grant.update(at, snapshot, now);
        }
    }

    /// The most units that [`ask`](KeyLease::ask) accepts: 0 while a call with units for a lease is on its way.
    pub fn room(&self) -> u64 {
        if self.asked > 0 { 0 } else { self.max.saturating_sub(self.in_lease()) }
    }

    /// Records that a call is about to charge `units` for the lease, at most [`room`](KeyLease::room). Returns how many it may
    /// charge. Unless that is 0, [`granted`](KeyLease::granted) or [`not_granted`](KeyLease::not_granted) has to follow.
    #[must_use = "only this number may be charged"]
    pub fn ask(&mut self, units: u64) -> u64 {
        let units = units.min(self.room());
        self.asked = self.asked.saturating_add(units);
        units
    }

    /// The units of the call that is on its way; 0 if there is none.
    pub const fn asked(&self) -> u64 {
        self.asked
    }

    /// Adds the units that the store has charged under `strategy`. Returns units to refund: the rest of an older lease, or the new
    /// ones if they have expired already or the quota has changed. Drops them if the key was [reset](KeyLease::reset) since.
    pub fn granted(&mut self, strategy: &Strategy, answer: Answer, now: Duration) -> Option<Returned> {
        self.asked = 0;
        if self.reset.is_some_and(|reset| answer.sent <= reset) {
            return None;
        }
        let grant = Grant::new(strategy, answer, now);
        let rest = if *strategy == self.strategy && grant.is_live(now) {
            self.grant.replace(grant)
        } else {
            Some(grant)
        };
        self.give_up(rest, *strategy)
    }

    /// Records that the store has charged nothing for the lease, or that this is unknown. In the second case the units may stay
    /// charged, and are not spent.
    pub const fn not_granted(&mut self) {
        self.asked = 0;
    }

    /// Ends the lease if it has expired, and returns what is left of it.
    pub fn take_expired(&mut self, now: Duration) -> Option<Returned> {
        if self.grant.as_ref().is_some_and(|grant| grant.is_live(now)) {
            return None;
        }
        self.take()
    }

    /// Ends the lease, and returns what is left of it.
    pub fn take(&mut self) -> Option<Returned> {
        let rest = self.grant.take();
        self.give_up(rest, self.strategy)
    }

    /// Records that units are being refunded that were [spent](KeyLease::spend) for a request which another policy has denied, and that
    /// could not be [put back](KeyLease::put_back). They count as in lease until they are [returned](KeyLease::returned).
    ///
    /// Not for units of an admitted request, which its policy has promised.
    pub const fn refunding(&mut self, units: u64) {
        self.returning = self.returning.saturating_add(units);
    }

    /// Records that the refund of this number of units has ended, whatever its result.
    pub const fn returned(&mut self, units: u64) {
        self.returning = self.returning.saturating_sub(units);
    }

    /// Changes the quota and the maximum. A lease that was charged under another quota ends, and what is left of it is returned.
    pub fn adapt(&mut self, strategy: &Strategy, max: u64) -> Option<Returned> {
        self.max = max;
        if *strategy == self.strategy {
            return None;
        }
        let rest = self.take();
        self.strategy = *strategy;
        rest
    }

    /// Drops the lease, and the answers to calls that were sent up to now: the key's state is removed from the store, so that
    /// there is nothing to refund.
    pub fn reset(&mut self, now: Duration) {
        self.grant = None;
        self.reset = Some(now);
    }

    /// The units that are left to spend, if the lease has not expired.
    pub fn unspent(&self) -> u64 {
        self.grant.as_ref().map_or(0, Grant::unspent)
    }

    /// The units that count against the maximum: unspent, asked for, or being refunded. They exceed it by no more than units that were
    /// spent for requests which another policy has denied after the lease was replaced.
    pub fn in_lease(&self) -> u64 {
        self.unspent().saturating_add(self.asked).saturating_add(self.returning)
    }

    /// The instant at which the lease expires, if there is one.
    pub fn until(&self) -> Option<Duration> {
        self.grant.as_ref().map(Grant::until)
    }

    /// Whether there is no lease, and no call for one or refund of one on its way.
    pub const fn is_idle(&self) -> bool {
        self.grant.is_none() && self.asked == 0 && self.returning == 0
    }

    fn give_up(&mut self, rest: Option<Grant>, strategy: Strategy) -> Option<Returned> {
        let returned = rest?.into_returned(&strategy)?;
        self.returning = self.returning.saturating_add(returned.units());
        Some(returned)
    }
}
