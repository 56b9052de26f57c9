//! Renders a rejection as an example.

use http::{HeaderMap, HeaderValue, Request, header};
use portcullis_core::algorithm::State;
use portcullis_core::store::{Check, Outcome};
use portcullis_core::{Policy, Secret, Strategy, Timestamp};

use crate::rejection::{Cause, Rejection};
use crate::settings::ResponseSettings;

/// The headers and the bodies of a response of the layer.
pub(super) struct Example {
    headers: HeaderMap,
    pub(super) text: String,
    pub(super) json: serde_json::Value,
}

impl Example {
    /// Renders a rejection by the default responses.
    pub(super) fn render(settings: &ResponseSettings, cause: Cause<'_>) -> Self {
        let settings = settings.with_default_responses();
        let render = |accept: &'static str| {
            let mut request = Request::new(());
            request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static(accept));
            let (parts, ()) = request.into_parts();
            settings.render_rejection(&Rejection::new(&parts, cause))
        };
        let (text, json) = (render("text/plain"), render("application/problem+json"));
        Self {
            text: String::from_utf8_lossy(text.body()).into_owned(),
            json: serde_json::from_slice(json.body()).expect("problem details are JSON"),
            headers: json.headers().clone(),
        }
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// The denial of a request that comes after as many as the policy admits at one instant. The instant is fixed, so that the document of
/// a service does not change by itself.
pub(super) fn denial_by(policy: &Policy) -> Option<Outcome> {
    let mut hasher = Secret::published().hasher();
    hasher.writer().part("portcullis.openapi", b"");
    let check = Check { policy: policy.clone(), key: hasher.finish().ok()?, cost: 1 };
    let strategy = policy.strategy();
    let state = full(strategy);
    Outcome::remembered(check, NOW, strategy.snapshot(state.as_ref(), NOW, 1, false))
}

/// A state that denies one more unit: more than the limit may be charged where requests wait.
fn full(strategy: &Strategy) -> Option<State> {
    let limit = strategy.limit();
    let charged = |units: u64| {
        let mut state = None;
        strategy.charge(&mut state, NOW, units);
        state
    };
    let is_full = |state: &Option<State>| !strategy.evaluate(state.as_ref(), NOW, 1).admitted;
    let wait = match strategy {
        Strategy::TokenBucket(bucket) => bucket.meter().wait(),
        Strategy::Gcra(gcra) => gcra.meter().wait(),
        _ => 0,
    };
    let waiting = u128::from(limit) * u128::from(wait) / strategy.window().as_micros().max(1);
    let most = limit.saturating_add(u64::try_from(waiting).unwrap_or(u64::MAX));
    // Rounding leaves at most a unit on either side.
    let candidates = [limit, most.saturating_sub(1), most, most.saturating_add(1)];
    candidates.into_iter().map(charged).find(is_full).flatten()
}

/// 2023-11-14T22:13:20Z.
const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use portcullis_core::{Concurrency, Quota, Retry};

    use super::*;

    /// The remaining units and the wait of the example.
    fn example(policy: &Policy) -> (u64, Option<Retry>) {
        let outcome = denial_by(policy).unwrap();
        (outcome.decision().remaining(), outcome.decision().retry())
    }

    #[test]
    fn a_full_policy_denies_under_each_algorithm() {
        let quota = Quota::per_minute(30).burst(7);
        let second = |seconds| Some(Retry::After(Duration::from_secs(seconds)));
        assert_eq!(example(&Policy::token_bucket("a", quota)), (0, second(2)));
        assert_eq!(example(&Policy::gcra("a", quota)), (0, second(2)));
        assert_eq!(example(&Policy::leaky_bucket("a", quota)), (0, second(2)));
        assert_eq!(example(&Policy::fixed_window("a", Quota::per_minute(9))), (0, second(40)));
        assert_eq!(example(&Policy::sliding_window("a", Quota::per_minute(9))).0, 0);
        assert_eq!(example(&Policy::sliding_log("a", Quota::per_minute(100_000))), (0, second(60)));
        assert_eq!(example(&Concurrency::new("a", 4).policy()), (0, Some(Retry::Unknown)));
    }

    #[test]
    fn a_policy_under_which_requests_wait_denies_beyond_the_wait() {
        for (per_minute, burst, wait) in [(30, 7, 10), (30, 1, 3_600), (7, 3, 11), (6_000, 1, 1)] {
            let quota = Quota::per_minute(per_minute).burst(burst);
            for policy in
                [Policy::token_bucket("a", quota), Policy::gcra("a", quota), Policy::leaky_bucket("a", quota)]
            {
                let (remaining, retry) = example(&policy.wait_at_most(Duration::from_secs(wait)));
                assert_eq!(remaining, 0);
                assert!(matches!(retry, Some(Retry::After(wait)) if !wait.is_zero()), "{retry:?}");
            }
        }
    }
}
