//! Requests that are rejected because something is overloaded, by what.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::request::Parts;
use http::{Request, Response};
use portcullis_core::{Policy, Quota, StoreErrorKind};
use portcullis_tower::{Global, Lookup, PolicyExt as _, RateLimitLayer};
use tower::{Layer as _, Service, ServiceExt as _};

use crate::failing::{Mode, Setup};
use crate::support::{from_user, send};

/// Ready, but its clones never get ready.
struct ReadyOnce(bool);

impl Clone for ReadyOnce {
    fn clone(&self) -> Self {
        Self(false)
    }
}

impl Service<Request<String>> for ReadyOnce {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = Ready<Result<Response<String>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        if self.0 { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    fn call(&mut self, _: Request<String>) -> Self::Future {
        ready(Ok(Response::new(String::new())))
    }
}

#[tokio::test(start_paused = true)]
async fn each_cause_of_overload_is_counted_exactly() {
    let setup = Setup::new();
    let policy = |name| Policy::fixed_window(name, Quota::per_week(100));
    let layer = |limit| RateLimitLayer::new(Arc::clone(&setup.registry), limit);
    let plain = layer(policy("plain").by(Global));
    for (kind, requests) in [(StoreErrorKind::Overloaded, 3), (StoreErrorKind::Overtaken, 2)] {
        setup.set(Mode::fails(kind));
        for _ in 0..requests {
            assert_eq!(send(&plain, from_user("ada")).await, 503);
        }
    }
    setup.set(Mode::Ready);
    assert_eq!(send(&plain, from_user("ada")).await, 200);

    let looks_up = layer(policy("looked up").by_async(|_: &Parts| async {
        tokio::task::yield_now().await;
        Ok(Lookup::found("user", "ada"))
    }));
    setup.registry.max_waiting_requests(0);
    for _ in 0..4 {
        assert_eq!(send(&looks_up, from_user("ada")).await, 503);
    }
    setup.registry.max_waiting_requests(16);
    let late = looks_up.ready_deadline(Duration::from_secs(1));
    for _ in 0..6 {
        let response = late.layer(ReadyOnce(true)).oneshot(from_user("ada")).await.unwrap();
        assert_eq!(response.status(), 503);
    }
    setup.counted(
        &["portcullis_overloads_total", "portcullis_requests_total", "portcullis_unanswered_total"],
        &[
            ("portcullis_overloads_total{cause=\"store\"}", 5),
            ("portcullis_overloads_total{cause=\"waiting\"}", 4),
            ("portcullis_overloads_total{cause=\"not_ready\"}", 6),
            ("portcullis_requests_total{outcome=\"admitted\"}", 1),
            ("portcullis_requests_total{outcome=\"overloaded\"}", 15),
            ("portcullis_unanswered_total{kind=\"overloaded\"}", 3),
            ("portcullis_unanswered_total{kind=\"overtaken\"}", 2),
        ],
    );
}
