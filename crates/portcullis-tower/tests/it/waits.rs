//! Policies whose requests wait instead of being rejected.

mod permits;
mod rates;
mod windows;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use portcullis_core::store::{Checks, Outcome, Store, StoreFuture};
use portcullis_core::{
    Clock, Decision, Key, Policy, Quota, Receipt, Secret, Settlement, StoreError, Timestamp,
};
use portcullis_memory::MemoryStore;
use portcullis_tower::{Limit, RateLimitLayer, Registry};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tower::util::BoxCloneService;
use tower::{Layer as _, Service as _, ServiceExt as _, service_fn};

/// Tokio's clock, which is paused in these tests. It starts at a whole hour.
#[derive(Clone)]
struct Virtual(Instant);

impl Clock for Virtual {
    fn now(&self) -> Timestamp {
        Timestamp::EPOCH.saturating_add(Duration::from_secs(3_600_000) + self.0.elapsed())
    }
}

/// A store in memory that counts its checks, and answers after `latency`.
struct Counted {
    memory: MemoryStore<Virtual>,
    latency: Duration,
    checks: AtomicUsize,
}

impl Counted {
    fn answer<T: Send + 'static>(&self, answer: StoreFuture<T>) -> StoreFuture<T> {
        let latency = self.latency;
        if latency.is_zero() {
            return answer;
        }
        let answer: Result<T, StoreError> = answer.into_ready().expect("a memory store answers at once");
        StoreFuture::boxed(async move {
            tokio::time::sleep(latency).await;
            answer
        })
    }
}

impl Store for Counted {
    fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        self.checks.fetch_add(1, Relaxed);
        self.answer(self.memory.check(checks))
    }

    fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
        self.answer(self.memory.refund(receipt))
    }

    fn settle(&self, receipt: Receipt, cost: u64) -> StoreFuture<Settlement> {
        self.answer(self.memory.settle(receipt, cost))
    }

    fn reset(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        self.answer(self.memory.reset(policy, key))
    }
}

/// A service under a layer, and the requests that reached it, each with the time in milliseconds.
struct Server {
    start: Instant,
    store: Arc<Counted>,
    registry: Arc<Registry>,
    passed: Arc<Mutex<Vec<(u32, u128)>>>,
    service: BoxCloneService<Request<String>, (u16, Option<String>), Infallible>,
}

impl Server {
    fn new(latency: Duration, layer: impl FnOnce(LayerFor) -> RateLimitLayer) -> Self {
        let start = Instant::now();
        let memory = MemoryStore::builder().clock(Virtual(start)).build();
        let store = Arc::new(Counted { memory, latency, checks: AtomicUsize::new(0) });
        let registry = Arc::new(Registry::new(Arc::clone(&store) as Arc<dyn Store>, Secret::published()));
        let passed = Arc::<Mutex<Vec<_>>>::default();
        let list = Arc::clone(&passed);
        let inner = service_fn(move |request: Request<String>| {
            let number = request.headers()["number"].to_str().unwrap().parse().unwrap();
            list.lock().unwrap().push((number, start.elapsed().as_millis()));
            let takes =
                request.headers().get("takes").map(|millis| millis.to_str().unwrap().parse().unwrap());
            async move {
                if let Some(millis) = takes {
                    tokio::time::sleep(Duration::from_millis(millis)).await;
                }
                Ok::<_, Infallible>(Response::new(()))
            }
        });
        let service =
            layer(LayerFor(Arc::clone(&registry))).layer(inner).map_response(|response: Response<_>| {
                let retry =
                    response.headers().get("retry-after").map(|retry| retry.to_str().unwrap().to_owned());
                (response.status().as_u16(), retry)
            });
        let service = BoxCloneService::new(service);
        Self { start, store, registry, passed, service }
    }

    fn call(
        &self,
        number: u32,
        headers: &[(&str, &str)],
    ) -> Pin<Box<dyn Future<Output = (u16, Option<String>)> + Send>> {
        let mut request = Request::builder().header("number", number);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut service = self.service.clone();
        // The store is called here, whether the response is awaited or not.
        let response = service.call(request.body(String::new()).unwrap());
        Box::pin(async move { response.await.unwrap() })
    }

    fn send(&self, number: u32) -> JoinHandle<(u16, Option<String>)> {
        tokio::spawn(self.call(number, &[]))
    }

    fn send_as(&self, number: u32, user: &str) -> JoinHandle<(u16, Option<String>)> {
        tokio::spawn(self.call(number, &[("x-user", user)]))
    }

    /// The requests that reached the service.
    fn passed(&self) -> Vec<(u32, u128)> {
        self.passed.lock().unwrap().clone()
    }

    fn checks(&self) -> usize {
        self.store.checks.load(Relaxed)
    }

    async fn sleep_until(&self, millis: u64) {
        tokio::time::sleep_until(self.start + Duration::from_millis(millis)).await;
    }
}

/// Starts the layers of a server.
struct LayerFor(Arc<Registry>);

impl LayerFor {
    fn limit(self, limit: Limit) -> RateLimitLayer {
        RateLimitLayer::new(self.0, limit)
    }
}

async fn statuses(responses: Vec<JoinHandle<(u16, Option<String>)>>) -> Vec<u16> {
    let mut statuses = Vec::new();
    for response in responses {
        statuses.push(response.await.unwrap().0);
    }
    statuses
}

fn per_second(limit: u64) -> Quota {
    Quota::per_second(limit)
}

const SECOND: Duration = Duration::from_secs(1);
