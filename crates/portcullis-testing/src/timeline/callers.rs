//! Quotas of single callers in timelines.

use portcullis_core::{Policy, Quota, Strategy};

use crate::oracle::{Kind, Model};

/// A model with quotas of single callers, whose limit, and burst under a rate-based algorithm, are from sixteenths of the model's own up
/// to several times them. The model is unchanged if they take too long to fill, or exceed a bound.
pub(super) fn with_callers(model: Model, parts: (u64, u64, u64, u64)) -> Model {
    let (limit_part, limit_times, burst_part, burst_times) = parts;
    let limit = model.quota.limit();
    let default_burst = if model.kind == Kind::Gcra { 1 } else { limit };
    let burst = model.is_rate_based().then(|| model.quota.explicit_burst().unwrap_or(default_burst));
    let quota = |limit: u64, burst: Option<u64>| Quota::new(limit, model.quota.period(), burst).ok();
    let least = |own: u64, part: u64| (own.saturating_mul(part) / 16).max(1);
    let smallest = quota(least(limit, limit_part), burst.map(|burst| least(burst, burst_part)));
    let largest =
        quota(limit.saturating_mul(limit_times), burst.map(|burst| burst.saturating_mul(burst_times)));
    let (Some(smallest), Some(largest)) = (smallest, largest) else { return model };
    // The largest burst at the slowest rate takes the longest.
    let slowest = largest.explicit_burst().and_then(|burst| quota(smallest.limit(), Some(burst)));
    let longest = slowest.map(|quota| Model { quota, debt: None, ..model });
    let callers = model.caller_quotas(smallest, largest);
    let name = portcullis_core::PolicyName::literal("model");
    if longest.is_none_or(fills_soon) && callers.policy(&name).is_ok() { callers } else { model }
}

/// The policy of the caller whose turn it is: checks alternate between the smallest and the largest quota.
pub(super) fn caller(policy: &Policy, turn: u64) -> Policy {
    let Some((smallest, largest)) = policy.quota_range() else { return policy.clone() };
    let quota = if turn.is_multiple_of(2) { smallest } else { largest };
    policy.with_quota(quota).expect("the range has its ends")
}

pub(super) fn fills_soon(model: Model) -> bool {
    let meter = match model.strategy() {
        Ok(Strategy::TokenBucket(bucket)) => *bucket.meter(),
        Ok(Strategy::Gcra(gcra)) => *gcra.meter(),
        Ok(Strategy::LeakyBucket(bucket)) => *bucket.meter(),
        _ => return false,
    };
    meter.capacity().micros < SLOWEST_TO_FILL
}

/// About two years.
pub(super) const SLOWEST_TO_FILL: u64 = 1 << 46;
