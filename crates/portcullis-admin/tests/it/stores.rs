//! Stores that fail or do not answer.

use std::time::Duration;

use portcullis_core::store::{Checks, Outcome, Receipt, Settlement, Store, StoreFuture};
use portcullis_core::{Decision, Key, Policy, StoreError, StoreErrorKind};
use serde_json::json;

use crate::privacy::Captured;
use crate::support::{Limited, of, registry, secret, with};

/// Fails with an error, or never answers.
pub(crate) struct Failing(pub(crate) Option<StoreErrorKind>);

impl Failing {
    fn answer<T: Send + 'static>(&self) -> StoreFuture<T> {
        match self.0 {
            Some(kind) => StoreFuture::ready(Err(StoreError::new(kind, "no connection"))),
            None => StoreFuture::boxed(std::future::pending()),
        }
    }
}

impl Store for Failing {
    fn check(&self, _: Checks) -> StoreFuture<Outcome> {
        self.answer()
    }

    fn refund(&self, _: Receipt) -> StoreFuture<Decision> {
        self.answer()
    }

    fn settle(&self, _: Receipt, _: u64) -> StoreFuture<Settlement> {
        self.answer()
    }

    fn reset(&self, _: &Policy, _: Key) -> StoreFuture<()> {
        self.answer()
    }
}

/// A store that is asked for nothing.
pub(crate) struct Unasked;

impl Store for Unasked {
    fn check(&self, _: Checks) -> StoreFuture<Outcome> {
        unreachable!("the store is asked")
    }

    fn refund(&self, _: Receipt) -> StoreFuture<Decision> {
        unreachable!("the store is asked")
    }

    fn settle(&self, _: Receipt, _: u64) -> StoreFuture<Settlement> {
        unreachable!("the store is asked")
    }

    fn reset(&self, _: &Policy, _: Key) -> StoreFuture<()> {
        unreachable!("the store is asked")
    }
}

/// A program that repeats a change, or a person, has to know.
#[tokio::test]
async fn a_change_of_unknown_fate_says_so() {
    let captured = Captured::start();
    let limited = Limited::on(registry(Failing(Some(StoreErrorKind::TimedOut)), secret()));
    let reset = limited.post("/v1/reset", &of("ada")).await;
    assert_eq!(reset.problem(), (503, None));
    assert!(reset.text.contains("may have been made"), "{reset:?}");
    let line = captured.take_line("portcullis::audit");
    assert!(line.contains(" code=PC904 ") && line.contains("outcome=\"unknown\""), "{line}");
    assert!(!limited.post("/v1/budget", &of("ada")).await.text.contains("may have been made"));
}

#[tokio::test]
async fn a_failing_store_is_a_problem_and_unhealthy() {
    let captured = Captured::start();
    let limited = Limited::on(registry(Failing(Some(StoreErrorKind::Unavailable)), secret()));
    assert_eq!(limited.post("/v1/budget", &of("ada")).await.problem(), (503, None));
    assert_eq!(limited.post("/v1/reset", &of("ada")).await.problem(), (503, None));
    assert!(captured.take_line("portcullis::audit").contains("outcome=\"failed\""));
    // It keeps no blocks.
    let block = with(of("ada"), &json!({ "duration_seconds": 60 }));
    assert_eq!(limited.post("/v1/block", &block).await.problem(), (501, None));

    assert_eq!(limited.get("/v1/snapshot").await.json()["store"]["healthy"], true, "no layer has asked it");
    assert_eq!(limited.request("ada").await, 503);
    let snapshot = limited.get("/v1/snapshot").await.json();
    assert_eq!(
        (&snapshot["store"]["healthy"], &snapshot["recent"][0]["reason"]),
        (&json!(false), &json!("store_failed"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_silent_store_is_a_problem_after_the_deadline() {
    let captured = Captured::start();
    let limited = Limited::on(registry(Failing(None), secret()));
    assert_eq!(limited.post("/v1/budget", &of("ada")).await.problem(), (503, None));
    assert_eq!(limited.post("/v1/reset", &of("ada")).await.problem(), (503, None));
    assert!(captured.take_line("portcullis::audit").contains("outcome=\"unknown\""));
    // A caller that does not wait leaves an audit event as well.
    let body = of("ada");
    let abandoned = tokio::time::timeout(Duration::from_millis(1), limited.post("/v1/reset", &body)).await;
    assert!(abandoned.is_err());
    assert!(captured.take_line("portcullis::audit").contains("outcome=\"unknown\""));
}
