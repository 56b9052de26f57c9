//! The gRPC status of a check that is rejected.

use std::sync::Arc;

use portcullis_core::FailureMode;
use portcullis_tower::{PolicyExt as _, RateLimitHeaders, RateLimitLayer};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::{MAILS, check};
use crate::probe::{grpc, probed, send};
use crate::rejections::{MODES, store};
use crate::support::Mode;

#[tokio::test]
async fn the_status_is_that_of_a_layer() {
    for mode in MODES {
        let (_, registry) = store(mode);
        registry.headers(RateLimitHeaders::X_RATELIMIT | RateLimitHeaders::IETF);
        registry.reject_with(|_| unreachable!("gRPC has a fixed form"));
        let layer = RateLimitLayer::new(
            Arc::clone(&registry),
            MAILS
                .clone()
                .by(|_: &http::request::Parts, key: &mut portcullis_tower::KeyWriter<'_>| {
                    key.part("user", b"ada");
                    Ok(portcullis_tower::Identity::Found)
                })
                .cost(2),
        );
        assert!(check(&registry, &MAILS, "ada").await.is_ok());
        let of_layer = send(&probed(&layer).0, grpc(&[])).await;
        let status = Status::from(check(&registry, &MAILS, "ada").cost(2).await.unwrap_err());

        assert_eq!(status.code(), Code::ResourceExhausted);
        assert_eq!(status.get_details_retry_info().unwrap().retry_delay.unwrap().as_secs(), 3_600);
        assert_eq!(status.get_details_quota_failure().unwrap().violations[0].subject, "mails");
        let (mut sent, mut expected) = (status.into_http::<()>().headers().clone(), of_layer.headers);
        for headers in [&mut sent, &mut expected] {
            headers.remove("content-type");
        }
        // Tonic pads its base64.
        let details = sent.remove("grpc-status-details-bin").unwrap();
        let unpadded = expected.remove("grpc-status-details-bin").unwrap();
        assert_eq!(details.to_str().unwrap().trim_end_matches('='), unpadded.to_str().unwrap());
        for headers in [&mut sent, &mut expected] {
            headers.remove("grpc-message");
        }
        assert_eq!(sent, expected);
    }
}

#[tokio::test]
async fn failures_have_the_codes_of_a_layer() {
    let (store, registry) = store(Mode::Down);
    let closed = MAILS.clone().on_store_failure(FailureMode::Closed);
    let status = async |cost| Status::from(check(&registry, &closed, "ada").cost(cost).await.unwrap_err());
    assert_eq!(status(1).await.code(), Code::Unavailable);
    store.set(Mode::Ready);
    assert_eq!(status(3).await.code(), Code::InvalidArgument);
    let refused = Status::from(check(&registry, &MAILS, "ada").await.unwrap_err());
    assert_eq!(
        (refused.code(), refused.message()),
        (Code::Internal, "the server cannot tell who is calling")
    );
}
