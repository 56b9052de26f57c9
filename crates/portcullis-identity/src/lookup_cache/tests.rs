use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;

use super::*;

type Cache = Arc<LookupCache<Option<u32>>>;

fn cache() -> Cache {
    Arc::new(LookupCache::new(Option::is_some, Option::is_none))
}

fn found(number: u32) -> BoxedLookup<Option<u32>> {
    Box::pin(async move { Some(number) })
}

const DEADLINE: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_result_is_used_until_its_time_is_over() {
    let cache = cache();
    assert_eq!(cache.join(1, DEADLINE, || found(7)).await, Some(Some(7)));
    tokio::time::advance(Duration::from_secs(59)).await;
    assert_eq!(cache.join(1, DEADLINE, || found(8)).await, Some(Some(7)));
    assert_eq!(cache.fresh(1), Some(Some(7)));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(cache.fresh(1), None);
    assert_eq!(cache.join(1, DEADLINE, || found(8)).await, Some(Some(8)));
}

#[tokio::test]
async fn a_result_that_is_not_kept_is_looked_up_again() {
    let cache = cache();
    assert_eq!(cache.join(1, DEADLINE, || Box::pin(async { None })).await, Some(None));
    assert_eq!(cache.fresh(1), None);
    assert_eq!(cache.join(1, DEADLINE, || found(8)).await, Some(Some(8)));
}

#[tokio::test]
async fn the_result_that_came_first_is_replaced() {
    let mut cache = LookupCache::new(Option::is_some, Option::is_none);
    cache.capacity = 3;
    let cache = Arc::new(cache);
    for id in [1, 2, 3, 1, 4] {
        assert!(cache.join(id, DEADLINE, || found(0)).await.is_some());
    }
    assert_eq!([1, 2, 3, 4].map(|id| cache.fresh(id).is_some()), [false, true, true, true]);
    let entries = cache.lock();
    assert_eq!((entries.results.len(), entries.order.len(), entries.running.len()), (3, 3, 0));
}

#[tokio::test]
async fn requests_with_one_id_share_a_look_up() {
    let (cache, starts) = (cache(), AtomicUsize::new(0));
    let look_up = || {
        starts.fetch_add(1, Ordering::Relaxed);
        Box::pin(async {
            tokio::task::yield_now().await;
            Some(5_u32)
        }) as BoxedLookup<Option<u32>>
    };
    let joined: Vec<_> = (0..50).map(|_| cache.join(1, DEADLINE, look_up)).collect();
    assert_eq!(cache.join(2, DEADLINE, || found(6)).await, Some(Some(6)));
    for one in joined {
        assert_eq!(one.await, Some(Some(5)));
    }
    assert_eq!(starts.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn thousands_wait_for_a_look_up_that_is_woken_often() {
    let cache = cache();
    let look_up = || {
        Box::pin(async {
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            Some(5_u32)
        }) as BoxedLookup<Option<u32>>
    };
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..5_000 {
        waiting.spawn(cache.join(1, DEADLINE, look_up));
    }
    let found = waiting.join_all().await;
    assert!(found.len() == 5_000 && found.iter().all(|one| *one == Some(Some(5))));
}

#[tokio::test]
async fn a_look_up_goes_on_when_the_request_that_started_it_leaves() {
    let cache = cache();
    let (send, receive) = tokio::sync::oneshot::channel();
    let mut first = Box::pin(cache.join(1, DEADLINE, || Box::pin(async { receive.await.ok() })));
    assert!(first.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let second = cache.join(1, DEADLINE, || found(0));
    let second = tokio::spawn(second);
    tokio::task::yield_now().await;
    drop(first);
    send.send(9).unwrap();
    assert_eq!(second.await.unwrap(), Some(Some(9)));
}

#[tokio::test]
async fn a_look_up_without_waiting_requests_is_dropped() {
    let cache = cache();
    let (send, receive) = tokio::sync::oneshot::channel::<u32>();
    drop(cache.join(1, DEADLINE, || Box::pin(async { receive.await.ok() })));
    assert!(send.is_closed());
    for id in 0..1_000 {
        drop(cache.join(id, DEADLINE, || Box::pin(std::future::pending())));
    }
    assert!(cache.lock().running.len() <= MIN_SWEEP);
    assert_eq!(cache.join(1, DEADLINE, || found(8)).await, Some(Some(8)));
}

#[tokio::test(start_paused = true)]
async fn a_look_up_that_hangs_is_not_joined_after_its_deadline() {
    let cache = cache();
    let hanging = cache.join(1, DEADLINE, || Box::pin(std::future::pending()));
    tokio::time::advance(DEADLINE).await;
    assert_eq!(cache.join(1, DEADLINE, || found(8)).await, Some(Some(8)));
    drop(hanging);
    assert_eq!(cache.fresh(1), Some(Some(8)));
}

#[tokio::test]
async fn those_that_wait_notice_a_panic_and_the_next_starts_anew() {
    let cache = cache();
    let panicking = cache.join(1, DEADLINE, || {
        Box::pin(async {
            tokio::task::yield_now().await;
            panic!("the look-up panics")
        })
    });
    let mut second = pin!(cache.join(1, DEADLINE, || found(0)));
    assert!(second.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert!(tokio::spawn(panicking).await.unwrap_err().is_panic());
    assert_eq!(second.await, None);
    assert_eq!(cache.join(1, DEADLINE, || found(8)).await, Some(Some(8)));
}
