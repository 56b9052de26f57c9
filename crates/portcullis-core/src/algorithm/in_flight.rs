//! Limits on requests in flight: permits that are held until they are released, or until they expire.

mod permits;

use core::num::NonZeroU32;
use core::time::Duration;

pub use permits::{Permit, Permits, PermitsView};

use super::{Algorithm, Evaluation, Figures, ForcedCharge, Snapshot, sealed::Sealed, snapshot::Answer};
use crate::charge::{Position, Run};
use crate::quota::UNLIMITED_UNITS;
use crate::refund::Refund;
use crate::{QuotaError, Timestamp};

/// A limit on requests in flight: at most `limit` permits are held at any instant. A distributed semaphore.
///
/// A charge takes one permit per unit, and a refund releases exactly the permits of its charge. A permit that is not released
/// expires at the end of its lease, unless it is [renewed](InFlight::renew) before: the permits of a process that has crashed come
/// back. A permit that has expired stays so. Refunds and renewals do not affect it, nor any permit that was taken later.
///
/// When a denied cost will fit depends on the requests that hold the permits, so a denial has
/// [no known wait](crate::Retry::Unknown).
///
/// ```
/// use portcullis::store::{InFlight, Refund, Run, Strategy};
/// use portcullis::{Retry, Timestamp};
///
/// let exports = Strategy::from(InFlight::new(1)?);
/// let at = |seconds: u64| Timestamp::from_micros(seconds * 1_000_000);
/// let mut state = None;
/// exports.charge(&mut state, at(0), 1);
/// let first = [Run { units: 1, position: exports.position(state.as_ref(), at(0)) }];
/// assert!(!exports.evaluate(state.as_ref(), at(29), 1).admitted);
/// assert_eq!(exports.snapshot(state.as_ref(), at(29), 1, false).retry, Some(Retry::Unknown));
///
/// exports.refund(&mut state, at(29), Refund::of(&first));
/// exports.charge(&mut state, at(29), 1);
/// // The first permit was released, so releasing it again does not release the second one.
/// assert!(!exports.refund(&mut state, at(30), Refund::of(&first)));
/// assert!(!exports.evaluate(state.as_ref(), at(30), 1).admitted);
/// # Ok::<(), portcullis::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InFlight {
    limit: u64,
    lease: u64,
}

/// The result of renewing permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
// Exhaustive: the protocol needs no more.
pub struct RenewedPermits {
    /// The number of permits that were held, and are now held for a whole lease.
    pub held: u64,
    /// Whether the state has changed.
    pub changed: bool,
}

impl InFlight {
    /// The highest limit. A state has 16 bytes per permit.
    pub const MAX_LIMIT: u64 = 1_000;
    /// The lease that is not set: 30 seconds.
    pub const DEFAULT_LEASE: Duration = Duration::from_secs(30);
    /// The shortest lease.
    pub const MIN_LEASE: Duration = Duration::from_secs(1);
    /// The longest lease.
    pub const MAX_LEASE: Duration = Duration::from_secs(3_600);

    /// At most `limit` permits, each with a lease of [`DEFAULT_LEASE`](Self::DEFAULT_LEASE).
    ///
    /// # Errors
    ///
    /// If `limit` is zero or more than [`MAX_LIMIT`](Self::MAX_LIMIT).
    pub const fn new(limit: u64) -> Result<Self, QuotaError> {
        if limit > Self::MAX_LIMIT && limit != UNLIMITED_UNITS {
            return Err(QuotaError::TooManyInFlight { limit });
        }
        Ok(Self { limit, lease: crate::time::saturating_micros(Self::DEFAULT_LEASE) })
    }

    /// Sets the lease: the time after which a permit expires that is neither released nor renewed.
    ///
    /// # Errors
    ///
    /// If `lease` is shorter than [`MIN_LEASE`](Self::MIN_LEASE), longer than [`MAX_LEASE`](Self::MAX_LEASE), or not a whole number of
    /// microseconds.
    pub const fn with_lease(self, lease: Duration) -> Result<Self, QuotaError> {
        let in_range =
            lease.as_nanos() >= Self::MIN_LEASE.as_nanos() && lease.as_nanos() <= Self::MAX_LEASE.as_nanos();
        if !in_range || !lease.subsec_nanos().is_multiple_of(NANOS_PER_MICRO) {
            return Err(QuotaError::InvalidLease(lease));
        }
        Ok(Self { lease: crate::time::saturating_micros(lease), ..self })
    }

    /// A permit cannot be divided, so each instance needs a whole one.
    #[expect(clippy::arithmetic_side_effects, reason = "instances are never zero")]
    pub(crate) const fn share(&self, instances: NonZeroU32) -> Result<Self, QuotaError> {
        match self.limit / instances.get() as u64 {
            0 => Err(QuotaError::ShareBelowOne { limit: self.limit }),
            limit => Ok(Self { limit, ..*self }),
        }
    }

    /// The highest number of permits that are held at any instant.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The time after which a permit expires that is neither released nor renewed; whole microseconds.
    pub const fn lease(&self) -> Duration {
        Duration::from_micros(self.lease)
    }

    /// Renews the permits of `runs`: those that are held at `now` expire a whole lease later. Permits that were released or have
    /// expired stay so. Without runs nothing happens, not even a repair.
    ///
    /// ```
    /// use portcullis::Timestamp;
    /// use portcullis::store::{InFlight, Run, Strategy};
    ///
    /// let exports = Strategy::from(InFlight::new(1)?);
    /// let at = |seconds: u64| Timestamp::from_micros(seconds * 1_000_000);
    /// let mut state = None;
    /// exports.charge(&mut state, at(0), 1);
    /// let held = [Run { units: 1, position: exports.position(state.as_ref(), at(0)) }];
    /// assert_eq!(exports.renew(&mut state, at(20), &held).held, 1);
    /// assert!(!exports.evaluate(state.as_ref(), at(49), 1).admitted);
    /// assert!(exports.evaluate(state.as_ref(), at(50), 1).admitted);
    /// assert_eq!(exports.renew(&mut state, at(50), &held).held, 0);
    /// # Ok::<(), portcullis::QuotaError>(())
    /// ```
    pub fn renew(&self, state: &mut Option<Permits>, now: Timestamp, runs: &[Run]) -> RenewedPermits {
        if runs.is_empty() {
            return RenewedPermits { held: 0, changed: false };
        }
        let (now, horizon) = self.instants(now);
        let mut changed = repair(state, now, horizon);
        let mut held: u64 = 0;
        if let Some(permits) = state.as_mut().filter(|permits| permits.expires_at() > now) {
            held = permits.renew(runs, now, horizon);
            changed |= held > 0;
        }
        RenewedPermits { held, changed }
    }

    /// The part of a state that the [figures](Self::snapshot_of) and the [position](Self::position_of) of a decision need. `None`
    /// if the state decides like none.
    pub fn view(&self, permits: Option<&Permits>, now: Timestamp) -> Option<PermitsView> {
        let (now, horizon) = self.instants(now);
        permits.and_then(|permits| permits.view(now, horizon))
    }

    /// `snapshot` of the strategy, computed from a [view](Self::view) of the state for the same instant.
    pub fn snapshot_of(
        &self,
        view: Option<PermitsView>,
        now: Timestamp,
        cost: u64,
        admitted: bool,
    ) -> Snapshot {
        self.figures_of(view, now, cost, admitted).into()
    }

    /// `position` of the strategy, computed from a view of the state.
    pub fn position_of(&self, view: Option<PermitsView>) -> Position {
        view.map_or_else(Position::default, |view| position(view.epoch, view.next))
    }

    fn figures_of(&self, view: Option<PermitsView>, now: Timestamp, cost: u64, admitted: bool) -> Figures {
        let (held, latest) = view.map_or((0, 0), |view| (view.held, view.latest));
        let answer = match (admitted, cost > self.limit) {
            (true, _) => Answer::Allow,
            (false, true) => Answer::RetryNever,
            (false, false) => Answer::RetryUnknown,
        };
        Figures {
            limit: self.limit,
            remaining: self.limit.saturating_sub(held),
            reset_after: latest.saturating_sub(now.as_micros()),
            next_after: 0,
            wait: 0,
            answer,
        }
    }

    /// The number of bytes by which a charge makes the memory of a state grow: a state has space for the whole limit from the start,
    /// and for twice that when a forced charge may need it.
    pub(crate) fn growth(&self, permits: Option<&Permits>, now: Timestamp) -> usize {
        // An unlimited one takes none.
        if self.limit > Self::MAX_LIMIT {
            return 0;
        }
        let (now, horizon) = self.instants(now);
        let held = permits.and_then(|permits| permits.view(now, horizon)).map_or(0, |view| view.held);
        let most = if held >= self.limit { self.limit.saturating_mul(2) } else { self.limit };
        Permits::growth(permits, most)
    }

    /// `now`, and the latest instant at which a permit may expire. In microseconds.
    fn instants(&self, now: Timestamp) -> (u64, u64) {
        (now.as_micros(), now.as_micros().saturating_add(self.lease))
    }

    /// The number of permits that can be taken, up to `most` in all.
    fn room(view: Option<&PermitsView>, most: u64) -> u64 {
        let (held, next) = view.map_or((0, FIRST), |view| (view.held, view.next));
        // After 2^53 permits none is taken until the state has expired, and its serial numbers begin anew.
        most.saturating_sub(held).min(END.saturating_sub(next))
    }

    fn take(&self, state: &mut Option<Permits>, now: Timestamp, units: u64) {
        self.advance(state, now);
        let (now, horizon) = self.instants(now);
        state.get_or_insert_with(|| Permits::begin(now, self.limit)).take(units, horizon, self.limit);
    }
}

impl Sealed for InFlight {}

impl Algorithm for InFlight {
    type State = Permits;

    fn evaluate(&self, state: Option<&Permits>, now: Timestamp, cost: u64) -> Evaluation {
        let (micros, horizon) = self.instants(now);
        let view = state.and_then(|permits| permits.view(micros, horizon));
        let admitted = cost == 0 || cost <= Self::room(view.as_ref(), self.limit);
        let repair = state.is_some_and(|permits| permits.expires_at() > horizon);
        Evaluation { admitted, repair }
    }

    fn advance(&self, state: &mut Option<Permits>, now: Timestamp) {
        let (now, horizon) = self.instants(now);
        match state {
            Some(permits) if permits.expires_at() > now => permits.advance(now, horizon),
            _ => *state = None,
        }
    }

    fn charge(&self, state: &mut Option<Permits>, now: Timestamp, units: u64) {
        self.take(state, now, units);
    }

    fn refund(&self, state: &mut Option<Permits>, now: Timestamp, refund: Refund<'_>) -> bool {
        let (micros, horizon) = self.instants(now);
        let mut changed = repair(state, micros, horizon);
        if let Some(permits) = state.as_mut().filter(|permits| permits.expires_at() > micros) {
            for run in refund.runs() {
                changed |= permits.release(run, micros);
            }
        }
        changed
    }

    fn force_charge(&self, state: &mut Option<Permits>, now: Timestamp, units: u64) -> ForcedCharge {
        let (micros, horizon) = self.instants(now);
        let view = self.view(state.as_ref(), now);
        let more = units.min(Self::room(view.as_ref(), self.limit.saturating_mul(2)));
        let mut changed = repair(state, micros, horizon);
        if more > 0 {
            self.take(state, now, more);
            changed = true;
        }
        ForcedCharge { charged: more, uncharged: units.saturating_sub(more), changed }
    }

    fn figures(&self, state: Option<&Permits>, now: Timestamp, cost: u64, admitted: bool) -> Figures {
        self.figures_of(self.view(state, now), now, cost, admitted)
    }

    fn position(&self, state: Option<&Permits>, _: Timestamp) -> Position {
        state.map_or_else(Position::default, |permits| position(permits.epoch(), permits.next()))
    }

    fn expires_at(&self, state: &Permits) -> u64 {
        state.expires_at()
    }
}

/// Repairs a state after a step of the clock. Returns whether it has changed.
fn repair(state: &mut Option<Permits>, now: u64, horizon: u64) -> bool {
    let Some(permits) = state.as_mut().filter(|permits| permits.expires_at() > horizon) else { return false };
    permits.advance(now, horizon);
    true
}

/// The position of the charge after which `next` is the next serial number.
const fn position(epoch: u64, next: u64) -> Position {
    Position { micros: epoch, remainder: next.saturating_sub(1) }
}

const NANOS_PER_MICRO: u32 = 1_000;
/// The first serial number of a state. No charge has the position 0.
const FIRST: u64 = 1;
/// The end of the serial numbers: below it, they are exact in a double.
const END: u64 = 1 << 53;

#[cfg(test)]
mod tests;
