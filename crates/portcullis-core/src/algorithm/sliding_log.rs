//! The sliding window log: every admitted unit with its timestamp.

mod log;

use core::num::NonZeroU32;
use core::time::Duration;

pub use log::{Log, LogView};

use self::log::LiveRuns;
use super::debt::{Debt, impl_debt};
use super::{Algorithm, Evaluation, Figures, ForcedCharge, Snapshot, answer, sealed::Sealed, share};
use crate::charge::{Position, Run};
use crate::refund::Refund;
use crate::{Quota, QuotaError, Timestamp};

/// A sliding window log: exactly `limit` units in any period, at any instant.
///
/// A unit charged at `t` counts from `t` until just before `t + period`. Only admitted units are kept, at most `limit` (and
/// the [debt](crate::Policy::allow_debt) that a forced charge leaves): one stamp per unit in Redis, one per instant in memory. A client whose
/// requests of cost 1 are farther apart than `period / limit` is never denied.
///
/// Mirrors: `lua/sliding_log.lua` of `portcullis-redis`.
///
/// ```
/// use portcullis::store::{SlidingLog, Strategy};
/// use portcullis::{Quota, Timestamp};
///
/// let log = Strategy::from(SlidingLog::new(Quota::per_minute(2))?);
/// let at = |seconds: u64| Timestamp::from_micros(seconds * 1_000_000);
/// let mut state = None;
/// log.charge(&mut state, at(1), 1);
/// log.charge(&mut state, at(30), 1);
/// assert!(!log.evaluate(state.as_ref(), at(50), 1).admitted);
/// assert!(log.evaluate(state.as_ref(), at(61), 1).admitted);
/// # Ok::<(), portcullis::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlidingLog {
    limit: u64,
    period: u64,
    debt: Debt,
}

impl SlidingLog {
    /// The highest limit. Beyond it the memory per key is out of proportion to the exactness.
    pub const MAX_LIMIT: u64 = 100_000;

    /// A log for `quota`.
    ///
    /// # Errors
    ///
    /// If the quota has a burst, which logs do not support, or if the limit exceeds [`MAX_LIMIT`](Self::MAX_LIMIT).
    pub const fn new(quota: Quota) -> Result<Self, QuotaError> {
        if let Some(burst) = quota.explicit_burst() {
            return Err(QuotaError::BurstNotSupported { burst });
        }
        if quota.limit() > Self::MAX_LIMIT && !quota.is_unlimited() {
            return Err(QuotaError::LogTooLong { limit: quota.limit() });
        }
        Ok(Self { limit: quota.limit(), period: quota.period_micros(), debt: Debt::DEFAULT })
    }

    pub(crate) const fn share(&self, instances: NonZeroU32) -> Result<Self, QuotaError> {
        match share(self.limit, self.period, instances) {
            Ok((limit, period)) => Ok(Self { limit, period, debt: self.debt.share(instances) }),
            Err(error) => Err(error),
        }
    }

    /// Units in any period.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The most units that settlements leave in a log: the limit and the largest [debt](crate::Policy::allow_debt), by default twice
    /// the limit.
    pub const fn ceiling(&self) -> u64 {
        self.debt.beyond(self.limit)
    }

    /// The length of the window, in whole microseconds.
    pub const fn period(&self) -> Duration {
        Duration::from_micros(self.period)
    }

    /// The part of a log that a [snapshot](Self::snapshot_of) for `cost` needs: a few stamps instead of all. `None` if no unit
    /// counts at `now`.
    pub fn view(&self, log: Option<&Log>, now: Timestamp, cost: u64) -> Option<LogView> {
        let live = self.live(log, now)?;
        let (used, limit) = (live.len(), self.limit);
        let fits = used.saturating_add(cost).checked_sub(limit).and_then(|last| last.checked_sub(1));
        Some(LogView {
            used,
            // Under a limit of zero the newest one.
            next: live.stamp(used.saturating_sub(limit.max(1))).unwrap_or(0),
            newest: live.newest(),
            fits: fits.and_then(|index| live.stamp(index)).unwrap_or(0),
        })
    }

    /// `snapshot` of the strategy, computed from a [view](Self::view) of the log for the same instant and cost.
    pub fn snapshot_of(&self, view: Option<LogView>, now: Timestamp, cost: u64, admitted: bool) -> Snapshot {
        self.figures_of(view, now, cost, admitted).into()
    }

    fn figures_of(&self, view: Option<LogView>, now: Timestamp, cost: u64, admitted: bool) -> Figures {
        let LogView { used, next, newest, fits } = view.unwrap_or_default();
        let until = |stamp: u64| {
            let wait = stamp.saturating_add(self.period).saturating_sub(now.as_micros());
            if used > 0 { wait } else { 0 }
        };
        let (answer, wait) = answer(admitted, cost, self.limit, || until(fits));
        Figures {
            limit: self.limit,
            remaining: self.limit.saturating_sub(used),
            reset_after: until(newest),
            next_after: until(next),
            wait,
            answer,
        }
    }

    /// `position` of the strategy, computed from a view of the log.
    pub fn position_of(&self, view: Option<LogView>, now: Timestamp) -> Position {
        Position::at(view.map_or(0, |view| view.newest).max(now.as_micros()))
    }

    /// `expires_at` of the strategy, computed from a view of the log.
    pub const fn expiry_of(&self, view: LogView) -> u64 {
        view.newest.saturating_add(self.period)
    }

    /// The units of a forced charge of `units` that exceed the debt limit of a log with `used` units.
    pub fn uncharged(&self, used: u64, units: u64) -> u64 {
        units.saturating_sub(self.ceiling().saturating_sub(used))
    }

    /// The number of bytes by which a charge at `now` makes the memory of a log grow.
    pub(crate) fn growth(&self, log: Option<&Log>, now: Timestamp) -> usize {
        match (self.live(log, now), log) {
            // An unlimited one keeps none.
            _ if self.limit > Self::MAX_LIMIT => 0,
            (Some(live), _) if live.newest() >= now.as_micros() => 0,
            (Some(live), Some(log)) => log.growth(live.trim().first, self.limit),
            (None, Some(log)) => log.growth(usize::MAX, self.limit),
            (_, None) => Log::default().growth(0, self.limit),
        }
    }

    /// Frees space for a charge in the memory that the log has.
    pub(crate) fn compact(&self, state: &mut Option<Log>, now: Timestamp) {
        self.advance(state, now);
        if self.growth(state.as_ref(), now) > 0
            && let Some(log) = state
        {
            log.coarsen(self.period);
        }
    }

    fn live<'s>(&self, log: Option<&'s Log>, now: Timestamp) -> Option<LiveRuns<'s>> {
        log?.live(now.as_micros(), self.period)
    }

    /// The number of units that count, and whether the clock has stepped.
    fn used(&self, log: Option<&Log>, now: Timestamp) -> (u64, bool) {
        self.live(log, now).map_or((0, false), |live| (live.len(), live.clock_stepped()))
    }
}

impl_debt!(SlidingLog, SlidingLog::MAX_LIMIT);

impl Sealed for SlidingLog {}

impl Algorithm for SlidingLog {
    type State = Log;

    fn evaluate(&self, state: Option<&Log>, now: Timestamp, cost: u64) -> Evaluation {
        let (used, repair) = self.used(state, now);
        let admitted = cost == 0 || used.saturating_add(cost) <= self.limit;
        Evaluation { admitted, repair }
    }

    fn advance(&self, state: &mut Option<Log>, now: Timestamp) {
        let trim = self.live(state.as_ref(), now).map(|live| live.trim());
        match (trim, state.as_mut()) {
            (Some(trim), Some(log)) => log.trim(trim),
            _ => *state = None,
        }
    }

    fn charge(&self, state: &mut Option<Log>, now: Timestamp, units: u64) {
        let trim = self.live(state.as_ref(), now).map(|live| live.trim());
        let log = state.get_or_insert_default();
        match trim {
            Some(trim) => log.trim(trim),
            None => log.clear(),
        }
        log.append(now.as_micros(), units, self.limit);
    }

    fn refund(&self, state: &mut Option<Log>, now: Timestamp, refund: Refund<'_>) -> bool {
        let mut changed = self.used(state.as_ref(), now).1;
        if changed {
            // Lowered stamps may merge runs, so the run of an instant is searched afterwards.
            self.advance(state, now);
        }
        for Run { units, position } in refund.runs() {
            let Some(live) = self.live(state.as_ref(), now) else { break };
            let Some(held) = live.run(position.micros) else { continue };
            changed = true;
            self.advance(state, now);
            if let Some(log) = state {
                log.remove(held, units);
            }
        }
        if changed {
            self.advance(state, now);
        }
        changed
    }

    fn force_charge(&self, state: &mut Option<Log>, now: Timestamp, units: u64) -> ForcedCharge {
        let (used, repair) = self.used(state.as_ref(), now);
        let uncharged = self.uncharged(used, units);
        let charged = units.saturating_sub(uncharged);
        if charged > 0 {
            self.charge(state, now, charged);
        } else if repair {
            self.advance(state, now);
        }
        ForcedCharge { charged, uncharged, changed: repair || charged > 0 }
    }

    fn figures(&self, state: Option<&Log>, now: Timestamp, cost: u64, admitted: bool) -> Figures {
        self.figures_of(self.view(state, now, cost), now, cost, admitted)
    }

    fn position(&self, state: Option<&Log>, now: Timestamp) -> Position {
        Position::at(state.and_then(Log::newest).unwrap_or(0).max(now.as_micros()))
    }

    fn expires_at(&self, state: &Log) -> u64 {
        state.newest().map_or(0, |newest| newest.saturating_add(self.period))
    }
}

#[cfg(test)]
mod tests;
