//! Quotas of callers.

use http::{Request, Response};
use portcullis_core::Quota;
use portcullis_tower::{ClientIp, PolicyExt as _, RateLimitLayer};

use tower::{Layer as _, ServiceExt as _, service_fn};

use super::{assert_same, gcra, layer_of, peer, plans, responses, text};
use crate::Tier;

#[tokio::test(start_paused = true)]
async fn tiers_are_quotas_of_callers() {
    for (fields, quota) in [
        ("tiers = { pro = \"6/s burst 9\" }", Quota::per_second(6).burst(9)),
        ("tiers = { free = \"1/s\", pro = \"2/s burst 1\" }", Quota::per_second(2).burst(1)),
    ] {
        assert_same(&text(fields), |registry| {
            let policy = gcra().caller_quotas(Quota::per_second(1).burst(1), Quota::per_second(6).burst(9));
            let tier = move |parts: &http::request::Parts| parts.extensions.get::<Tier>().map(|_| quota);
            RateLimitLayer::new(registry, policy.by(ClientIp::peer()).quota(tier))
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn tiers_are_closed_and_unlimited() {
    for (tier, quota) in [("0/d", Quota::per_day(0)), ("unlimited", Quota::UNLIMITED)] {
        for own in [1, 6] {
            let fields = format!("tiers = {{ free = \"{own}/s burst {own}\", pro = \"{tier}\" }}");
            assert_same(&text(&fields), |registry| {
                let (one, most) = (Quota::per_second(1).burst(1), Quota::per_second(6).burst(6));
                let policy = gcra().caller_quotas(one, most);
                let tier = move |parts: &http::request::Parts| parts.extensions.get::<Tier>().map(|_| quota);
                RateLimitLayer::new(registry, policy.by(ClientIp::peer()).quota(tier))
            })
            .await;
        }
    }
}

#[tokio::test]
async fn tiers_of_two_periods_are_two_policies() {
    let text = "[policy.free]\nstrategy = \"fixed_window\"\nquota = \"2/day\"\nkey = \"global\"\ntiers = { pro = \"unlimited\" }\n\
                [policy.pro]\nstrategy = \"fixed_window\"\nquota = \"unlimited\"\nkey = \"global\"\ntiers = { pro = \"3/h\" }\n";
    let rules = crate::Rules::load(&super::super::loader(text)).unwrap();
    let (registry, _) = super::registry();
    let layer = rules.layer(&registry, &(0..rules.iter().len()).collect()).unwrap().unwrap();
    let service = layer.layer(service_fn(async |_: Request<String>| {
        Ok::<_, std::convert::Infallible>(Response::new(String::new()))
    }));
    for (tier, limit) in [("free", "2"), ("pro", "3"), ("free", "2"), ("pro", "3"), ("pro", "3")] {
        let request = Request::builder().extension(Tier::new(tier)).body(String::new()).unwrap();
        let response = service.clone().oneshot(request).await.unwrap();
        assert_eq!(
            (response.status().as_u16(), &response.headers()["x-ratelimit-limit"]),
            (200, &limit.parse().unwrap())
        );
    }
    for tier in ["free", "pro"] {
        let request = Request::builder().extension(Tier::new(tier)).body(String::new()).unwrap();
        assert_eq!(service.clone().oneshot(request).await.unwrap().status(), 429, "{tier}");
    }
}

#[tokio::test(start_paused = true)]
async fn quotas_that_are_looked_up_are_those_of_callers() {
    let declared = "caller_quotas = [\"1/s burst 1\", \"6/s burst 9\"]\nquota_lookup = \"plans\"";
    let policy = || gcra().caller_quotas(Quota::per_second(1).burst(1), Quota::per_second(6).burst(9));
    assert_same(&text(declared), |registry| {
        RateLimitLayer::new(registry, policy().by(ClientIp::peer()).quota_by_async(plans()))
    })
    .await;
    let of_file = responses(|registry| layer_of(&text(declared), &registry)).await;
    let of_policy = responses(|registry| peer(registry, policy())).await;
    assert_ne!(of_file, of_policy, "the look-up makes a difference");
}
