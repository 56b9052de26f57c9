//! Which of several quotas a key has.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use http::request::Parts;
use portcullis_core::{Policy, Quota, Secret};
use portcullis_tower::{
    AsyncKeyExtractor, Lookup, PolicyExt as _, QuotaLookup, RateLimitHeaders, RateLimitLayer,
};

use super::{DAY, limiter};
use crate::probe::{Answer, probed, request, send};

/// 100 a day, and up to 500 for callers with a plan.
fn daily() -> Policy {
    let (smallest, largest) = (Quota::per_day(10), Quota::per_day(500));
    Policy::fixed_window("daily", Quota::per_day(100)).allow_overrides().caller_quotas(smallest, largest)
}

fn quota(parts: &Parts, header: &str) -> Option<Quota> {
    let limit = parts.headers.get(header)?.to_str().ok()?.parse().ok()?;
    Some(Quota::per_day(limit))
}

/// Finds the account, and its contract if it has one.
fn directory() -> impl AsyncKeyExtractor {
    |parts: &Parts| {
        let contract = quota(parts, "x-contract");
        async move {
            tokio::task::yield_now().await;
            let ada = Lookup::found("account", "ada");
            Ok(match contract {
                Some(contract) => ada.quota("daily", contract),
                None => ada,
            })
        }
    }
}

fn sent(headers: &[(&str, &str)]) -> Request<String> {
    request(headers)
}

/// The status, the limit and the policies of a response.
fn shown(answer: &Answer) -> (u16, &str, &str) {
    let header = |name| answer.header(name).unwrap();
    (answer.status, header("x-ratelimit-limit"), header("ratelimit-policy"))
}

const PLAN: (&str, &str) = ("x-plan", "200");
const CONTRACT: (&str, &str) = ("x-contract", "300");

#[tokio::test]
async fn a_block_a_grant_a_look_up_a_function_and_the_policy() {
    let (registry, _clock) = limiter();
    let plan = |parts: &Parts| quota(parts, "x-plan");
    let by_look_up = daily().by_async(directory()).quota(plan);
    // The same with a key that is known: a look-up finds the quota alone, or a function does.
    let looked_up = daily().by(Ada).quota_by_async(
        QuotaLookup::new(|parts: &Parts| {
            let contract = quota(parts, "x-contract");
            async move { Ok(contract) }
        })
        .fresh_for(Duration::ZERO),
    );
    let limits = [by_look_up, looked_up, daily().by(Ada).quota(plan)];
    let [all, contracts, plans] = limits.map(|limit| {
        let layer = RateLimitLayer::new(Arc::clone(&registry), limit);
        probed(&layer.headers(RateLimitHeaders::IETF | RateLimitHeaders::X_RATELIMIT)).0
    });
    let mut hasher = Secret::published().hasher();
    hasher.writer().part("account", b"ada");
    let ada = hasher.finish().unwrap();

    let policy = (200, "100", r#""daily";q=100;w=86400"#);
    let function = (200, "200", r#""daily";q=200;w=86400"#);
    let look_up = (200, "300", r#""daily";q=300;w=86400"#);
    let grant = (200, "900", r#""daily";q=900;w=86400"#);
    let block = (429, "300", r#""daily";q=300;w=86400"#);
    for service in [&all, &contracts, &plans] {
        assert_eq!(shown(&send(service, sent(&[])).await), policy);
    }
    for service in [&all, &plans] {
        assert_eq!(shown(&send(service, sent(&[PLAN])).await), function);
    }
    assert_eq!(shown(&send(&contracts, sent(&[CONTRACT])).await), look_up);
    assert_eq!(shown(&send(&all, sent(&[PLAN, CONTRACT])).await), look_up);

    // More than a plan may have.
    registry.grant(&daily(), ada, Quota::per_day(900)).for_duration(DAY).await.unwrap();
    for headers in [&[][..], &[PLAN], &[CONTRACT], &[PLAN, CONTRACT]] {
        for service in [&all, &contracts, &plans] {
            assert_eq!(shown(&send(service, sent(headers)).await), grant);
        }
    }
    registry.block(&daily(), ada, DAY).await.unwrap();
    let blocked = send(&all, sent(&[PLAN, CONTRACT])).await;
    assert_eq!(shown(&blocked), block);
    assert!(blocked.text.contains("blocked"), "{}", blocked.text);

    // Each that ends gives way to the next one, and what was used counts under all of them.
    registry.unblock(&daily(), ada).await.unwrap();
    let granted = send(&all, sent(&[PLAN, CONTRACT])).await;
    assert_eq!((shown(&granted), granted.header("x-ratelimit-remaining")), (grant, Some("880")));
    registry.revoke_grant(&daily(), ada).await.unwrap();
    for (headers, expected, remaining) in
        [(&[PLAN, CONTRACT][..], look_up, "279"), (&[PLAN], function, "178"), (&[], policy, "77")]
    {
        let answer = send(&all, sent(headers)).await;
        assert_eq!((shown(&answer), answer.header("x-ratelimit-remaining")), (expected, Some(remaining)));
    }
}

/// An extractor that finds the account without a look-up.
struct Ada;

impl portcullis_tower::KeyExtractor for Ada {
    fn extract(
        &self,
        _: &Parts,
        key: &mut portcullis_core::KeyWriter<'_>,
    ) -> Result<portcullis_tower::Identity, portcullis_tower::KeyError> {
        key.part("account", b"ada");
        Ok(portcullis_tower::Identity::Found)
    }
}
