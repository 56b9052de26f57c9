//! Quotas that would have rejected a given share of the requests.

use portcullis_core::algorithm::State;
use portcullis_core::{CalendarWindow, Policy, Quota, Refill, Strategy, Timestamp};
use serde::Serialize;

use super::store::{Charge, Recording};

/// The smallest quota of a policy that would have rejected at most a share of its requests.
///
/// The policy is regarded alone, with all requests that it was asked about. A rate-based algorithm keeps the ratio of its burst to
/// its limit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Suggestion {
    /// The policy.
    pub policy: String,
    /// The quota that it has, as a rules file has it.
    #[serde(rename = "now")]
    pub current: String,
    /// The share of its requests that it rejects alone.
    #[serde(rename = "now_share")]
    pub current_share: f64,
    /// The quota that it needs, as a rules file has it. `None` if none is large enough, or if the algorithm has no quota.
    #[serde(rename = "suggestion")]
    pub quota: Option<String>,
    /// The share that it would have rejected with that quota.
    pub share: f64,
    /// The requests that this is based on.
    pub requests: u64,
    /// The keys that these requests have.
    pub keys: u64,
    /// One of how many keys is in the sample; 1 if all are.
    pub one_in: u64,
}

pub(super) fn suggest(recording: &Recording, share: f64) -> Vec<Suggestion> {
    let suggestions = recording.policies.iter().filter_map(|(policy, charges)| {
        let mut charges = charges.clone();
        // The order of requests with one key and instant does not matter if their costs are equal.
        charges.sort_by_key(|charge| (charge.key, charge.micros));
        one(policy, &charges, share, recording.one_in())
    });
    suggestions.collect()
}

fn one(policy: &Policy, charges: &[Charge], share: f64, one_in: u64) -> Option<Suggestion> {
    if charges.is_empty() {
        return None;
    }
    let form = Form::of(policy.strategy())?;
    let requests = charges.len() as u64;
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of fewer than 2^52 requests"
    )]
    let allowed = (share.clamp(0.0, 1.0) * requests as f64).floor() as u64;
    #[expect(clippy::cast_precision_loss, reason = "there are fewer than 2^52 requests")]
    let share_of = |rejected: u64| rejected as f64 / requests as f64;

    let rejected_at = |limit: u64| form.strategy(limit).map(|strategy| rejections(&strategy, charges));
    let current = rejections(policy.strategy(), charges);
    // The highest limit that is known to be too small, and the smallest that is known to suffice.
    let (mut too_small, mut limit) = (0, form.limit);
    let mut enough = loop {
        match rejected_at(limit) {
            Some(rejected) if rejected > allowed => (too_small, limit) = (limit, limit.saturating_mul(4)),
            last => break last.map(|rejected| (limit, rejected)),
        }
    };
    while let Some((limit, _)) = enough
        && limit - too_small > 1
    {
        let middle = too_small + (limit - too_small) / 2;
        match rejected_at(middle) {
            Some(rejected) if rejected <= allowed => enough = Some((middle, rejected)),
            _ => too_small = middle,
        }
    }
    Some(Suggestion {
        policy: policy.name().to_string(),
        current: policy.strategy().quota().map(written).or_else(|| form.text(form.limit))?,
        current_share: share_of(current),
        quota: enough.and_then(|(limit, _)| form.text(limit)),
        share: share_of(enough.map_or(current, |(_, rejected)| rejected)),
        requests,
        keys: charges.chunk_by(|one, other| one.key == other.key).count() as u64,
        one_in,
    })
}

/// The charges that the algorithm denies, of keys that begin without a state.
fn rejections(strategy: &Strategy, charges: &[Charge]) -> u64 {
    let mut rejected = 0;
    for of_key in charges.chunk_by(|one, other| one.key == other.key) {
        let mut state: Option<State> = None;
        for charge in of_key {
            let now = Timestamp::from_micros(charge.micros);
            let evaluation = strategy.evaluate(state.as_ref(), now, charge.cost);
            let admitted = evaluation.admitted;
            strategy.apply_decision(&mut state, now, charge.cost, evaluation, admitted);
            rejected += u64::from(!admitted);
        }
    }
    rejected
}

/// How a strategy is written in a file, so that its limit can be replaced.
struct Form {
    strategy: Strategy,
    /// `None` for a calendar window, which has a limit alone.
    quota: Option<Quota>,
    /// The limit in this form.
    limit: u64,
    /// The burst of a rate-based algorithm.
    burst: Option<u64>,
}

impl Form {
    /// `None` for requests in flight, whose number a log does not show.
    fn of(strategy: &Strategy) -> Option<Self> {
        let strategy = *strategy;
        let (quota, burst) = match strategy {
            Strategy::InFlight(_) => return None,
            Strategy::CalendarWindow(_) => (None, None),
            Strategy::FixedWindow(_) | Strategy::SlidingWindow(_) | Strategy::SlidingLog(_) => {
                (Some(strategy.quota()?), None)
            }
            Strategy::TokenBucket(_) | Strategy::Gcra(_) | Strategy::LeakyBucket(_) => {
                (Some(finer(&strategy)?), Some(strategy.limit()))
            }
        };
        let limit = quota.map_or(strategy.limit(), Quota::limit);
        Some(Self { strategy, quota, limit, burst })
    }

    /// The quota with another limit, and a burst that has grown or shrunk as much.
    fn quota(&self, limit: u64) -> Option<Quota> {
        let scaled = |burst| (u128::from(burst) * u128::from(limit)).div_ceil(u128::from(self.limit)).max(1);
        let burst = self.burst.map(|burst| u64::try_from(scaled(burst))).transpose().ok()?;
        Quota::new(limit, self.quota?.period(), burst).ok()
    }

    fn strategy(&self, limit: u64) -> Option<Strategy> {
        if limit == self.limit {
            return Some(self.strategy);
        }
        if let Strategy::CalendarWindow(window) = self.strategy {
            return CalendarWindow::new(limit, window.table()).ok().map(Strategy::CalendarWindow);
        }
        let mut written = serde_json::to_value(self.strategy).ok()?;
        *written.get_mut("quota")? = self.quota(limit)?.to_string().into();
        serde_json::from_value(written).ok()
    }

    /// The fields of a rules file.
    fn text(&self, limit: u64) -> Option<String> {
        match self.quota {
            None => Some(format!("limit = {limit}")),
            Some(_) => self.quota(limit).map(written),
        }
    }
}

fn written(quota: Quota) -> String {
    format!("quota = \"{quota}\"")
}

/// The rate of a strategy with a longer period, so that its limit has more than one digit. With refill in intervals the period matters.
fn finer(strategy: &Strategy) -> Option<Quota> {
    let mut quota = strategy.quota()?;
    if matches!(strategy, Strategy::TokenBucket(bucket) if bucket.refill() == Refill::Interval) {
        return Some(quota);
    }
    while quota.limit() < 60 {
        let longer = quota.limit().checked_mul(60).zip(quota.period().checked_mul(60));
        match longer.and_then(|(limit, period)| Quota::new(limit, period, None).ok()) {
            Some(longer) => quota = longer,
            None => break,
        }
    }
    Some(quota)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `per_minute` requests of each of 10 keys, evenly spread over 10 minutes.
    fn traffic(per_minute: u64) -> Vec<Charge> {
        let of_key = |key| {
            (0..per_minute * 10).map(move |number| Charge {
                key,
                micros: 1_000_000_000 + number * 60_000_000 / per_minute,
                cost: 1,
            })
        };
        (0..10).flat_map(of_key).collect()
    }

    fn suggestion(policy: &Policy, share: f64) -> Suggestion {
        one(policy, &traffic(120), share, 1).expect("this policy has a quota")
    }

    #[test]
    fn the_smallest_sufficient_quota_is_suggested() {
        let window = suggestion(&Policy::fixed_window("pages", Quota::per_minute(10)), 0.0);
        assert_eq!(window.quota.as_deref(), Some("quota = \"120/min\""));
        assert_eq!((window.requests, window.keys, window.share), (12_000, 10, 0.0));
        assert!(window.current_share > 0.9);
        let generous = suggestion(&Policy::sliding_log("pages", Quota::per_minute(10_000)), 0.0);
        assert_eq!(generous.quota.as_deref(), Some("quota = \"120/min\""));
        let even = suggestion(&Policy::gcra("pages", Quota::per_second(1)), 0.0);
        assert_eq!(even.quota.as_deref(), Some("quota = \"120/min burst 2\""));
    }

    #[test]
    fn the_present_quota_is_shown_as_it_is_written() {
        let even = suggestion(&Policy::token_bucket("pages", Quota::per_minute(10).burst(5)), 0.0);
        assert_eq!(even.current, "quota = \"10/min burst 5\"");
    }

    #[test]
    fn a_share_of_rejections_allows_a_smaller_quota() {
        let pages = Policy::fixed_window("pages", Quota::per_minute(500));
        let half = suggestion(&pages, 0.5);
        assert!((0.4..=0.5).contains(&half.share), "{half:?}");
        // Eleven windows: of 40 requests, nine times of 120, and of 80.
        assert_eq!(half.quota.as_deref(), Some("quota = \"56/min\""));
    }

    #[test]
    fn requests_in_flight_have_no_suggestion() {
        let in_flight = portcullis_core::Concurrency::new("exports", 4).policy();
        assert_eq!(one(&in_flight, &traffic(1), 0.0, 1), None);
    }
}
