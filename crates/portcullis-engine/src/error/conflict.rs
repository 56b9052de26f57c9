//! Two different policies under one name.

use std::fmt;

use portcullis_core::algorithm::Meter;
use portcullis_core::{Anchor, Policy, Quota, Refill, Strategy};

use super::LayerError;

/// Two different policies under one name.
///
/// The message states how they differ:
///
/// ```
/// use portcullis::key::Global;
/// use portcullis::{Limiter, Policy, PolicyExt as _, Quota};
///
/// let limiter = Limiter::memory();
/// let login = |limit| Policy::fixed_window("login", Quota::per_minute(limit)).by(Global);
/// let layer = limiter.layer(login(5));
/// let mistakes = limiter.try_layer([login(6)]).unwrap_err();
/// assert_eq!(
///     mistakes.to_string(),
///     "two different policies are named login: fixed_window 5/min is registered, fixed_window 6/min is refused"
/// );
/// # drop(layer);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "two different policies are named {}: {} is registered, {} is refused",
    .0[0].name(), Described::new(&.0[0], &.0[1]), Described::new(&.0[1], &.0[0])
)]
pub struct PolicyConflict(Box<[Policy; 2]>);

impl PolicyConflict {
    pub(crate) fn check(registered: &Policy, policy: &Policy) -> Result<(), LayerError> {
        if registered == policy {
            return Ok(());
        }
        Err(Self::new(registered, policy).into())
    }

    pub(super) fn new(registered: &Policy, policy: &Policy) -> Self {
        Self(Box::new([registered.clone(), policy.clone()]))
    }

    /// Both policies, by what distinguishes them.
    pub(super) fn described(&self) -> [impl fmt::Display; 2] {
        [Described::new(&self.0[0], &self.0[1]), Described::new(&self.0[1], &self.0[0])]
    }

    /// Returns the policy that is registered, and stays.
    pub fn registered(&self) -> &Policy {
        &self.0[0]
    }

    /// Returns the policy that is refused.
    pub fn refused(&self) -> &Policy {
        &self.0[1]
    }
}

/// Prints the strategy of a policy, and its failure mode, lease and wait if another policy has different ones.
#[expect(clippy::struct_excessive_bools, reason = "each is about a setting of its own")]
struct Described<'a> {
    policy: &'a Policy,
    shows_failure_mode: bool,
    shows_lease: bool,
    shows_wait: bool,
    shows_debt: bool,
    shows_caller_quotas: bool,
    shows_overrides: bool,
}

impl<'a> Described<'a> {
    fn new(policy: &'a Policy, other: &Policy) -> Self {
        let shows_failure_mode = policy.failure_mode() != other.failure_mode();
        let shows_wait = policy.max_wait() != other.max_wait();
        let shows_debt = policy.max_debt() != other.max_debt();
        let shows_lease = policy.max_lease() != other.max_lease();
        let shows_caller_quotas = policy.quota_range() != other.quota_range();
        let shows_overrides = policy.reads_overrides() != other.reads_overrides();
        Self {
            policy,
            shows_failure_mode,
            shows_lease,
            shows_wait,
            shows_debt,
            shows_caller_quotas,
            shows_overrides,
        }
    }
}

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let strategy = self.policy.strategy();
        if self.policy.is_unlimited() || strategy.limit() == 0 {
            return write!(f, "{strategy}");
        }
        write!(f, "{} ", strategy.tag())?;
        match strategy {
            Strategy::TokenBucket(bucket) => {
                write_rate(f, bucket.meter())?;
                if bucket.refill() == Refill::Interval {
                    f.write_str(" with interval refill")?;
                }
            }
            Strategy::Gcra(gcra) => write_rate(f, gcra.meter())?,
            Strategy::LeakyBucket(bucket) => write_rate(f, bucket.meter())?,
            Strategy::FixedWindow(window) => {
                write_quota(f, Quota::new(window.limit(), window.period(), None))?;
                match window.anchor() {
                    Anchor::Epoch => {}
                    Anchor::FirstRequest => f.write_str(" from the first request")?,
                    Anchor::Instant(instant) => write!(f, " from {} us", instant.as_micros())?,
                }
            }
            Strategy::CalendarWindow(window) => {
                write!(f, "{} per window, {}", window.limit(), window.table().name())?;
            }
            Strategy::SlidingWindow(window) => {
                write_quota(f, Quota::new(window.limit(), window.period(), None))?;
                write!(f, " in {} slots", window.slots())?;
            }
            Strategy::SlidingLog(log) => write_quota(f, Quota::new(log.limit(), log.period(), None))?,
            Strategy::InFlight(limit) => write!(f, "{} with a lease of {:?}", limit.limit(), limit.lease())?,
        }
        if self.shows_failure_mode {
            write!(f, " (on store failure: {})", self.policy.failure_mode())?;
        }
        match self.policy.max_lease() {
            Some(units) if self.shows_lease => write!(f, " (lease of {units})")?,
            None if self.shows_lease => f.write_str(" (no lease)")?,
            _ => {}
        }
        match self.policy.max_wait() {
            Some(wait) if self.shows_wait => write!(f, " (wait of at most {wait:?})")?,
            None if self.shows_wait => f.write_str(" (no wait)")?,
            _ => {}
        }
        match self.policy.max_debt() {
            Some(units) if self.shows_debt => write!(f, " (debt of at most {units})")?,
            None if self.shows_debt => f.write_str(" (debt of one burst or limit)")?,
            _ => {}
        }
        match self.policy.quota_range() {
            Some((smallest, largest)) if self.shows_caller_quotas => {
                write!(f, " (callers from {smallest} to {largest})")?;
            }
            None if self.shows_caller_quotas => f.write_str(" (no quotas of single callers)")?,
            _ => {}
        }
        if self.shows_overrides {
            f.write_str(if self.policy.reads_overrides() {
                " (with overrides)"
            } else {
                " (without overrides)"
            })?;
        }
        Ok(())
    }
}

fn write_quota(f: &mut fmt::Formatter<'_>, quota: Result<Quota, impl fmt::Debug>) -> fmt::Result {
    let quota = quota.expect("a strategy has the limit and the period of a quota");
    write!(f, "{quota}")
}

/// A meter keeps its rate in lowest terms, so it is printed per shortest unit of time in which a whole number of units is
/// replenished: 5 in 15 minutes are `20/h`.
fn write_rate(f: &mut fmt::Formatter<'_>, meter: &Meter) -> fmt::Result {
    let denominator = u128::from(meter.denominator());
    let burst = u128::from(meter.burst());
    let capacity = meter.capacity();
    let interval =
        (u128::from(capacity.micros) * denominator + u128::from(capacity.remainder)) / burst.max(1);
    let whole = UNITS.into_iter().find(|(_, micros)| (micros * denominator).is_multiple_of(interval.max(1)));
    match whole {
        Some((unit, micros)) => write!(f, "{}/{unit}", micros * denominator / interval.max(1))?,
        None => write!(f, "{denominator}/{interval}us")?,
    }
    write!(f, " burst {burst}")
}

/// With their lengths in microseconds.
const UNITS: [(&str, u128); 5] = [
    ("s", 1_000_000),
    ("min", 60_000_000),
    ("h", 3_600_000_000),
    ("d", 86_400_000_000),
    ("w", 604_800_000_000),
];

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use portcullis_core::{FailureMode, FixedWindow, SlidingWindow, Timestamp, TokenBucket};

    use super::*;

    fn described(strategy: Strategy) -> String {
        let policy = Policy::literal("p", strategy);
        Described::new(&policy, &policy).to_string()
    }

    #[test]
    fn rates_are_printed_per_shortest_whole_unit() {
        for (quota, expected) in [
            (Quota::per_second(1), "gcra 1/s burst 1"),
            (Quota::per_second(10).burst(20), "gcra 10/s burst 20"),
            (Quota::per_minute(90).burst(3), "gcra 90/min burst 3"),
            (Quota::per(5, Duration::from_mins(15)), "gcra 20/h burst 1"),
            (Quota::per_week(1), "gcra 1/w burst 1"),
            (Quota::per(1, Duration::from_hours(400 * 24)), "gcra 1/34560000000000us burst 1"),
            (Quota::per(3, Duration::from_micros(11)).burst(2), "gcra 3/11us burst 2"),
        ] {
            assert_eq!(described(*Policy::gcra("p", quota).strategy()), expected);
        }
    }

    #[test]
    fn parameters_of_every_strategy_are_printed() {
        let five = Quota::per_minute(5);
        let at = Timestamp::from_micros(7);
        for (strategy, expected) in [
            (
                Strategy::TokenBucket(TokenBucket::new(five).unwrap().refilled(Refill::Interval)),
                "token_bucket 5/min burst 5 with interval refill",
            ),
            (*Policy::leaky_bucket("p", five).strategy(), "leaky_bucket 5/min burst 5"),
            (*Policy::fixed_window("p", five).strategy(), "fixed_window 5/min"),
            (
                Strategy::FixedWindow(FixedWindow::new(five).unwrap().anchored(Anchor::FirstRequest)),
                "fixed_window 5/min from the first request",
            ),
            (
                Strategy::FixedWindow(FixedWindow::new(five).unwrap().anchored(Anchor::Instant(at))),
                "fixed_window 5/min from 7 us",
            ),
            (
                Strategy::SlidingWindow(SlidingWindow::with_slots(five, 6).unwrap()),
                "sliding_window 5/min in 6 slots",
            ),
            (*Policy::sliding_log("p", five).strategy(), "sliding_log 5/min"),
        ] {
            assert_eq!(described(strategy), expected);
        }
    }

    #[test]
    fn failure_modes_are_printed_where_they_differ() {
        let local = Policy::gcra("p", Quota::per_second(1));
        let closed = local.clone().on_store_failure(FailureMode::Closed);
        let conflict = PolicyConflict(Box::new([local, closed]));
        assert_eq!(
            conflict.to_string(),
            "two different policies are named p: gcra 1/s burst 1 (on store failure: local, whole limit) is registered, \
             gcra 1/s burst 1 (on store failure: closed) is refused"
        );
    }

    #[test]
    fn longest_waits_are_printed_where_they_differ() {
        let rejects = Policy::gcra("p", Quota::per_second(1));
        let waits = rejects.clone().wait_at_most(Duration::from_secs(2));
        assert_eq!(
            PolicyConflict(Box::new([rejects, waits])).to_string(),
            "two different policies are named p: gcra 1/s burst 1 (no wait) is registered, gcra 1/s burst 1 (wait of at most \
             2s) is refused"
        );
    }

    #[test]
    fn debts_and_quotas_of_callers_are_printed_where_they_differ() {
        let plain = Policy::gcra("p", Quota::per_second(1));
        let debt = plain.clone().allow_debt(5).caller_quotas(Quota::per_second(1), Quota::per_second(9));
        assert_eq!(
            PolicyConflict(Box::new([plain, debt])).to_string(),
            "two different policies are named p: gcra 1/s burst 1 (debt of one burst or limit) (no quotas of single callers) \
             is registered, gcra 1/s burst 1 (debt of at most 5) (callers from 1/s to 9/s) is refused"
        );
    }
}
