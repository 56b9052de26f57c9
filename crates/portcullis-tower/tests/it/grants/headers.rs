//! The headers of a key with a grant tell the quota that it has.

use std::sync::Arc;

use portcullis_core::{Policy, Quota};
use portcullis_tower::{
    CheckBuilder, Header, OnMissing, PolicyExt as _, RateLimitHeaders, RateLimitLayer, Registry,
};

use super::{DAILY, DAY, limiter, of};
use crate::probe::{Answer, Probe, grpc, probed, send};
use tower::Layer as _;

const BURST: Policy = Policy::gcra("burst", Quota::per_second(10).burst(20)).allow_overrides();

const ALL: RateLimitHeaders =
    RateLimitHeaders::IETF.union(RateLimitHeaders::X_RATELIMIT).union(RateLimitHeaders::IETF_DRAFT_6);

fn layer(registry: &Arc<Registry>) -> RateLimitLayer {
    let layer = RateLimitLayer::new(Arc::clone(registry), DAILY.by(Header::named("x-user")));
    layer.and(BURST).headers(ALL)
}

/// The policies and the limits of a response.
fn shown(answer: &Answer) -> (u16, &str, [&str; 2]) {
    let limits = ["x-ratelimit-limit", "ratelimit-limit"].map(|name| answer.header(name).unwrap());
    (answer.status, answer.header("ratelimit-policy").unwrap(), limits)
}

#[tokio::test]
async fn a_grant_is_in_the_headers_until_it_ends() {
    for with_charge in [false, true] {
        let (registry, clock) = limiter();
        let layer = layer(&registry);
        let layer = if with_charge { layer.with_charge() } else { layer };
        let service = layer.layer(Probe::default());
        let ada = registry.key_of(&Header::named("x-user"), of("ada")).unwrap();
        let own = r#""daily";q=2;w=86400, "burst";q=20;w=2"#;
        let daily = r#""daily";q=4;w=86400, "burst";q=20;w=2"#;
        let both = r#""daily";q=4;w=86400, "burst";q=3;w=3"#;
        assert_eq!(shown(&send(&service, of("ada")).await), (200, own, ["2", "2"]));

        registry.grant(&DAILY, ada, Quota::per_day(4)).for_duration(DAY / 2).await.unwrap();
        assert_eq!(shown(&send(&service, of("ada")).await), (200, daily, ["4", "4"]));
        let slow = Quota::per_second(1).burst(3);
        registry.grant(&BURST, ada, slow).for_duration(DAY / 2).await.unwrap();
        assert_eq!(shown(&send(&service, of("ada")).await), (200, both, ["4", "4"]));
        assert_eq!(shown(&send(&service, of("grace")).await), (200, own, ["2", "2"]), "others have none");
        assert_eq!(shown(&send(&service, of("ada")).await), (200, both, ["4", "4"]));
        assert_eq!(shown(&send(&service, of("ada")).await), (429, both, ["4", "4"]));

        clock.advance(DAY / 2);
        assert_eq!(shown(&send(&service, of("ada")).await), (429, own, ["2", "2"]));
    }
}

#[tokio::test]
async fn a_policy_that_does_not_count_a_request_is_left_out() {
    let (registry, _clock) = limiter();
    let weekly = Policy::fixed_window("weekly", Quota::per_week(100));
    let layer = RateLimitLayer::new(Arc::clone(&registry), DAILY.by(Header::named("x-user")));
    let layer = layer.and(weekly.by(Header::named("x-team")).on_missing(OnMissing::Exempt)).headers(ALL);
    let (service, _) = probed(&layer);
    let ada = registry.key_of(&Header::named("x-user"), of("ada")).unwrap();
    registry.grant(&DAILY, ada, Quota::per_day(4)).for_duration(DAY).await.unwrap();
    assert_eq!(shown(&send(&service, of("ada")).await), (200, r#""daily";q=4;w=86400"#, ["4", "4"]));
}

#[tokio::test]
async fn a_block_shows_the_quota_of_the_policy() {
    let (registry, _clock) = limiter();
    let (service, _) = probed(&layer(&registry));
    let ada = registry.key_of(&Header::named("x-user"), of("ada")).unwrap();
    registry.grant(&DAILY, ada, Quota::per_day(4)).for_duration(DAY).await.unwrap();
    registry.block(&DAILY, ada, DAY / 2).await.unwrap();
    let own = r#""daily";q=2;w=86400, "burst";q=20;w=2"#;
    assert_eq!(shown(&send(&service, of("ada")).await), (429, own, ["2", "2"]));
}

#[tokio::test]
async fn a_check_of_a_handler_tells_the_grant() {
    let (registry, _clock) = limiter();
    registry.headers(ALL);
    let ada = registry.key_of(&Header::named("x-user"), of("ada")).unwrap();
    let daily = DAILY;
    let check = || CheckBuilder::new(&registry, &daily).by_key(ada);
    assert_eq!(check().await.unwrap().decision().limit(), 2);
    registry.grant(&DAILY, ada, Quota::per_day(4)).for_duration(DAY).await.unwrap();
    let charge = check().await.unwrap();
    for limited in [check().cost(3).await.unwrap_err(), charge.check(3).await.unwrap_err()] {
        let headers = limited.into_http().into_parts().0.headers;
        assert_eq!(headers["ratelimit-policy"], r#""daily";q=4;w=86400"#);
        assert_eq!(headers["x-ratelimit-limit"], "4");
    }
}

#[tokio::test]
async fn rejections_of_any_form_tell_the_grant() {
    let (registry, _clock) = limiter();
    let layer = RateLimitLayer::new(Arc::clone(&registry), DAILY.by(Header::named("x-user"))).headers(ALL);
    let (service, _) = probed(&layer);
    let ada = registry.key_of(&Header::named("x-user"), of("ada")).unwrap();
    registry.grant(&DAILY, ada, Quota::per_day(3)).for_duration(DAY).await.unwrap();
    for _ in 0..3 {
        assert_eq!(send(&service, of("ada")).await.status, 200);
    }
    let mut problem = of("ada");
    problem.headers_mut().insert("accept", "application/problem+json".parse().unwrap());
    let problem = send(&service, problem).await;
    assert_eq!(shown(&problem), (429, r#""daily";q=3;w=86400"#, ["3", "3"]));
    assert!(problem.text.contains(r#""violated-policies":["daily"]"#), "{}", problem.text);

    let call = send(&service, grpc(&[("x-user", "ada")])).await;
    assert_eq!(shown(&call), (200, r#""daily";q=3;w=86400"#, ["3", "3"]));
    #[cfg(feature = "tonic")]
    {
        use tonic_types::StatusExt as _;

        let status = tonic::Status::from_header_map(&call.headers).unwrap();
        let details = status.get_error_details();
        assert_eq!(details.quota_failure().unwrap().violations[0].description, "0 of 3 units remain");
    }
}
