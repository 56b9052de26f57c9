//! Requests that are not polled, several queues in one decision, and a full queue.

use std::task::{Context, Poll, Wake, Waker};

use super::*;

#[tokio::test(start_paused = true)]
async fn an_unpolled_request_delays_no_other() {
    let queue = Queue::new(5, AT_ONCE);
    let first = queue.send(0);
    let unpolled = queue.call(1, &[]);
    let sent = vec![first, queue.send(2), queue.send(3)];
    let passed = seconds(&queue, sent).await;
    assert_eq!(passed, [(0, 0), (2, 2), (3, 3)]);
    assert_eq!(tokio::spawn(unpolled).await.unwrap(), 200);
    assert_eq!(queue.passed().last(), Some(&(1, 3_000)));
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_was_due_is_not_used_later() {
    let queue = Queue::new(5, AT_ONCE);
    let first = queue.send(0);
    let unpolled = queue.call(1, &[]);
    let sent = vec![first, queue.send(2), queue.send(3)];
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    // Request 2 went at 2 s, in the first slot. With the slot at 2 s, request 3 would go half a second after it.
    drop(unpolled);
    assert_eq!(seconds(&queue, sent).await, [(0, 0), (2, 2), (3, 3)]);
    assert_eq!(queue.passed()[2], (3, 3_000));
}

#[tokio::test(start_paused = true)]
async fn a_request_in_several_queues_gives_the_last_slots_up() {
    for latency in [AT_ONCE, LATER] {
        let start = Instant::now();
        let memory = MemoryStore::builder().clock(Virtual(start)).build();
        let queue = Queue::of(start, Arc::new(Slow { memory, latency }), |registry| {
            let other = Policy::leaky_bucket("other", Quota::per_second(1).burst(5));
            queue(registry, 5).and(other.by(Global))
        });
        let mut sent: Vec<_> = (0..5).map(|number| queue.send(number)).collect();
        settle().await;
        // The slot at 2 s is in the middle of both queues, and is lost. The slot at 4 s is the last.
        for left in [2, 4] {
            sent[left].abort();
            settle().await;
        }
        sent.extend([5, 6].map(|number| queue.send(number)));
        assert_eq!(seconds(&queue, sent).await, [(0, 0), (1, 1), (3, 3), (5, 4)], "{latency:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_wait_does_not_reach_the_store() {
    let start = Instant::now();
    let memory = MemoryStore::builder().clock(Virtual(start)).build();
    let store = Arc::new(Slow { memory, latency: LATER });
    let mut full = None;
    let queue = Queue::of(start, Arc::clone(&store), |registry| {
        registry.max_waiting_requests(2);
        full = Some(Arc::clone(&registry));
        queue(registry, 5)
    });
    let sent: Vec<_> = (0..3).map(|number| queue.send(number)).collect();
    settle().await;
    let asked = Instant::now();
    assert_eq!(queue.send(3).await.unwrap(), 503);
    assert_eq!(asked.elapsed(), Duration::ZERO, "the store answers later");
    // A request that need not wait passes: another policy's queue is empty.
    let other = Policy::leaky_bucket("other", Quota::per_second(1).burst(5));
    let layer = RateLimitLayer::new(full.unwrap(), other.by(Global));
    let inner = service_fn(|_: Request<String>| async { Ok::<_, Infallible>(Response::new(())) });
    let response = layer.layer(inner).oneshot(Request::new(String::new())).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(seconds(&queue, sent).await, [(0, 0), (1, 1), (2, 2)]);
}

/// A waker that drops a request when it is dropped, like the wakers of an executor whose tasks are owned by their wakers.
struct Owner {
    _request: Mutex<Pin<Box<dyn Future<Output = u16> + Send>>>,
}

impl Wake for Owner {
    fn wake(self: Arc<Self>) {}
}

#[tokio::test(start_paused = true)]
async fn a_waker_may_drop_another_request_of_the_queue() {
    let queue = Queue::new(9, AT_ONCE);
    let first = queue.send(0);
    let owner = |number| Waker::from(Arc::new(Owner { _request: Mutex::new(queue.call(number, &[])) }));
    let mut requests: Vec<_> = (1..4).map(|number| queue.call(number, &[])).collect();
    for (request, number) in requests.iter_mut().zip(4..) {
        // The queue keeps the only reference to the waker.
        assert_eq!(request.as_mut().poll(&mut Context::from_waker(&owner(number))), Poll::Pending);
    }
    let mut requests = requests.into_iter();
    // One waker is replaced, one is dropped with its request, and one is used.
    let mut polled = requests.next().unwrap();
    assert_eq!(polled.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending);
    drop(requests.next());
    drop(polled);
    let sent = vec![first, queue.send(7), tokio::spawn(requests.next().unwrap())];
    assert_eq!(seconds(&queue, sent).await, [(0, 0), (3, 1), (7, 2)]);
}
