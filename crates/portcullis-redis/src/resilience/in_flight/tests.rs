use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::JoinSet;
use tokio::time::advance;

use super::state::Entered;
use super::*;
use crate::transport::QueueKey;

const DEADLINE: Duration = Duration::from_millis(50);

/// A limit, and a breaker that is closed.
fn limit(permits: usize, max_waiting: usize) -> (Arc<InFlightLimit>, Arc<Breaker>) {
    (InFlightLimit::new(permits, max_waiting), Breaker::new(Arc::default(), Arc::default()))
}

fn of(key: u128) -> QueueKey<'static> {
    QueueKey::new(Some(key), &|| false)
}

async fn acquire(
    limit: &Arc<InFlightLimit>,
    breaker: &Arc<Breaker>,
    queue: QueueKey<'_>,
) -> Result<Permit, CallError> {
    limit.acquire(queue, breaker, Instant::now() + DEADLINE, DEADLINE).await
}

impl InFlightLimit {
    async fn acquire(
        self: &Arc<Self>,
        queue: QueueKey<'_>,
        breaker: &Breaker,
        end: Instant,
        deadline: Duration,
    ) -> Result<Permit, CallError> {
        match self.enter(queue.key) {
            super::Entered::Permit(permit) => Ok(permit),
            super::Entered::Waiting(waiting) => waiting.permit(queue.is_denied, breaker, end, deadline).await,
            super::Entered::Full => Err(CallError::Overloaded),
        }
    }

    /// A permit without a wait.
    fn take(self: &Arc<Self>, key: Option<u128>) -> Option<Permit> {
        match self.with(|state| state.enter(key)) {
            Entered::Permit => Some(Permit::new(self, key)),
            Entered::Waiting { id, .. } => {
                self.with(|state| state.leave(key, id));
                None
            }
            Entered::Full => None,
        }
    }

    fn is_empty(&self) -> bool {
        self.with(|state| state.is_empty())
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_is_bounded_by_number_and_time() {
    let (limit, breaker) = limit(1, 1);
    let shared = QueueKey::none;
    let permit = acquire(&limit, &breaker, shared()).await.unwrap();
    assert!(limit.has_only(1) && !limit.has_only(0));
    let (waited, refused) =
        tokio::join!(acquire(&limit, &breaker, shared()), acquire(&limit, &breaker, shared()));
    assert_eq!(waited.unwrap_err(), CallError::NotSent(DEADLINE));
    assert_eq!(refused.unwrap_err(), CallError::Overloaded);
    drop(permit);
    assert!(acquire(&limit, &breaker, shared()).await.is_ok());
    assert!(limit.is_empty());
}

#[tokio::test(start_paused = true)]
async fn waiting_calls_end_when_the_breaker_opens() {
    let (limit, breaker) = limit(1, 10);
    let _permit = limit.take(None).unwrap();
    let breaker_permit = breaker.admit().unwrap();
    let end = Instant::now() + Duration::from_secs(9);
    let waiting = limit.acquire(of(1), &breaker, end, Duration::from_secs(9));
    let (waited, no_reply) = tokio::join!(waiting, async {
        let no_reply = breaker_permit.timed_out(None);
        limit.recheck_breaker();
        no_reply
    });
    assert_eq!(no_reply, super::super::breaker::NoReply::Outage);
    assert!(matches!(waited, Err(CallError::Unavailable(_))), "{waited:?}");
    assert!(Instant::now() < end);
    // A breaker that opened before the wait began is noticed as well.
    let waited = limit.acquire(of(1), &breaker, end, Duration::from_secs(9)).await;
    assert!(matches!(waited, Err(CallError::Unavailable(_))) && Instant::now() < end, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn waiting_call_waits_for_a_suspicion() {
    let (limit, breaker) = limit(1, 10);
    let _permit = limit.take(None).unwrap();
    let breaker_permit = breaker.admit().unwrap();
    breaker.suspect(Instant::now());
    let waiting = acquire(&limit, &breaker, QueueKey::none());
    let (waited, ()) = tokio::join!(waiting, async {
        tokio::time::sleep(DEADLINE * 3 / 2).await;
        breaker_permit.timed_out(None);
        limit.recheck_breaker();
    });
    assert!(matches!(waited, Err(CallError::Unavailable(_))), "{waited:?}");
    // It ends when the server is found to be there.
    let (limit, breaker) = self::limit(1, 10);
    let _permit = limit.take(None).unwrap();
    let start = Instant::now();
    breaker.suspect(start);
    let (waited, ()) = tokio::join!(acquire(&limit, &breaker, QueueKey::none()), async {
        tokio::time::sleep(DEADLINE * 3 / 2).await;
        breaker.admit_suspicion_probe().unwrap().answered();
        limit.recheck_breaker();
    });
    assert_eq!((waited.unwrap_err(), start.elapsed()), (CallError::NotSent(DEADLINE), DEADLINE * 3 / 2));
    // It ends although nothing settles the suspicion.
    let (limit, breaker) = self::limit(1, 10);
    let _permit = limit.take(None).unwrap();
    breaker.suspect(Instant::now());
    let start = Instant::now();
    let waited = acquire(&limit, &breaker, QueueKey::none()).await;
    assert_eq!(waited.unwrap_err(), CallError::NotSent(DEADLINE));
    assert_eq!(start.elapsed(), DEADLINE * 2);
}

#[tokio::test(start_paused = true)]
async fn one_key_holds_a_sixteenth_of_permits_and_waiting_calls() {
    let (limit, breaker) = limit(1_024, 10_000);
    let held: Vec<_> = std::iter::from_fn(|| limit.take(Some(1))).collect();
    assert_eq!(held.len(), 64);
    let mut waiting = JoinSet::new();
    for _ in 0..1_000 {
        let (limit, breaker) = (Arc::clone(&limit), Arc::clone(&breaker));
        waiting.spawn(async move { acquire(&limit, &breaker, of(1)).await.unwrap_err() });
    }
    tokio::task::yield_now().await;
    // The calls of other keys do not queue behind them.
    let others: Vec<_> = (2..17).flat_map(|key| std::iter::repeat_n(key, 64)).collect();
    let others: Vec<_> = others.into_iter().map(|key| limit.take(Some(key)).unwrap()).collect();
    assert_eq!(others.len(), 960);
    assert!(limit.take(Some(17)).is_none());
    let errors = waiting.join_all().await;
    let refused = errors.iter().filter(|error| **error == CallError::Overloaded).count();
    assert_eq!(refused, 1_000 - 625);
    drop((held, others));
    assert!(limit.is_empty());
}

#[tokio::test(start_paused = true)]
async fn calls_of_shared_keys_are_bounded_with_all_others_only() {
    let (limit, _) = limit(32, 10);
    let held: Vec<_> = std::iter::from_fn(|| limit.take(None)).collect();
    assert_eq!(held.len(), 32);
}

#[tokio::test(start_paused = true)]
async fn keys_with_waiting_calls_take_turns() {
    let (limit, breaker) = limit(16, 1_600);
    let mut held: Vec<_> = std::iter::from_fn(|| limit.take(None)).collect();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut waiting = JoinSet::new();
    for key in [1, 1, 1, 1, 1, 2, 3, 3] {
        let (limit, breaker, order) = (Arc::clone(&limit), Arc::clone(&breaker), Arc::clone(&order));
        waiting.spawn(async move {
            let permit = acquire(&limit, &breaker, of(key)).await.unwrap();
            order.lock().unwrap().push(key);
            advance(Duration::from_micros(1)).await;
            drop(permit);
        });
        tokio::task::yield_now().await;
    }
    drop(held.pop());
    waiting.join_all().await;
    assert_eq!(*order.lock().unwrap(), [1, 2, 3, 1, 3, 1, 1, 1]);
    drop(held);
    assert!(limit.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_denied_key_frees_its_waiting_calls_and_no_others() {
    let (limit, breaker) = limit(1, 10_000);
    let permit = limit.take(Some(1)).unwrap();
    let denied = AtomicBool::new(false);
    let is_denied = || denied.load(Ordering::SeqCst);
    let start = Instant::now();
    let (one, other, ()) = tokio::join!(
        acquire(&limit, &breaker, QueueKey::new(Some(1), &is_denied)),
        acquire(&limit, &breaker, of(2)),
        async {
            advance(DEADLINE / 2).await;
            // The woken call checks, and continues to wait.
            limit.recheck_denied(1);
            tokio::task::yield_now().await;
            denied.store(true, Ordering::SeqCst);
            limit.recheck_denied(1);
            limit.recheck_denied(2);
        }
    );
    assert_eq!(one.unwrap_err(), CallError::Overloaded);
    assert_eq!(other.unwrap_err(), CallError::NotSent(DEADLINE));
    assert_eq!(start.elapsed(), DEADLINE);
    // A denial from before the wait is seen at once.
    let start = Instant::now();
    assert!(acquire(&limit, &breaker, QueueKey::new(Some(1), &is_denied)).await.is_err());
    assert_eq!(start.elapsed(), Duration::ZERO);
    drop(permit);
    assert!(limit.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_leaves_its_permit_to_the_next() {
    let (limit, breaker) = limit(1, 10);
    let permit = limit.take(Some(1)).unwrap();
    let mut first = Box::pin(acquire(&limit, &breaker, of(2)));
    let mut second = Box::pin(acquire(&limit, &breaker, of(3)));
    for waiting in [&mut first, &mut second] {
        assert!(polled(waiting).await.is_none());
    }
    drop(permit);
    // The first call was granted the permit, and is dropped before it is polled.
    drop(first);
    let permit = polled(&mut second).await.expect("it is its turn").unwrap();
    drop(second);
    drop(permit);
    assert!(limit.is_empty());
}

/// The output of a future that is ready when it is polled once.
async fn polled<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    let polled = poll_fn(|context| Poll::Ready(std::pin::Pin::new(&mut *future).poll(context))).await;
    if let Poll::Ready(output) = polled { Some(output) } else { None }
}

#[tokio::test(start_paused = true)]
async fn a_call_is_not_sent_with_less_time_than_replies_take() {
    for (latency, waited, is_sent) in
        [(1, 45, true), (20, 45, false), (20, 25, true), (40, 20, true), (40, 30, false)]
    {
        let (limit, breaker) = limit(1, 10);
        let permit = limit.take(None).unwrap();
        let sent = Instant::now();
        advance(Duration::from_millis(latency)).await;
        limit.answered(sent, 1);
        let (acquired, ()) = tokio::join!(acquire(&limit, &breaker, of(1)), async {
            advance(Duration::from_millis(waited)).await;
            drop(permit);
        });
        assert_eq!(acquired.is_ok(), is_sent, "{latency} ms, {waited} ms");
        drop(acquired);
        assert!(limit.is_empty());
    }
}

#[test]
fn at_least_half_of_a_deadline_is_enough_for_a_call() {
    for (left, latency, is_too_late) in
        [(0, 0, true), (1, 0, false), (20, 20, false), (19, 20, true), (25, 50, false), (24, 50, true)]
    {
        let [left, latency] = [left, latency].map(Duration::from_millis);
        assert_eq!(InFlightLimit::is_too_late(left, latency, DEADLINE), is_too_late, "{left:?}, {latency:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_probe_is_not_kept_from_a_permit_by_its_key() {
    let (limit, _) = limit(32, 10);
    let _held: Vec<_> = std::iter::from_fn(|| limit.take(Some(1))).collect();
    assert!(limit.take(Some(1)).is_none() && limit.try_acquire().is_some());
}

#[tokio::test(start_paused = true)]
async fn congestion_halves_the_limit_and_answers_raise_it() {
    let (limit, _) = limit(1_024, 10);
    let all: Vec<_> = std::iter::from_fn(|| limit.take(None)).collect();
    assert_eq!(all.len(), 1_024);
    let sent = Instant::now();
    advance(DEADLINE).await;
    // All calls that were sent under one limit halve it once.
    for _ in 0..100 {
        limit.congested(sent);
    }
    drop(all);
    let permits = || std::iter::from_fn(|| limit.take(None)).collect::<Vec<_>>();
    assert_eq!(permits().len(), 512);
    for _ in 0..640 {
        limit.answered(Instant::now(), 1);
    }
    assert_eq!(permits().len(), 522);
    // One key has a sixteenth of the current limit.
    assert_eq!(std::iter::from_fn(|| limit.take(Some(1))).collect::<Vec<_>>().len(), 32);

    // The replies to 128 decisions of a call raise it as well.
    limit.answered(Instant::now(), 128);
    assert_eq!(permits().len(), 524);

    // Down to one call, and up to all again.
    let one = permits();
    for _ in 0..20 {
        let sent = Instant::now();
        advance(DEADLINE).await;
        limit.congested(sent);
    }
    drop(one);
    assert_eq!(permits().len(), 1);
    for _ in 0..64 * 1_024 {
        limit.answered(Instant::now(), 1);
    }
    assert_eq!(permits().len(), 1_024);
    assert!(limit.is_empty());
}

#[tokio::test(start_paused = true)]
async fn released_permits_go_to_waiting_calls() {
    let (limit, breaker) = limit(32, 100);
    let held: Vec<_> = (1..17).flat_map(|key| [key, key]).map(|key| limit.take(Some(key)).unwrap()).collect();
    let mut waiting: Vec<_> = (1..5).map(|key| Box::pin(acquire(&limit, &breaker, of(key)))).collect();
    for waiting in &mut waiting {
        assert!(polled(waiting).await.is_none());
    }
    drop(held);
    assert!(limit.has_only(4) && !limit.has_only(3));
    for waiting in &mut waiting {
        drop(polled(waiting).await.expect("a permit is free").unwrap());
    }
    drop(waiting);
    assert!(limit.is_empty());
}

#[test]
fn random_calls_never_exceed_a_bound_and_leave_nothing_behind() {
    let mut rng = fastrand::Rng::with_seed(7);
    let limit = InFlightLimit::new(64, 80);
    let (mut held, mut waiting) = (Vec::<Permit>::new(), Vec::<(Option<u128>, u64)>::new());
    for _ in 0..2 * portcullis_testing::timeline::steps() {
        let key = match rng.u64(..8) {
            0 => None,
            key => Some(u128::from(key)),
        };
        match rng.u64(..10) {
            0..5 => match limit.with(|state| state.enter(key)) {
                Entered::Permit => held.push(Permit::new(&limit, key)),
                Entered::Waiting { id, .. } => waiting.push((key, id)),
                Entered::Full => {}
            },
            5..8 if !held.is_empty() => {
                let index = rng.usize(..held.len());
                drop(held.swap_remove(index));
            }
            8 if !waiting.is_empty() => {
                let index = rng.usize(..waiting.len());
                let (key, id) = waiting.swap_remove(index);
                limit.with(|state| state.leave(key, id));
            }
            _ => {
                if rng.u64(..50) == 0 {
                    limit.congested(Instant::now());
                }
                for _ in 0..rng.u64(..200) {
                    limit.answered(Instant::now(), 1);
                }
            }
        }
        waiting.retain(|(key, id)| {
            let waits =
                matches!(limit.with(|state| state.poll(*key, *id, Waker::noop())), Polled::Waits { .. });
            if !waits {
                held.push(Permit::new(&limit, *key));
            }
            waits
        });
        assert!(held.len() <= 64 && waiting.len() <= 80);
        assert_eq!(limit.with(|state| state.in_flight()), held.len());
        for key in 1..8 {
            let of = |found: Option<u128>| found == Some(key);
            assert!(held.iter().filter(|permit| of(permit.key)).count() <= 4);
            assert!(waiting.iter().filter(|(key, _)| of(*key)).count() <= 5);
        }
        // No call waits while a permit is free for it.
        limit.with(|state| state.assert_nothing_waits_in_vain());
    }
    drop(held);
    for (key, id) in waiting {
        limit.with(|state| state.leave(key, id));
    }
    assert!(limit.is_empty());
}
