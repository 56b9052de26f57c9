//! Rejections, headers, and options that such a policy does not have.

use portcullis_tower::{RateLimitHeaders, Reason};

use super::*;
use crate::probe::{grpc, probed, request, send};

fn setup() -> (Setup, RateLimitLayer) {
    let setup = Setup::new(Mode::Ready);
    let layer = setup.layer_of(limit());
    (setup, layer)
}

fn limit() -> Limit {
    Concurrency::new("exports", 1).by(Global)
}

fn daily() -> Policy {
    Policy::fixed_window("daily", Quota::per_day(9))
}

/// The headers of the response to an admitted request, and of a rejection.
async fn headers(layer: &RateLimitLayer) -> [Vec<String>; 2] {
    let (service, _) = probed(layer);
    let held = service.clone().oneshot(request(&[])).await.unwrap();
    let admitted = held.headers().iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()));
    let mut admitted: Vec<_> = admitted.collect();
    admitted.sort();
    let rejected = send(&service, request(&[])).await;
    assert_eq!(rejected.status, 429);
    [admitted, rejected.all_headers()].map(|lines| {
        let is_figure = |line: &String| line.contains("ratelimit") || line.starts_with("retry-after");
        lines.into_iter().filter(is_figure).collect()
    })
}

#[tokio::test]
async fn no_header_has_a_time_of_a_reset() {
    for (dialect, expected) in [
        (RateLimitHeaders::X_RATELIMIT, vec!["x-ratelimit-limit: 1", "x-ratelimit-remaining: 0"]),
        (RateLimitHeaders::IETF_DRAFT_6, vec!["ratelimit-limit: 1", "ratelimit-remaining: 0"]),
        (
            RateLimitHeaders::IETF,
            vec![
                r#"ratelimit-policy: "exports";q=1;qu="concurrent-requests""#,
                r#"ratelimit: "exports";r=0"#,
            ],
        ),
        (RateLimitHeaders::NONE, vec![]),
    ] {
        let (_setup, layer) = setup();
        assert_eq!(headers(&layer.headers(dialect)).await, [expected.clone(), expected], "{dialect:?}");
    }
}

#[tokio::test]
async fn a_rate_beside_it_has_its_own_figures() {
    let (_setup, layer) = setup();
    let layer = layer.and(daily());
    let [_, rejected] = headers(&layer.clone().headers(RateLimitHeaders::IETF)).await;
    assert_eq!(
        rejected,
        [
            r#"ratelimit-policy: "exports";q=1;qu="concurrent-requests", "daily";q=9;w=86400"#,
            r#"ratelimit: "exports";r=0"#,
        ]
    );
    let unlisted = Setup::new(Mode::Ready).layer_of(limit().hide()).and(daily());
    let [admitted, rejected] = headers(&unlisted).await;
    assert_eq!(admitted, ["x-ratelimit-limit: 9", "x-ratelimit-remaining: 8", "x-ratelimit-reset: 86400"]);
    assert!(rejected.is_empty());
}

#[tokio::test]
async fn a_rejection_states_no_wait() {
    let (_setup, layer) = setup();
    let (service, _) = probed(&layer);
    let _held = service.clone().oneshot(request(&[])).await.unwrap();
    let problem = send(&service, request(&[("accept", "application/problem+json")])).await;
    let expected = concat!(
        r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","#,
        r#""title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"#,
        r#""detail":"too many requests are in progress","violated-policies":["exports"]}"#,
        "\n"
    );
    assert_eq!((problem.status, problem.header("retry-after"), problem.text.as_str()), (429, None, expected));
    let in_grpc = send(&service, grpc(&[])).await;
    assert_eq!(
        (in_grpc.header("grpc-status"), in_grpc.header("grpc-message")),
        (Some("8"), Some("too many requests are in progress"))
    );
    assert!(in_grpc.header("grpc-retry-pushback-ms").is_none() && in_grpc.header("retry-after").is_none());
}

#[tokio::test]
async fn rejection_names_the_client_under_its_own_key() {
    let setup = Setup::new(Mode::Ready);
    let by_user = || Concurrency::new("own", 1).by(portcullis_tower::Header::named("x-user"));
    let shared = Concurrency::new("shared", 2).by(Global);
    for (layer, text) in [
        (setup.layer_of(by_user()), "too many requests of this client are in progress\n"),
        (setup.layer_of(shared).and(by_user()), "too many requests of this client are in progress\n"),
        (setup.layer_of(limit()).and(by_user()), "too many requests are in progress\n"),
    ] {
        let (service, _) = probed(&layer);
        let ada = || request(&[("x-user", "ada")]);
        let _held = service.clone().oneshot(ada()).await.unwrap();
        assert_eq!(send(&service, ada()).await.text, text);
    }
}

#[tokio::test]
async fn closures_for_rejections_see_that_the_wait_is_unknown() {
    let (_setup, layer) = setup();
    let layer = layer.reject_with(|rejection| {
        assert_eq!((rejection.reason(), rejection.retry_after()), (Reason::Limited, None));
        rejection.response()
    });
    let (service, _) = probed(&layer);
    let _held = service.clone().oneshot(request(&[])).await.unwrap();
    assert_eq!(send(&service, request(&[])).await.status, 429);
}

#[test]
fn options_for_charges_are_refused() {
    let layer = |limits: [Limit; 2]| RateLimitLayer::try_new(Setup::new(Mode::Ready).registry, limits);
    let daily = || Limit::new(daily());
    for refused in [
        limit().charge_when(|_| true),
        limit().charge_after(),
        limit().reserve_or(1, portcullis_tower::OnAbort::Used),
    ] {
        let error = layer([refused, daily()]).unwrap_err().to_string();
        assert!(error.contains("exports") && error.contains("in flight"), "{error}");
    }
    assert!(layer([limit(), daily().charge_when(|_| true)]).is_ok(), "the rate beside it");
    let error = layer([limit(), daily().release_at_headers()]).unwrap_err().to_string();
    assert!(error.contains("daily") && error.contains("in flight"), "{error}");
}
