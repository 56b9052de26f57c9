//! A store in memory that fails when a test says so.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Request, Response, StatusCode};
use portcullis_core::store::{Checks, Outcome, Renewal, Renewed, Store, StoreFuture};
use portcullis_core::{
    Decision, Key, ManualClock, Policy, Receipt, Secret, Settlement, StoreError, StoreErrorKind,
};
use portcullis_memory::MemoryStore;
use portcullis_tower::{RateLimitLayer, Registry, ResponseBody, Usage};
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::support::Recorded;

#[derive(Clone, Debug)]
pub(crate) enum Mode {
    /// Answers at once.
    Ready,
    /// Answers when it is polled again.
    Later,
    /// Fails at once.
    Fails(StoreError),
}

impl Mode {
    pub(crate) fn fails(kind: StoreErrorKind) -> Self {
        Self::Fails(StoreError::new(kind, "a test"))
    }
}

struct Failing {
    inner: MemoryStore<ManualClock>,
    mode: Arc<Mutex<Mode>>,
}

impl Failing {
    fn answer<T: Send + Unpin + 'static>(
        &self,
        ask: impl FnOnce(&MemoryStore<ManualClock>) -> StoreFuture<T>,
    ) -> StoreFuture<T> {
        let mode = self.mode.lock().unwrap().clone();
        match mode {
            Mode::Ready => ask(&self.inner),
            Mode::Later => {
                let answer = ask(&self.inner);
                StoreFuture::boxed(async {
                    tokio::task::yield_now().await;
                    answer.await
                })
            }
            Mode::Fails(error) => StoreFuture::ready(Err(error)),
        }
    }
}

impl Store for Failing {
    fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        self.answer(|store| store.check(checks))
    }

    fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
        self.answer(|store| store.refund(receipt))
    }

    fn settle(&self, receipt: Receipt, cost: u64) -> StoreFuture<Settlement> {
        self.answer(|store| store.settle(receipt, cost))
    }

    fn renew(&self, renewals: Vec<Renewal>) -> StoreFuture<Vec<Renewed>> {
        self.answer(|store| store.renew(renewals))
    }

    fn reset(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        self.answer(|store| store.reset(policy, key))
    }
}

/// A registry over a store that fails, and its metrics.
pub(crate) struct Setup {
    pub(crate) registry: Arc<Registry>,
    pub(crate) recorded: Recorded,
    /// The clock of the store.
    pub(crate) clock: ManualClock,
    mode: Arc<Mutex<Mode>>,
}

impl Setup {
    pub(crate) fn new() -> Self {
        let (clock, mode) = (ManualClock::default(), Arc::new(Mutex::new(Mode::Ready)));
        let inner = MemoryStore::builder().clock(clock.clone()).build();
        let store = Failing { inner, mode: Arc::clone(&mode) };
        let registry = Arc::new(Registry::new(Arc::new(store), Secret::published()));
        let recorded = Recorded::new();
        recorded.metrics.observe(&registry);
        Self { registry, recorded, clock, mode }
    }

    pub(crate) fn set(&self, mode: Mode) {
        *self.mode.lock().unwrap() = mode;
    }

    /// Asserts the series that are not zero and whose names begin with one of these.
    #[track_caller]
    pub(crate) fn counted(&self, names: &[&str], expected: &[(&str, u64)]) {
        let expected = expected.iter().map(|(series, value)| ((*series).to_owned(), *value)).collect();
        assert_eq!(self.recorded.nonzero(names), expected);
    }
}

/// The response of a service that uses as many units of its reservation as the body of the request says.
pub(crate) async fn respond(layer: &RateLimitLayer, used: u64) -> Response<ResponseBody<String>> {
    respond_with(layer, used, StatusCode::OK).await
}

pub(crate) async fn respond_with(
    layer: &RateLimitLayer,
    used: u64,
    status: StatusCode,
) -> Response<ResponseBody<String>> {
    let service = layer.layer(service_fn(move |request: Request<String>| {
        if let Some(usage) = request.extensions().get::<Usage>() {
            usage.add(used);
        }
        let response = Response::builder().status(status).body(String::from("text")).unwrap();
        async { Ok::<_, Infallible>(response) }
    }));
    service.oneshot(Request::new(String::new())).await.unwrap()
}
