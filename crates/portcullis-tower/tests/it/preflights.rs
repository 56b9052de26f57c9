//! What a browser sends on its own.

use http::{Method, Request};
use portcullis_core::{Policy, Quota};
use portcullis_tower::{Bearer, Global, LayerBuilder, RateLimitLayer};

use crate::probe::{probed, request, send};
use crate::support::gate;

fn layer() -> RateLimitLayer {
    LayerBuilder::new(gate(), Policy::gcra("all", Quota::per_minute(1))).by(Global)
}

fn options(headers: &[(&str, &str)]) -> Request<String> {
    let mut request = request(headers);
    *request.method_mut() = Method::OPTIONS;
    request
}

const PREFLIGHT: [(&str, &str); 2] =
    [("origin", "https://example.com"), ("access-control-request-method", "GET")];

#[tokio::test]
async fn a_preflight_is_neither_counted_nor_told_nor_asked_who_it_is() {
    for layer in [layer(), layer().by(Bearer)] {
        let (service, probe) = probed(&layer);
        for _ in 0..3 {
            let answer = send(&service, options(&PREFLIGHT)).await;
            assert_eq!((answer.status, answer.all_headers(), answer.seen), (200, vec![], None));
        }
        assert_eq!(probe.calls(), 3);
    }
}

#[tokio::test]
async fn whatever_is_no_preflight_is_counted() {
    let (service, _) = probed(&layer());
    assert_eq!(send(&service, options(&[])).await.status, 200);
    for headers in [&[][..], &PREFLIGHT[..1], &PREFLIGHT[1..]] {
        assert_eq!(send(&service, options(headers)).await.status, 429, "{headers:?}");
    }
    assert_eq!(send(&service, request(&PREFLIGHT)).await.status, 429, "another method");
}

#[tokio::test]
async fn preflights_can_be_counted() {
    let (service, _) = probed(&layer().limit_preflights());
    assert_eq!(send(&service, options(&PREFLIGHT)).await.status, 200);
    assert_eq!(send(&service, options(&PREFLIGHT)).await.status, 429);
}
