//! A store that does not answer.

use std::time::Duration;

use portcullis::store::{Checks, Outcome, Receipt, Settlement, Store, StoreErrorKind, StoreFuture};
use portcullis::{Decision, FailureMode, Limiter, Policy, Secret, StoreError};

use super::*;
use crate::CallError;

/// Fails with errors of one kind.
struct Down(StoreErrorKind);

impl Down {
    fn answer<T: Send + 'static>(&self) -> StoreFuture<T> {
        StoreFuture::ready(Err(StoreError::new(self.0, "no connection to 192.0.2.7")))
    }
}

impl Store for Down {
    fn check(&self, _: Checks) -> StoreFuture<Outcome> {
        self.answer()
    }
    fn refund(&self, _: Receipt) -> StoreFuture<Decision> {
        self.answer()
    }
    fn settle(&self, _: Receipt, _: u64) -> StoreFuture<Settlement> {
        self.answer()
    }
    fn reset(&self, _: &Policy, _: portcullis::key::Key) -> StoreFuture<()> {
        self.answer()
    }
}

fn down(kind: StoreErrorKind, mode: FailureMode) -> RateLimitService {
    let limits = "{domain: shop, descriptors: [{key: user, rate_limit: {unit: day, requests_per_unit: 1}}, \
                  {key: tried, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}]}";
    let limiter = Limiter::new(Down(kind), Secret::published());
    RateLimitService::envoy(limiter, descriptors(limits)).on_store_failure(mode)
}

#[tokio::test]
async fn an_instance_enforces_limits_by_itself() {
    let service = down(StoreErrorKind::Unavailable, FailureMode::local(1));
    let ada = call(&[&[("user", "ada")]]);
    assert!(outcome(&service, &ada).await.0);
    assert!(!outcome(&service, &ada).await.0);
}

#[tokio::test]
async fn a_closed_limit_fails_the_call_as_unavailable() {
    let service = down(StoreErrorKind::TimedOut, FailureMode::Closed);
    let error = service.decide(&call(&[&[("user", "ada")]])).await.unwrap_err();
    assert!(matches!(error, CallError::StoreFailed) && !error.is_invalid_argument());
    let status = tonic::Status::from(error);
    assert_eq!(status.code(), tonic::Code::Unavailable);
    assert!(!status.message().contains("192.0.2.7"), "no address of a server");
    let tried = service.decide(&call(&[&[("tried", "x")]])).await.unwrap();
    assert_eq!(tried.overall_code(), Code::Ok, "a shadow limit does not concern the call");
}

#[tokio::test]
async fn an_open_limit_admits_without_figures_but_not_in_overload() {
    for mode in [FailureMode::Open, FailureMode::OpenFor(Duration::from_secs(9))] {
        let service = down(StoreErrorKind::Unavailable, mode);
        for _ in 0..3 {
            let response = decide(&service, &call(&[&[("user", "ada")]])).await;
            assert_eq!((response.overall_code(), &response.statuses[0].current_limit), (Code::Ok, &None));
        }
        let overloaded = down(StoreErrorKind::Overloaded, mode);
        assert!(overloaded.decide(&call(&[&[("user", "ada")]])).await.is_err());
    }
}
