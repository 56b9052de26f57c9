//! The requests of this process that wait for a window, a log or a permit of requests in flight, in order of arrival.
//!
//! A window reserves nothing, so a waiting request has to be checked again. Only the first request of a queue asks the store, and
//! the others follow when it has left: so a queue costs one denial per wake-up, and no request overtakes another. A queue is a lock
//! that is taken in order of arrival.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use portcullis_core::store::Check;
use portcullis_core::{Key, Policy};
use tokio::sync::{Notify, OwnedMutexGuard};
use tokio::time::Instant;

/// The queues of all layers of a limiter: only those with waiting requests, each of which has a permit.
#[derive(Clone, Default)]
pub(crate) struct WindowQueues(Arc<Mutex<HashMap<WindowQueueId, WindowQueue>>>);

/// The policy and the key that deny the requests of a queue. Requests under another limit of the policy, which was changed, do not
/// wait behind them: they may fit.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct WindowQueueId {
    policy: u128,
    limit: u64,
    key: Key,
}

impl WindowQueueId {
    pub(crate) fn new(check: &Check) -> Self {
        Self::of(&check.policy, check.key)
    }

    pub(crate) fn of(policy: &Policy, key: Key) -> Self {
        Self { policy: policy.digest(), limit: policy.strategy().limit(), key }
    }

    /// How long after the start of a window its first request asks: by key, so that not all keys ask at one instant.
    pub(crate) fn spread(&self, window: Duration) -> Duration {
        let most = (window / WINDOW_DIVISOR).min(LONGEST_SPREAD).as_micros();
        // Fingerprints are evenly distributed.
        let micros = (self.key.fingerprint() ^ self.policy) % most.saturating_add(1);
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    }
}

#[derive(Default)]
struct WindowQueue {
    /// Held by the first request.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Notified when a permit comes back.
    freed: Arc<Notify>,
    /// When the first request may fit, according to the last denial.
    due: Option<Instant>,
    requests: usize,
}

/// The place of a request in a queue. When this is dropped, the requests behind it move up.
pub(crate) struct WindowPlace {
    queues: WindowQueues,
    id: WindowQueueId,
}

impl WindowQueues {
    /// Whether requests wait in a queue, the first of which may fit before `deadline`.
    pub(crate) fn has_waiters_before(&self, id: WindowQueueId, deadline: Instant) -> bool {
        self.lock().get(&id).is_some_and(|queue| queue.due.is_none_or(|due| due <= deadline))
    }

    /// Adds a request to a queue. `due` is when it may fit, if the store was asked. A queue in which others wait keeps its own.
    pub(crate) fn join(&self, id: WindowQueueId, due: Option<Instant>) -> WindowPlace {
        let mut queues = self.lock();
        let queue = queues.entry(id).or_insert_with(|| WindowQueue { due, ..WindowQueue::default() });
        queue.requests = queue.requests.saturating_add(1);
        WindowPlace { queues: self.clone(), id }
    }

    /// A permit has come back, for which the first request of a queue may wait.
    pub(crate) fn freed(&self, id: WindowQueueId) {
        if let Some(queue) = self.lock().get(&id) {
            queue.freed.notify_one();
        }
    }

    /// The queues are consistent between any two statements, so a poisoned lock is safe to use.
    fn lock(&self) -> MutexGuard<'_, HashMap<WindowQueueId, WindowQueue>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WindowPlace {
    /// Waits until the request is the first, which it is until the guard is dropped.
    pub(crate) fn turn(&self) -> impl Future<Output = OwnedMutexGuard<()>> + use<> {
        let queue = self.queues.lock().get(&self.id).map(|queue| Arc::clone(&queue.turn));
        queue.unwrap_or_default().lock_owned()
    }

    /// Waits until a permit comes back to this process. A window sends none.
    pub(crate) fn freed(&self) -> impl Future<Output = ()> + use<> {
        let freed = self.queues.lock().get(&self.id).map(|queue| Arc::clone(&queue.freed));
        async move { freed.unwrap_or_default().notified().await }
    }

    /// When the first request may fit, if that is known.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.queues.lock().get(&self.id)?.due
    }

    /// Sets when the first request, which is this one, may fit.
    pub(crate) fn set_due(&self, due: Option<Instant>) {
        if let Some(queue) = self.queues.lock().get_mut(&self.id) {
            queue.due = due;
        }
    }
}

impl Drop for WindowPlace {
    fn drop(&mut self) {
        let mut queues = self.queues.lock();
        if let Entry::Occupied(mut queue) = queues.entry(self.id) {
            match queue.get().requests.saturating_sub(1) {
                0 => drop(queue.remove()),
                left => queue.get_mut().requests = left,
            }
        }
    }
}

/// Long enough for thousands of keys, and short for a client.
const LONGEST_SPREAD: Duration = Duration::from_millis(50);

/// The first requests ask within this part of a window.
const WINDOW_DIVISOR: u32 = 16;

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use portcullis_core::{Policy, Quota, Secret};

    use super::*;

    fn id(user: u32) -> WindowQueueId {
        let mut hasher = Secret::published().hasher();
        hasher.writer().part("user", &user.to_be_bytes());
        let policy = Policy::fixed_window("window", Quota::per_second(1));
        WindowQueueId::new(&Check { policy, key: hasher.finish().unwrap(), cost: 1 })
    }

    #[tokio::test]
    async fn requests_have_turns_in_order() {
        let queues = WindowQueues::default();
        let due = Instant::now();
        assert!(!queues.has_waiters_before(id(1), due));
        let [first, second, third] = [Some(due), None, None].map(|due| queues.join(id(1), due));
        let turn = first.turn().await;
        let mut waiting = [&second, &third].map(|place| Box::pin(place.turn()));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(waiting.iter_mut().all(|turn| turn.as_mut().poll(&mut cx).is_pending()));
        let [one, other] = waiting;
        drop((one, second));
        let later = due + Duration::from_secs(1);
        first.set_due(Some(later));
        assert!(queues.has_waiters_before(id(1), later) && !queues.has_waiters_before(id(1), due));
        drop((turn, first));
        let turn = other.await;
        assert_eq!(third.due(), Some(later));
        drop((turn, third));
        assert!(queues.lock().is_empty(), "a queue without requests is removed");
    }

    #[test]
    fn the_spread_is_bounded_and_differs_by_key() {
        for (window, most) in [(16, 1_000), (500, 31_250), (800, 50_000), (86_400_000, 50_000)] {
            let window = Duration::from_millis(window);
            let mut spreads: Vec<_> = (0..1_000).map(|user| id(user).spread(window)).collect();
            assert!(spreads.iter().all(|spread| spread.as_micros() <= most));
            assert_eq!(spreads[0], id(0).spread(window));
            spreads.sort_unstable();
            spreads.dedup();
            assert!(spreads.len() > 500, "{}", spreads.len());
        }
        assert_eq!(id(1).spread(Duration::from_micros(1)), Duration::ZERO);
    }
}
