//! Reservations over HTTP.

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::*;

async fn post(service: &RateLimitService, path: &str, body: &str) -> (u16, Value) {
    let request = Request::post(path).header("content-type", "application/json");
    let response = service.json().oneshot(request.body(Body::from(body.to_owned())).unwrap()).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or_else(|_| String::from_utf8_lossy(&body).into()))
}

#[tokio::test]
async fn reservation_is_made_and_committed_by_json() {
    let service = service(&ManualClock::default(), LIMITS);
    let call = r#"{"domain": "shop", "descriptors": [{"entries": [{"key": "user", "value": "ada"}]}], "amount": "60", "ttl": "30s"}"#;
    let (status, reserved) = post(&service, "/json/reserve", call).await;
    assert_eq!((status, &reserved["code"]), (200, &json!("OK")));
    assert_eq!(post(&service, "/json/reserve", call).await, (429, json!({ "code": "OVER_LIMIT" })));
    let id = reserved["reservationId"].as_str().unwrap();
    let commit = |id: &str| format!(r#"{{"domain": "shop", "reservationId": "{id}", "actual_amount": 25}}"#);
    for _ in 0..2 {
        let answer = post(&service, "/json/commit", &commit(id)).await;
        assert_eq!(answer, (200, json!({ "reservationReleased": true })));
    }
    assert_eq!(left(&service, ADA).await, 75);
    assert_eq!(post(&service, "/json/commit", &commit(&"0".repeat(32))).await.0, 404);
}

#[tokio::test]
async fn json_that_is_no_reservation_is_answered_with_400() {
    let service = service(&ManualClock::default(), LIMITS);
    let call = |ttl: &str| {
        format!(
            r#"{{"domain": "shop", "descriptors": [{{"entries": [{{"key": "user", "value": "ada"}}]}}], "amount": 1, "ttl": {ttl}}}"#
        )
    };
    for ttl in [
        "\"30\"",
        "30",
        "\"-1s\"",
        "\"0.9s\"",
        "\"3600.000000001s\"",
        "\"1.0000000001s\"",
        "\"s\"",
        "\".5s\"",
        "\"1.s\"",
        "\"+1s\"",
        "null",
    ] {
        assert_eq!(post(&service, "/json/reserve", &call(ttl)).await.0, 400, "{ttl}");
    }
    for body in ["", "{}", r#"{"domain": "shop", "amount": -1}"#, r#"{"reservation": "x"}"#] {
        assert_eq!(post(&service, "/json/reserve", body).await.0, 400, "{body}");
        assert_eq!(post(&service, "/json/commit", body).await.0, 400, "{body}");
    }
    assert_eq!(left(&service, ADA).await, 100);
    for ttl in ["\"1s\"", "\"1.5s\"", "\"3600s\"", "\"59.999999999s\""] {
        assert_eq!(post(&service, "/json/reserve", &call(ttl)).await.0, 200, "{ttl}");
    }
}

#[tokio::test]
async fn reservation_of_web_page_is_refused() {
    let service = service(&ManualClock::default(), LIMITS);
    for path in ["/json/reserve", "/json/commit"] {
        for (headers, status) in [
            (&[("content-type", "text/plain")][..], 415),
            (&[("content-type", "application/json"), ("origin", "https://a.example")], 403),
        ] {
            let request = headers
                .iter()
                .fold(Request::post(path), |request, (name, value)| request.header(*name, *value));
            let response = service.json().oneshot(request.body(Body::from("{}")).unwrap()).await.unwrap();
            assert_eq!(response.status().as_u16(), status, "{path}");
        }
    }
}
