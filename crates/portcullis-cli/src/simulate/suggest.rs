//! Quotas that would have rejected a given share of the requests or of the callers.

mod form;
mod peaks;

use portcullis_core::algorithm::State;
use portcullis_core::{Policy, Strategy, Timestamp};
use serde::Serialize;

use super::store::{Charge, Recording};
use form::Form;

pub use peaks::Peaks;

/// What a suggested quota may reject, as a share from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Target {
    /// At most this share of the requests. One caller with most of the requests sets the quota for all.
    Rejections(f64),
    /// Any request of at most this share of the callers, however many requests they have.
    Callers(f64),
}

/// The smallest quota of a policy that would have rejected at most a share of its requests or of its callers.
///
/// The policy is regarded alone, with all requests that it was asked about. A caller is a key of the policy. A rate-based algorithm keeps
/// the ratio of its burst to its limit.
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
    /// The share of its callers of which it rejects a request.
    #[serde(rename = "now_callers_share")]
    pub current_callers_share: f64,
    /// The quota that it needs, as a rules file has it. `None` if none is large enough, or if the algorithm has no quota.
    #[serde(rename = "suggestion")]
    pub quota: Option<String>,
    /// The share of the requests that it would have rejected with that quota.
    pub share: f64,
    /// The share of the callers of which it would have rejected a request with that quota.
    pub callers_share: f64,
    /// The most that callers have asked for at once.
    pub peaks: Peaks,
    /// The callers of which that quota would have rejected most requests, at most 100.
    pub abusers: Vec<Abuser>,
    /// The requests that this is based on.
    pub requests: u64,
    /// The keys that these requests have.
    pub keys: u64,
    /// One of how many keys is in the sample; 1 if all are.
    pub one_in: u64,
}

/// A caller that asks for more than a quota that suits the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Abuser {
    /// The caller, as the log shows it.
    pub caller: String,
    /// Its requests.
    pub requests: u64,
    /// The most units that it has asked for within one period of the quota that the policy has.
    pub peak: u64,
    /// The requests that the suggested quota would have rejected.
    pub rejected: u64,
}

pub(super) fn suggest(recording: &Recording, target: Target) -> Vec<Suggestion> {
    let suggestions = recording.policies.iter().filter_map(|(policy, charges)| {
        let mut charges = charges.clone();
        // The order of requests with one key and instant does not matter if their costs are equal.
        charges.sort_by_key(|charge| (charge.key, charge.micros));
        one(policy, &charges, target, recording)
    });
    suggestions.collect()
}

fn one(policy: &Policy, charges: &[Charge], target: Target, recording: &Recording) -> Option<Suggestion> {
    if charges.is_empty() {
        return None;
    }
    let strategy = policy.strategy();
    let form = Form::of(strategy)?;
    let (requests, keys) = (charges.len() as u64, of_keys(charges).count() as u64);
    let is_too_much = |rejections: Rejections| match target {
        Target::Rejections(share) => rejections.requests > part(share, requests),
        Target::Callers(share) => rejections.keys > part(share, keys),
    };
    let rejected_at = |limit: u64| form.strategy(limit).map(|strategy| rejections(&strategy, charges));
    let current = rejections(strategy, charges);
    // The highest limit that is known to be too small, and the smallest that is known to suffice.
    let (mut too_small, mut limit) = (0, form.limit);
    let mut enough = loop {
        match rejected_at(limit) {
            Some(rejected) if is_too_much(rejected) => {
                (too_small, limit) = (limit, limit.saturating_mul(4));
            }
            last => break last.map(|rejected| (limit, rejected)),
        }
    };
    while let Some((limit, _)) = enough
        && limit - too_small > 1
    {
        let middle = too_small + (limit - too_small) / 2;
        match rejected_at(middle) {
            Some(rejected) if !is_too_much(rejected) => enough = Some((middle, rejected)),
            _ => too_small = middle,
        }
    }
    let in_own_unit = enough.filter(|(limit, _)| *limit != form.limit).and_then(|(limit, _)| {
        form.in_own_unit(limit).find_map(|quota| {
            let strategy = form.with_quota(quota)?;
            let rejected = rejections(&strategy, charges);
            (!is_too_much(rejected)).then(|| (form::written(quota), strategy, rejected))
        })
    });
    let found = in_own_unit.or_else(|| {
        let (limit, rejected) = enough?;
        Some((form.text(limit)?, form.strategy(limit)?, rejected))
    });
    let rejected = found.as_ref().map_or(current, |(_, _, rejected)| *rejected);
    Some(Suggestion {
        policy: policy.name().to_string(),
        current: strategy.quota().map(form::written).or_else(|| form.text(form.limit))?,
        current_share: share_of(current.requests, requests),
        current_callers_share: share_of(current.keys, keys),
        quota: found.as_ref().map(|(text, ..)| text.clone()),
        share: share_of(rejected.requests, requests),
        callers_share: share_of(rejected.keys, keys),
        peaks: Peaks::of(strategy, charges),
        abusers: found
            .map_or_else(Vec::new, |(_, suggested, _)| abusers((strategy, &suggested), charges, recording)),
        requests,
        keys,
        one_in: recording.one_in(),
    })
}

/// How many of a number a share is at most.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of fewer than 2^52"
)]
pub(super) fn part(share: f64, whole: u64) -> u64 {
    (share.clamp(0.0, 1.0) * whole as f64).floor() as u64
}

#[expect(clippy::cast_precision_loss, reason = "there are fewer than 2^52")]
fn share_of(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

/// The callers of which the second strategy rejects requests, those with the most of them.
fn abusers(
    (current, suggested): (&Strategy, &Strategy),
    charges: &[Charge],
    recording: &Recording,
) -> Vec<Abuser> {
    let mut most: Vec<_> = of_keys(charges)
        .map(|of_key| (rejections(suggested, of_key).requests, of_key))
        .filter(|(rejected, _)| *rejected > 0)
        .collect();
    most.sort_by_key(|(rejected, of_key)| (std::cmp::Reverse(*rejected), of_key[0].key));
    most.truncate(MAX_ABUSERS);
    let abuser = |(rejected, of_key): (u64, &[Charge])| Abuser {
        caller: recording.name(of_key[0].key),
        requests: of_key.len() as u64,
        peak: peaks::peak(current, of_key),
        rejected,
    };
    most.into_iter().map(abuser).collect()
}

/// The charges of each key.
fn of_keys(charges: &[Charge]) -> impl Iterator<Item = &[Charge]> {
    charges.chunk_by(|one, other| one.key == other.key)
}

/// What a strategy denies.
#[derive(Clone, Copy, Default)]
struct Rejections {
    requests: u64,
    /// The keys with a denied request.
    keys: u64,
}

/// The charges that the algorithm denies, of keys that begin without a state.
fn rejections(strategy: &Strategy, charges: &[Charge]) -> Rejections {
    let mut rejected = Rejections::default();
    for of_key in of_keys(charges) {
        let mut state: Option<State> = None;
        let before = rejected.requests;
        for charge in of_key {
            let now = Timestamp::from_micros(charge.micros);
            let evaluation = strategy.evaluate(state.as_ref(), now, charge.cost);
            let admitted = evaluation.admitted;
            strategy.apply_decision(&mut state, now, charge.cost, evaluation, admitted);
            rejected.requests += u64::from(!admitted);
        }
        rejected.keys += u64::from(rejected.requests > before);
    }
    rejected
}

const MAX_ABUSERS: usize = 100;

#[cfg(test)]
mod tests {
    use portcullis_core::{Quota, Secret};

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
        let target = Target::Rejections(share);
        one(policy, &traffic(120), target, &Recording::new(9)).expect("this policy has a quota")
    }

    /// 99 callers with 3 to 12 requests a minute, and a scraper with 100 times as many as all of them.
    #[test]
    fn one_scraper_does_not_set_the_quota_for_all() {
        let mut recording = Recording::new(1_000_000);
        let policy = Policy::fixed_window("pages", Quota::per_minute(500));
        let mut requests = |caller: u64, number: u64| {
            let mut hasher = Secret::published().hasher();
            hasher.writer().part("caller", &caller.to_be_bytes());
            let key = hasher.finish().unwrap();
            for request in 0..number {
                // A whole minute.
                let micros = 960_000_000 + request * 60_000_000 / number;
                recording.add(&policy, key, micros, 1, &format!("caller {caller}"));
            }
        };
        (0..99).for_each(|caller| requests(caller, 3 + caller / 10));
        requests(99, 7_000);
        let [by_requests] = &suggest(&recording, Target::Rejections(0.01))[..] else { panic!() };
        assert_eq!(by_requests.quota.as_deref(), Some("quota = \"6923/min\""));
        let [by_callers] = &suggest(&recording, Target::Callers(0.01))[..] else { panic!() };
        assert_eq!(by_callers.quota.as_deref(), Some("quota = \"12/min\""));
        assert_eq!(
            (by_callers.callers_share, by_callers.current_callers_share, by_callers.keys),
            (0.01, 0.01, 100)
        );
        let scraper =
            Abuser { caller: "caller 99".to_owned(), requests: 7_000, peak: 7_000, rejected: 6_988 };
        assert_eq!(by_callers.abusers, [scraper]);
        let Peaks { p50, p95, p99, max, .. } = by_callers.peaks;
        assert_eq!((p50, p95, p99, max), (7, 12, 12, 7_000));
        // Half of the callers may be rejected.
        let [half] = &suggest(&recording, Target::Callers(0.5))[..] else { panic!() };
        assert_eq!(half.quota.as_deref(), Some("quota = \"7/min\""));
        assert!(half.callers_share <= 0.5 && half.abusers.len() as u64 <= 50);
        let [none] = &suggest(&recording, Target::Callers(0.0))[..] else { panic!() };
        assert_eq!((none.callers_share, none.abusers.len()), (0.0, 0));
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
        assert_eq!(even.quota.as_deref(), Some("quota = \"2/s burst 2\""));
    }

    #[test]
    fn quota_keeps_its_unit_where_that_is_near() {
        let unit = |per_minute: u64, policy: &Policy| {
            let found = one(policy, &traffic(per_minute), Target::Rejections(0.0), &Recording::new(9));
            let found = found.and_then(|one| one.quota)?;
            let unit = found.split_once('/')?.1;
            Some(unit.chars().take_while(char::is_ascii_alphabetic).collect::<String>())
        };
        let minute = Policy::token_bucket("pages", Quota::per_minute(30).burst(30));
        assert_eq!(unit(100, &minute).as_deref(), Some("min"));
        // 168 an hour suffice, and 3 a minute are 7 % more.
        assert_eq!(unit(3, &minute).as_deref(), Some("h"));
        let second = Policy::token_bucket("pages", Quota::per_second(5).burst(5));
        assert_eq!(unit(1, &second).as_deref(), Some("min"));
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
        assert_eq!(one(&in_flight, &traffic(1), Target::Callers(0.0), &Recording::new(9)), None);
    }
}
