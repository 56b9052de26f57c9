//! The requests of this process that wait for a window or log, in order of arrival.
//!
//! A window reserves nothing, so a waiting request has to be checked again. Only the first request of a queue asks the store, and
//! the others follow when it has left: so a queue costs one denial per wake-up, and no request overtakes another.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use portcullis_core::Key;
use portcullis_core::store::Check;
use tokio::time::Instant;

/// The queues of all layers of a limiter. The lock is not held during calls of the store or of wakers.
#[derive(Clone, Default)]
pub(crate) struct WindowQueues(Arc<Mutex<Shared>>);

#[derive(Default)]
struct Shared {
    /// Only queues with waiting requests, each of which has a permit.
    queues: HashMap<WindowQueueId, WindowQueue>,
    /// The number of the newest request.
    number: u64,
}

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
        Self { policy: check.policy.digest(), limit: check.policy.strategy().limit(), key: check.key }
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
    /// By number, which is the order of arrival.
    waiters: BTreeMap<u64, Option<Waker>>,
    /// When the first request may fit, according to the last denial.
    due: Option<Instant>,
}

/// A request that waits in a queue. When this is dropped, the requests behind it move up.
pub(crate) struct WindowWaiter {
    queues: WindowQueues,
    id: WindowQueueId,
    number: u64,
}

/// The next action of a request in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WindowTurn {
    /// The request is the first one. It asks the store at this instant, or at once if none is known.
    First(Option<Instant>),
    /// Requests are ahead of it.
    Behind,
}

impl WindowQueues {
    /// Whether requests wait in a queue, the first of which may fit before `deadline`.
    pub(crate) fn has_waiters_before(&self, id: WindowQueueId, deadline: Instant) -> bool {
        let shared = self.lock();
        shared.queues.get(&id).is_some_and(|queue| queue.due.is_none_or(|due| due <= deadline))
    }

    /// Adds a request at the end of a queue. `due` is when it may fit, if the store was asked. A queue in which others wait keeps
    /// its own.
    pub(crate) fn join(&self, id: WindowQueueId, due: Option<Instant>) -> WindowWaiter {
        let mut shared = self.lock();
        shared.number = shared.number.wrapping_add(1);
        let number = shared.number;
        let queue = shared.queues.entry(id).or_insert_with(|| WindowQueue { due, ..WindowQueue::default() });
        queue.waiters.insert(number, None);
        WindowWaiter { queues: self.clone(), id, number }
    }

    /// The queues are consistent between any two statements, so a poisoned lock is safe to use.
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WindowWaiter {
    pub(crate) fn id(&self) -> WindowQueueId {
        self.id
    }

    /// Returns the turn of the request, and has `waker` woken when it is the first.
    pub(crate) fn turn(&self, waker: &Waker) -> WindowTurn {
        let unused;
        let turn = {
            let mut shared = self.queues.lock();
            let Some(queue) = shared.queues.get_mut(&self.id) else { return WindowTurn::First(None) };
            let is_first = queue.waiters.first_key_value().is_some_and(|(first, _)| *first == self.number);
            // A waker is dropped without the lock: that can run code of an executor, which may drop another request.
            unused = match queue.waiters.get_mut(&self.number) {
                Some(kept) if !kept.as_ref().is_some_and(|kept| kept.will_wake(waker)) => {
                    kept.replace(waker.clone())
                }
                _ => None,
            };
            if is_first { WindowTurn::First(queue.due) } else { WindowTurn::Behind }
        };
        drop(unused);
        turn
    }

    /// Sets when the first request, which is this one, may fit.
    pub(crate) fn set_due(&self, due: Instant) {
        if let Some(queue) = self.queues.lock().queues.get_mut(&self.id) {
            queue.due = Some(due);
        }
    }
}

impl Drop for WindowWaiter {
    fn drop(&mut self) {
        let (own, next) = {
            let mut shared = self.queues.lock();
            let Entry::Occupied(mut queue) = shared.queues.entry(self.id) else { return };
            let waiters = &mut queue.get_mut().waiters;
            let was_first = waiters.first_key_value().is_some_and(|(first, _)| *first == self.number);
            let own = waiters.remove(&self.number);
            let next = waiters.first_entry().filter(|_| was_first).and_then(|mut next| next.get_mut().take());
            if waiters.is_empty() {
                queue.remove();
            }
            (own, next)
        };
        drop(own);
        next.into_iter().for_each(Waker::wake);
    }
}

/// Long enough for thousands of keys, and short for a client.
const LONGEST_SPREAD: Duration = Duration::from_millis(50);

/// The first requests ask within this part of a window.
const WINDOW_DIVISOR: u32 = 16;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::task::Wake;

    use portcullis_core::{Policy, Quota, Secret};

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    fn id(user: u32) -> WindowQueueId {
        let mut hasher = Secret::published().hasher();
        hasher.writer().part("user", &user.to_be_bytes());
        let policy = Policy::fixed_window("window", Quota::per_second(1));
        WindowQueueId::new(&Check { policy, key: hasher.finish().unwrap(), cost: 1 })
    }

    #[test]
    fn only_the_first_has_a_turn_and_the_next_is_woken() {
        let queues = WindowQueues::default();
        let due = Instant::now();
        assert!(!queues.has_waiters_before(id(1), due));
        let [first, second, third] = [Some(due), None, None].map(|due| queues.join(id(1), due));
        let woken = Arc::<Woken>::default();
        let waker = Arc::clone(&woken).into();
        let turns = [&first, &second, &third].map(|waiter| waiter.turn(&waker));
        assert_eq!(turns, [WindowTurn::First(Some(due)), WindowTurn::Behind, WindowTurn::Behind]);
        drop(second);
        assert_eq!(woken.0.load(Relaxed), 0, "the first waits as before");
        drop(first);
        assert_eq!(woken.0.load(Relaxed), 1);
        assert_eq!(third.turn(&waker), WindowTurn::First(Some(due)));
        let later = due + Duration::from_secs(1);
        third.set_due(later);
        assert!(queues.has_waiters_before(id(1), later) && !queues.has_waiters_before(id(1), due));
        drop(third);
        assert!(queues.lock().queues.is_empty(), "a queue without requests is removed");
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
