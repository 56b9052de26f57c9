//! Headers for the client.

use std::time::Duration;

use super::{LimitStatus, Verdict};
use crate::messages::HeaderValue;

/// The headers that Envoy adds to the response to the client: those of the limit that is nearest to its end, and `retry-after`, if the call
/// is denied. Limits with `shadow_mode` are not shown.
///
/// With native rules, any value but `None` passes on the headers that the rules configure, and the body of a rejection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResponseHeaders {
    /// No headers.
    #[default]
    None,
    /// `x-ratelimit-limit`, `x-ratelimit-remaining` and `x-ratelimit-reset`, in seconds.
    XRateLimit,
    /// `ratelimit-limit`, `ratelimit-remaining` and `ratelimit-reset`, in seconds: the names that Envoy's service has by default with
    /// `LIMIT_RESPONSE_HEADERS_ENABLED`.
    RateLimit,
}

impl ResponseHeaders {
    pub(super) fn of(self, verdict: &Verdict) -> Vec<HeaderValue> {
        let names = match self {
            Self::None => return Vec::new(),
            Self::XRateLimit => ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"],
            Self::RateLimit => ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"],
        };
        let Some((limit, over)) = decisive(verdict) else { return Vec::new() };
        let LimitStatus { limit, figures } = limit;
        let values = [u64::from(limit.requests_per_unit), figures.remaining, whole_seconds(figures.reset)];
        let mut headers: Vec<_> =
            names.into_iter().zip(values).map(|(name, value)| header(name, value)).collect();
        // No wait helps against a limit of 0.
        if over && verdict.over && limit.requests_per_unit > 0 {
            let wait = figures.retry.unwrap_or(figures.reset);
            headers.push(header("retry-after", whole_seconds(wait)));
        }
        headers
    }
}

/// The limit that denies for the longest time, or else the one with the least remaining, and whether it is exceeded.
fn decisive(verdict: &Verdict) -> Option<(&LimitStatus, bool)> {
    let shown = verdict.statuses.iter().filter(|status| !status.is_shadow);
    let limits = shown.filter_map(|status| Some((status.limit.as_ref()?, status.over)));
    limits.reduce(|best, next| {
        let rank = |(limit, over): (&LimitStatus, bool)| {
            let figures = limit.figures;
            (over, figures.retry.filter(|_| over), std::cmp::Reverse(figures.remaining), figures.reset)
        };
        if rank(next) > rank(best) { next } else { best }
    })
}

/// Whole seconds, rounded up: a client that waits for them is not early.
pub(super) fn whole_seconds(length: Duration) -> u64 {
    length.as_secs() + u64::from(length.subsec_nanos() > 0)
}

fn header(name: &str, value: u64) -> HeaderValue {
    HeaderValue { key: name.to_owned(), value: value.to_string(), ..HeaderValue::default() }
}
