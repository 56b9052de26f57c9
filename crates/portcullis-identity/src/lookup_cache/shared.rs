//! A look-up that several requests wait for. Whichever of them is awake polls it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use super::BoxedLookup;

/// A look-up that runs, or its result.
pub(super) struct RunningLookup<T> {
    state: Mutex<State<T>>,
    is_running: AtomicBool,
    wakers: Arc<Wakers>,
    last_number: AtomicU64,
}

enum State<T> {
    Running(BoxedLookup<T>),
    Done(T),
    /// The look-up has panicked, and so has the request that has polled it.
    Panicked,
}

/// The wakers of all that wait, by their numbers: each wake-up takes all of them, and those that still wait come back, in any order.
#[derive(Default)]
struct Wakers(Mutex<HashMap<u64, Waker>>);

/// One request that waits for a look-up.
pub struct Waiter<T> {
    running: Arc<RunningLookup<T>>,
    number: u64,
}

impl<T> fmt::Debug for Waiter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiter").finish_non_exhaustive()
    }
}

impl<T> RunningLookup<T> {
    pub(super) fn new(lookup: BoxedLookup<T>) -> Self {
        Self {
            state: Mutex::new(State::Running(lookup)),
            is_running: AtomicBool::new(true),
            wakers: Arc::default(),
            last_number: AtomicU64::new(0),
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.is_running.load(Ordering::Acquire)
    }
}

impl<T: Clone> Waiter<T> {
    pub(super) fn new(running: Arc<RunningLookup<T>>) -> Self {
        let number = running.last_number.fetch_add(1, Ordering::Relaxed);
        Self { running, number }
    }

    /// Polls the look-up. `done` gets its result once, from the request that has seen it first. `None` if it has panicked.
    pub(super) fn poll(
        &self,
        cx: &mut Context<'_>,
        done: impl FnOnce(&Arc<RunningLookup<T>>, &T),
    ) -> Poll<Option<T>> {
        let running = &self.running;
        // Before the look-up is polled, so that no wake-up is lost.
        running.wakers.register(self.number, cx.waker());
        let mut state = running.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lookup = match mem::replace(&mut *state, State::Panicked) {
            State::Running(lookup) => lookup,
            over => {
                let result = if let State::Done(result) = &over { Some(result.clone()) } else { None };
                *state = over;
                return Poll::Ready(result);
            }
        };
        let mut ending = Ending { running, is_over: true };
        let waker = Waker::from(Arc::clone(&running.wakers));
        let Poll::Ready(result) = lookup.as_mut().poll(&mut Context::from_waker(&waker)) else {
            *state = State::Running(lookup);
            ending.is_over = false;
            return Poll::Pending;
        };
        *state = State::Done(result.clone());
        drop(state);
        done(running, &result);
        drop(ending);
        Poll::Ready(Some(result))
    }
}

/// Wakes all that wait when a look-up is over, also by a panic.
struct Ending<'a, T> {
    running: &'a RunningLookup<T>,
    is_over: bool,
}

impl<T> Drop for Ending<'_, T> {
    fn drop(&mut self) {
        if self.is_over {
            self.running.is_running.store(false, Ordering::Release);
            self.running.wakers.wake_all();
        }
    }
}

impl<T> Drop for Waiter<T> {
    fn drop(&mut self) {
        self.running.wakers.remove(self.number);
    }
}

impl Wakers {
    fn register(&self, number: u64, waker: &Waker) {
        let mut wakers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match wakers.entry(number) {
            Entry::Occupied(known) => known.into_mut().clone_from(waker),
            Entry::Vacant(new) => drop(new.insert(waker.clone())),
        }
    }

    fn remove(&self, number: u64) {
        let removed = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
        drop(removed);
    }

    fn wake_all(&self) {
        let wakers = mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for waker in wakers.into_values() {
            waker.wake();
        }
    }
}

impl Wake for Wakers {
    fn wake(self: Arc<Self>) {
        self.wake_all();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.wake_all();
    }
}
