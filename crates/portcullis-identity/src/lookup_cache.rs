//! Keeps the results of look-ups for a time, and shares the look-ups that run.

mod counts;
mod shared;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

pub use counts::LookupCounts;
use shared::RunningLookup;
pub use shared::Waiter;

/// The results of look-ups by an id, bounded in number. Requests with one id share one look-up that runs.
///
/// A look-up is polled by the requests that wait for it. Once none does, it is dropped, so that it keeps no connection that no request
/// needs; the next request starts another.
pub struct LookupCache<T> {
    /// How long a result is kept.
    pub fresh_for: Duration,
    /// How many results are kept, at least 1.
    pub capacity: usize,
    /// Whether a result is kept.
    keeps: fn(&T) -> bool,
    /// Whether a result is a failure of the server.
    fails: fn(&T) -> bool,
    entries: Mutex<Entries<T>>,
    /// The counts of the limiter whose layer has the look-up first. Set while `entries` is locked.
    counts: OnceLock<LookupCounts>,
}

struct Entries<T> {
    /// With the time at which each was found.
    results: HashMap<u128, (T, Instant)>,
    /// The ids of the results, in the order in which they came: the first one is replaced.
    order: VecDeque<u128>,
    /// With the time of the start. Bounded by the number of requests that wait: see `sweep_at`.
    running: HashMap<u128, (Weak<RunningLookup<T>>, Instant)>,
    /// The number of look-ups at which those are removed that no request waits for.
    sweep_at: usize,
}

/// A result, or the wait for one. `None` if the look-up has panicked while another request has polled it.
pub enum SharedLookup<T> {
    /// `None` once it was returned.
    Fresh(Option<T>),
    /// The wait, in this cache and for this id.
    Waiting(Waiter<T>, Arc<LookupCache<T>>, u128),
}

impl<T> fmt::Debug for LookupCache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fresh_for, capacity, .. } = self;
        f.debug_struct("LookupCache")
            .field("fresh_for", fresh_for)
            .field("capacity", capacity)
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for SharedLookup<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedLookup").finish_non_exhaustive()
    }
}

/// What a look-up is: a future that owns its data.
pub type BoxedLookup<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl<T: Clone> LookupCache<T> {
    /// Keeps the results for which `keeps` returns `true`, and counts those as failures for which `fails` does.
    pub fn new(keeps: fn(&T) -> bool, fails: fn(&T) -> bool) -> Self {
        let entries = Entries {
            results: HashMap::new(),
            order: VecDeque::new(),
            running: HashMap::new(),
            sweep_at: MIN_SWEEP,
        };
        let (entries, counts) = (Mutex::new(entries), OnceLock::new());
        Self { fresh_for: FRESH_FOR, capacity: CAPACITY, keeps, fails, entries, counts }
    }

    /// Counts from now on, unless it counts elsewhere already.
    pub fn count_in(&self, counts: &LookupCounts) {
        let entries = self.lock();
        if self.counts.set(counts.clone()).is_ok() {
            counts.add_entries(entries.results.len());
        }
    }

    fn count(&self, count: impl FnOnce(&LookupCounts)) {
        if let Some(counts) = self.counts.get() {
            count(counts);
        }
    }

    /// The result, if it is kept and fresh.
    pub fn fresh(&self, id: u128) -> Option<T> {
        let result = self.peek(id)?;
        self.count(LookupCounts::hit);
        Some(result)
    }

    /// The result, if it is kept and fresh, for a reader that is no request.
    pub fn peek(&self, id: u128) -> Option<T> {
        self.lock().fresh(id, self.fresh_for)
    }

    /// Returns the fresh result, or joins the look-up that runs; otherwise starts one. A look-up that runs for longer than
    /// `deadline` is not joined.
    pub fn join(
        self: &Arc<Self>,
        id: u128,
        deadline: Duration,
        start: impl FnOnce() -> BoxedLookup<T>,
    ) -> SharedLookup<T> {
        if let Some(found) = self.find(&self.lock(), id, deadline) {
            return found;
        }
        // Not under the lock, because it is code of the caller.
        let started = start();
        let mut entries = self.lock();
        if let Some(found) = self.find(&entries, id, deadline) {
            return found;
        }
        let running = Arc::new(RunningLookup::new(started));
        entries.start(id, &running);
        drop(entries);
        self.count(LookupCounts::started);
        SharedLookup::Waiting(Waiter::new(running), Arc::clone(self), id)
    }

    fn find(self: &Arc<Self>, entries: &Entries<T>, id: u128, deadline: Duration) -> Option<SharedLookup<T>> {
        if let Some(result) = entries.fresh(id, self.fresh_for) {
            self.count(LookupCounts::hit);
            return Some(SharedLookup::Fresh(Some(result)));
        }
        let (running, since) = entries.running.get(&id)?;
        let running =
            running.upgrade().filter(|running| running.is_running() && since.elapsed() < deadline)?;
        self.count(LookupCounts::joined);
        Some(SharedLookup::Waiting(Waiter::new(running), Arc::clone(self), id))
    }

    /// Keeps the result of a look-up, unless another one has taken its place.
    fn done(&self, id: u128, running: &Arc<RunningLookup<T>>, result: &T) {
        if (self.fails)(result) {
            self.count(LookupCounts::failed);
        }
        let mut entries = self.lock();
        let is_own = |(known, _): &(Weak<RunningLookup<T>>, Instant)| known.as_ptr() == Arc::as_ptr(running);
        if entries.running.get(&id).is_some_and(is_own) {
            entries.running.remove(&id);
            if (self.keeps)(result) {
                let is_more = entries.keep(id, (result.clone(), Instant::now()), self.capacity);
                self.count(|counts| counts.add_entries(usize::from(is_more)));
            }
        }
    }

    /// The entries are consistent between any two statements, so a poisoned lock is safe to use.
    fn lock(&self) -> MutexGuard<'_, Entries<T>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone> Entries<T> {
    fn fresh(&self, id: u128, fresh_for: Duration) -> Option<T> {
        let (result, found_at) = self.results.get(&id)?;
        (found_at.elapsed() < fresh_for).then(|| result.clone())
    }

    fn start(&mut self, id: u128, running: &Arc<RunningLookup<T>>) {
        if self.running.len() >= self.sweep_at {
            self.running.retain(|_, (running, _)| running.strong_count() > 0);
            self.sweep_at = self.running.len().saturating_mul(2).max(MIN_SWEEP);
        }
        self.running.insert(id, (Arc::downgrade(running), Instant::now()));
    }

    /// Returns whether there is one more than before.
    fn keep(&mut self, id: u128, result: (T, Instant), capacity: usize) -> bool {
        if self.results.insert(id, result).is_some() {
            return false;
        }
        let oldest = if self.order.len() >= capacity { self.order.pop_front() } else { None };
        self.order.push_back(id);
        oldest.and_then(|oldest| self.results.remove(&oldest)).is_none()
    }
}

impl<T> Drop for LookupCache<T> {
    fn drop(&mut self) {
        if let Some(counts) = self.counts.get() {
            let entries = self.entries.get_mut().unwrap_or_else(PoisonError::into_inner);
            counts.remove_entries(entries.results.len());
        }
    }
}

/// Counts a failure if it is dropped by a panic of a look-up.
struct CountPanic<'a>(Option<&'a LookupCounts>);

impl Drop for CountPanic<'_> {
    fn drop(&mut self) {
        if let Some(counts) = self.0 {
            counts.failed();
        }
    }
}

impl<T: Clone> Future for SharedLookup<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        match self.get_mut() {
            Self::Fresh(result) => Poll::Ready(result.take()),
            Self::Waiting(waiter, cache, id) => {
                let mut panics = CountPanic(cache.counts.get());
                let polled = waiter.poll(cx, |running, result| cache.done(*id, running, result));
                panics.0 = None;
                polled
            }
        }
    }
}

// Nothing is pinned: a look-up that runs is behind a pointer.
impl<T> Unpin for SharedLookup<T> {}

/// A change of a plan applies within this time.
const FRESH_FOR: Duration = Duration::from_secs(60);

/// A few megabytes.
const CAPACITY: usize = 10_000;

/// The least number of look-ups in progress before any are removed.
const MIN_SWEEP: usize = 64;

#[cfg(test)]
mod tests;
