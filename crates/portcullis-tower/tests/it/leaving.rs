//! Requests that leave a queue before their slot.

mod edges;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use portcullis_core::store::{Checks, Outcome, Store, StoreFuture};
use portcullis_core::{Clock, Decision, Key, Policy, Quota, Receipt, Secret, Settlement, Timestamp};
use portcullis_memory::MemoryStore;
use portcullis_tower::{Charge, Global, Lookup, PolicyExt as _, RateLimitLayer, Registry};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tower::util::BoxCloneService;
use tower::{Layer as _, Service as _, ServiceExt as _, service_fn};

/// Tokio's clock, which is paused in these tests.
#[derive(Clone)]
pub(crate) struct Virtual(pub(crate) Instant);

impl Clock for Virtual {
    fn now(&self) -> Timestamp {
        Timestamp::EPOCH.saturating_add(Duration::from_secs(1_000) + self.0.elapsed())
    }
}

/// A store that decides at once, and answers after `latency`.
pub(crate) struct Slow {
    pub(crate) memory: MemoryStore<Virtual>,
    pub(crate) latency: Duration,
}

impl Slow {
    fn answer<T: Send + 'static>(&self, answer: StoreFuture<T>) -> StoreFuture<T> {
        let latency = self.latency;
        if latency.is_zero() {
            return answer;
        }
        let answer = answer.into_ready().expect("a memory store answers at once");
        StoreFuture::boxed(async move {
            tokio::time::sleep(latency).await;
            answer
        })
    }
}

impl Store for Slow {
    fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
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

/// A service with a queue, and the requests that reached it, each with the time in milliseconds.
struct Queue {
    start: Instant,
    store: Arc<Slow>,
    passed: Arc<Mutex<Vec<(u32, u128)>>>,
    service: BoxCloneService<Request<String>, u16, Infallible>,
}

impl Queue {
    /// One request per second, and up to `burst` in the queue.
    fn new(burst: u64, latency: Duration) -> Self {
        let start = Instant::now();
        let memory = MemoryStore::builder().clock(Virtual(start)).build();
        Self::of(start, Arc::new(Slow { memory, latency }), |registry| queue(registry, burst))
    }

    fn of(start: Instant, store: Arc<Slow>, layer: impl FnOnce(Arc<Registry>) -> RateLimitLayer) -> Self {
        let passed = Arc::<Mutex<Vec<_>>>::default();
        let list = Arc::clone(&passed);
        let inner = service_fn(move |request: Request<String>| {
            let number = request.headers()["number"].to_str().unwrap().parse().unwrap();
            list.lock().unwrap().push((number, start.elapsed().as_millis()));
            let refunds = request.headers().contains_key("refund");
            let charge = request.extensions().get::<Charge>().cloned();
            async move {
                if refunds {
                    tokio::time::sleep(Duration::from_millis(1_500)).await;
                    charge.unwrap().refund().await.unwrap();
                }
                Ok::<_, Infallible>(Response::new(()))
            }
        });
        let registry = Arc::new(Registry::new(Arc::clone(&store) as Arc<dyn Store>, Secret::published()));
        let service =
            layer(registry).layer(inner).map_response(|response: Response<_>| response.status().as_u16());
        let service = BoxCloneService::new(service);
        Self { start, store, passed, service }
    }

    fn call(&self, number: u32, headers: &[(&str, &str)]) -> Pin<Box<dyn Future<Output = u16> + Send>> {
        let mut request = Request::builder().header("number", number);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut service = self.service.clone();
        // The store is called here, whether the response is awaited or not.
        let response = service.call(request.body(String::new()).unwrap());
        Box::pin(async move { response.await.unwrap() })
    }

    fn send(&self, number: u32) -> JoinHandle<u16> {
        tokio::spawn(self.call(number, &[]))
    }

    fn passed(&self) -> Vec<(u32, u128)> {
        self.passed.lock().unwrap().clone()
    }
}

fn queue(registry: Arc<Registry>, burst: u64) -> RateLimitLayer {
    let policy = Policy::leaky_bucket("queue", Quota::per_second(1).burst(burst));
    let cost = |parts: &http::request::Parts| {
        parts.headers.get("cost").map_or(1, |cost| cost.to_str().unwrap().parse().unwrap())
    };
    RateLimitLayer::new(registry, policy.by(Global).cost_by(cost)).with_charge()
}

const AT_ONCE: Duration = Duration::ZERO;
const LATER: Duration = Duration::from_millis(2);

/// Long enough for answers of the store.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}

/// Waits for all requests, and returns those that reached the service, each with its second.
async fn seconds(queue: &Queue, sent: impl IntoIterator<Item = JoinHandle<u16>>) -> Vec<(u32, u128)> {
    for request in sent {
        // A request that was aborted has no answer.
        drop(request.await);
    }
    queue.passed().iter().map(|(number, at)| (*number, at / 1_000)).collect()
}

#[tokio::test(start_paused = true)]
async fn requests_behind_move_up_and_the_last_slot_is_refunded() {
    for latency in [AT_ONCE, LATER] {
        let queue = Queue::new(5, latency);
        let mut sent: Vec<_> = (0..5).map(|number| queue.send(number)).collect();
        settle().await;
        for left in [1, 3] {
            sent[left].abort();
        }
        settle().await;
        // The queue accepts two of three.
        sent.extend([5, 6, 7].map(|number| queue.send(number)));
        let passed = seconds(&queue, sent).await;
        assert_eq!(passed, [(0, 0), (2, 1), (4, 2), (5, 3), (6, 4)], "{latency:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_queue_is_empty_after_all_requests_have_left() {
    for latency in [AT_ONCE, LATER] {
        let queue = Queue::new(50, latency);
        for round in 0..20 {
            let sent: Vec<_> = (0..50).map(|number| queue.send(100 * round + number)).collect();
            settle().await;
            sent.iter().for_each(JoinHandle::abort);
            settle().await;
        }
        let sent: Vec<_> = (5_000..5_010).map(|number| queue.send(number)).collect();
        let passed = seconds(&queue, sent).await;
        // Only the first request had its turn: the rounds take less than a second.
        let expected: Vec<_> = (1..11).map(|second| (4_999 + second, u128::from(second))).collect();
        assert_eq!(passed[0], (0, 0), "{latency:?}");
        assert_eq!(passed[1..], expected, "{latency:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slot_charged_after_its_request_left_is_given_up() {
    let queue = Queue::new(5, LATER);
    for round in 0..20 {
        let calls: Vec<_> = (0..5).map(|number| queue.call(100 * round + number, &[])).collect();
        // The store has not answered yet.
        drop(calls);
        settle().await;
    }
    let sent: Vec<_> = (5_000..5_003).map(|number| queue.send(number)).collect();
    let passed = seconds(&queue, sent).await;
    // The slot at 0 s has passed without a request.
    assert_eq!(passed, [(5_000, 1), (5_001, 2), (5_002, 3)]);
}

#[tokio::test(start_paused = true)]
async fn slots_are_reused_at_the_same_cost_only() {
    for latency in [AT_ONCE, LATER] {
        let queue = Queue::new(9, latency);
        let cost = |number, cost| tokio::spawn(queue.call(number, &[("cost", cost)]));
        // Slots at 0, 1, 2 to 3, 4, 5 to 6, 7 s.
        let mut sent =
            vec![cost(0, "1"), cost(1, "1"), cost(2, "2"), cost(3, "1"), cost(4, "2"), cost(5, "1")];
        settle().await;
        sent[1].abort();
        settle().await;
        // Only the last slot is free again.
        sent.extend([cost(6, "1"), cost(7, "1"), cost(8, "1"), cost(9, "1")]);
        let passed = seconds(&queue, sent).await;
        let expected = [(0, 0), (3, 1), (2, 2), (5, 4), (4, 5), (6, 7), (7, 8)];
        assert_eq!(passed, expected, "{latency:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn slots_before_those_of_another_process_are_kept() {
    for latency in [AT_ONCE, LATER] {
        let here = Queue::new(6, latency);
        let there = Queue::of(here.start, Arc::clone(&here.store), |registry| queue(registry, 6));
        let mut sent = Vec::new();
        for (number, queue) in [(0, &here), (1, &here), (2, &there), (3, &here), (4, &there)] {
            sent.push(queue.send(number));
            settle().await;
        }
        for left in [1, 3] {
            sent[left].abort();
            settle().await;
        }
        // A slot of the other process is behind each of the two, so that neither can be refunded. The next request here takes
        // the first of them, and its own slot, the last of all, is refunded.
        for number in 5..8 {
            sent.push(here.send(number));
            settle().await;
        }
        sent.push(there.send(8));
        let passed = seconds(&here, sent).await;
        assert_eq!(passed, [(0, 0), (5, 1), (6, 3), (7, 5)], "{latency:?}");
        assert_eq!(seconds(&there, []).await, [(2, 2), (4, 4)], "{latency:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_rejected_after_a_look_up_gives_its_slot_up() {
    for latency in [AT_ONCE, LATER] {
        let start = Instant::now();
        let memory = MemoryStore::builder().clock(Virtual(start)).build();
        let queue = Queue::of(start, Arc::new(Slow { memory, latency }), |registry| {
            let tenants = Policy::fixed_window("tenants", Quota::per_day(100));
            queue(registry, 5).and(tenants.by_async(|parts: &http::request::Parts| {
                let is_known = parts.headers.contains_key("x-tenant");
                async move {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    Ok(if is_known { Lookup::found("tenant", "acme") } else { Lookup::missing() })
                }
            }))
        });
        let known = |number| tokio::spawn(queue.call(number, &[("x-tenant", "acme")]));
        let mut sent = vec![known(0), known(1), queue.send(2), queue.send(3), known(4)];
        settle().await;
        settle().await;
        // Two leave during the check or the look-up.
        let gone = [queue.call(5, &[]), queue.call(6, &[])];
        settle().await;
        drop(gone);
        settle().await;
        sent.extend([known(7), known(8), known(9)]);
        let passed = seconds(&queue, sent).await;
        assert_eq!(passed, [(0, 0), (1, 1), (4, 2), (7, 3), (8, 4)], "{latency:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_moved_up_is_refunded_for_its_new_slot() {
    let queue = Queue::new(9, AT_ONCE);
    let mut sent: Vec<_> = (0..5).map(|number| queue.send(number)).collect();
    sent[1..4].iter().for_each(JoinHandle::abort);
    sent.push(tokio::spawn(queue.call(5, &[("refund", "1")])));
    // Request 5 goes at 2 s and is refunded at 3.5 s, when its slot has passed: nothing is freed.
    sent.extend([6, 7, 8].map(|number| queue.send(number)));
    tokio::time::sleep(Duration::from_millis(3_600)).await;
    sent.extend([9, 10].map(|number| queue.send(number)));
    let passed = seconds(&queue, sent).await;
    let expected: Vec<_> = [0, 4, 5, 6, 7, 8, 9, 10].into_iter().zip(0..).collect();
    assert_eq!(passed, expected);
}

/// Random arrivals and departures.
#[tokio::test(start_paused = true)]
async fn departures_keep_the_spacing_and_lose_no_slot() {
    for (seed, latency) in [(1_u64, AT_ONCE), (2, AT_ONCE), (3, LATER), (4, LATER), (5, LATER)] {
        let queue = Queue::new(20, latency);
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut waiting: Vec<JoinHandle<u16>> = Vec::new();
        for number in 0..400 {
            waiting.push(queue.send(number));
            if rng.u64(..3) > 0 && !waiting.is_empty() {
                let left = rng.usize(..waiting.len());
                waiting.swap_remove(left).abort();
            }
            if rng.u64(..4) == 0 {
                tokio::time::sleep(Duration::from_millis(rng.u64(..1_500))).await;
            }
        }
        settle().await;
        // The queue accepts as many requests as it has slots without a waiting request.
        let in_queue = waiting.iter().filter(|request| !request.is_finished()).count();
        let free = 20_usize.saturating_sub(in_queue);
        let more: Vec<_> = (1_000..1_030).map(|number| queue.send(number)).collect();
        settle().await;
        let denied = more.iter().filter(|request| request.is_finished()).count();
        assert!((30 - free..=31 - free).contains(&denied), "seed {seed}: {denied} denied, {free} free slots");
        seconds(&queue, waiting.into_iter().chain(more)).await;
        let times: Vec<_> = queue.passed().iter().map(|(_, at)| *at).collect();
        let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(gaps.min().unwrap() >= 995, "seed {seed}: {times:?}");
    }
}
