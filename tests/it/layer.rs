//! The layer as a system under test for scenarios.

use std::any::Any;
use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::Response;
use http_body_util::Empty;
use portcullis::key::{Identity, Key, KeyWriter};
use portcullis::store::{Checks, Store};
use portcullis::{Decision, Policy, Receipt, Retry, Secret, Settlement, Timestamp};
use portcullis_core::overrides::Block;
use portcullis_core::{StoreError, StoreErrorKind, Strategy};
use portcullis_memory::MemoryStore;
use portcullis_testing::{
    Checked, ManualClock, OverrideChange, StoreSubject, SubjectFuture, SystemUnderTest,
};
use portcullis_tower::{KeyError, PolicyExt as _, RateLimitLayer, Registry};
use tower::{Layer as _, ServiceExt as _, service_fn};

type Request = axum::http::Request<Empty<Bytes>>;

/// Sends every check as a request to a service under the layer, on a memory store.
pub(crate) struct LayerSubject {
    store: Arc<dyn Store>,
    clock: ManualClock,
    secret: Secret,
    /// The responses of requests that stay in flight.
    held: Vec<Box<dyn Any + Send>>,
}

impl LayerSubject {
    pub(crate) fn new() -> Self {
        let clock = ManualClock::default();
        let store = Arc::new(MemoryStore::builder().clock(clock.clone()).swept_per_check(0).build());
        Self { store, clock, secret: Secret::published(), held: Vec::new() }
    }

    /// Builds a layer for one request, because the quotas of a scenario change.
    fn layer(&self, checks: &Checks) -> RateLimitLayer {
        let limits = checks.iter().map(|check| {
            let (key, cost) = (check.key, check.cost);
            let by = move |_: &axum::http::request::Parts, writer: &mut KeyWriter<'_>| {
                write(key, writer);
                Ok::<_, KeyError>(Identity::Found)
            };
            check.policy.clone().by(by).cost(cost)
        });
        let registry = Arc::new(Registry::new(Arc::clone(&self.store), self.secret.clone()));
        RateLimitLayer::try_new(registry, limits).expect("the limits are valid").decision_in_response()
    }

    /// The key that the layer derives from a scenario's key.
    fn key_of(&self, key: Key) -> Key {
        let mut hasher = self.secret.hasher();
        write(key, &mut hasher.writer());
        hasher.finish().expect("a part was written")
    }

    async fn request(&mut self, checks: &Checks) -> Decision {
        let service = self.layer(checks).layer(service_fn(async |_: Request| {
            let unended = Body::from_stream(tokio_stream::pending::<Result<Bytes, Infallible>>());
            Ok::<_, Infallible>(Response::new(unended))
        }));
        let response = service.oneshot(Request::default()).await.unwrap();
        let decision = response.extensions().get::<Decision>().cloned().unwrap();
        let status = match decision.retry() {
            None => 200,
            Some(Retry::After(_) | Retry::Unknown) => 429,
            Some(Retry::Never) => 400,
        };
        assert_eq!(response.status(), status);
        assert_eq!(response.headers()["x-ratelimit-remaining"], decision.remaining().to_string());
        if checks.iter().any(|check| matches!(check.policy.strategy(), Strategy::InFlight(_))) {
            self.held.push(Box::new(response));
        }
        decision
    }
}

/// Writes a scenario's key as an identity, from which the layer derives its own key.
fn write(key: Key, writer: &mut KeyWriter<'_>) {
    writer.part("scenario", &key.fingerprint().to_be_bytes());
}

impl SystemUnderTest for LayerSubject {
    fn check(&mut self, now: Timestamp, checks: Checks) -> SubjectFuture<'_, Checked> {
        self.clock.set(now);
        Box::pin(async move { Ok(self.request(&checks).await.into()) })
    }

    fn refund(&mut self, _: Timestamp, _: Receipt) -> SubjectFuture<'_, Decision> {
        Box::pin(async { Err(no_receipts()) })
    }

    fn settle(&mut self, _: Timestamp, _: Receipt, _: u64) -> SubjectFuture<'_, Settlement> {
        Box::pin(async { Err(no_receipts()) })
    }

    fn reset<'a>(&'a mut self, now: Timestamp, policy: &'a Policy, key: Key) -> SubjectFuture<'a, ()> {
        self.clock.set(now);
        Box::pin(self.store.reset(policy, self.key_of(key)))
    }

    fn change_override<'a>(
        &'a mut self,
        now: Timestamp,
        policy: &'a Policy,
        key: Key,
        change: OverrideChange,
    ) -> SubjectFuture<'a, Option<Block>> {
        let mut store = StoreSubject::new(Arc::clone(&self.store), self.clock.clone());
        let key = self.key_of(key);
        Box::pin(async move { store.change_override(now, policy, key, change).await })
    }

    fn keeps_overrides(&self) -> bool {
        true
    }

    fn hands_out_receipts(&self) -> bool {
        false
    }
}

fn no_receipts() -> StoreError {
    StoreError::new(StoreErrorKind::Unsupported, "a layer returns no receipts")
}
