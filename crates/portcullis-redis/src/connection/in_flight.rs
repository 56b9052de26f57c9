//! How many calls are in flight on a connection, and which waiting call is sent next.
//!
//! `fred` sends what it was given, even if its caller has gone away. So a connection gives it a bounded number of calls at a
//! time. The others wait here, where a call that is dropped or runs out of time has sent nothing.
//!
//! One key holds at most 1/16 of the permits and of the waiting room, and the keys of waiting calls take turns. A flood of
//! one key fills its own share and no more. Calls without a key of their own are bounded with all others only.
//!
//! The limit adapts: where replies come, but all of them late, the connection has more calls in flight than the server
//! answers within a deadline. The limit is then halved, and grows again with answers in time. A server that is too slow for
//! a single call is left with one call in flight, and nothing answers while that waits: so pressure of this process is told
//! from an outage.

mod state;

use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::{Instant, sleep_until};

use self::state::State;
use super::breaker::Breaker;
use super::error::CallError;

/// The permits of one connection.
#[derive(Debug)]
pub(super) struct InFlightLimit(Mutex<State>);

/// The key that a call is counted under, and whether the call has become needless while it waits.
#[derive(Clone, Copy)]
pub(crate) struct QueueKey<'a> {
    /// The fingerprint of the narrowest key of a decision; `None` where all keys are shared.
    key: Option<u128>,
    is_denied: &'a (dyn Fn() -> bool + Sync),
}

/// The right to one call in flight. It is kept until `fred` is done with the call.
#[derive(Debug)]
pub(super) struct Permit {
    limit: Arc<InFlightLimit>,
    key: Option<u128>,
}

impl<'a> QueueKey<'a> {
    /// Counts a call under `key`. While the call waits, `is_denied` is asked whenever a call of the same key was denied; if it
    /// says yes, the call is given up as overloaded.
    pub(crate) fn new(key: Option<u128>, is_denied: &'a (dyn Fn() -> bool + Sync)) -> Self {
        Self { key, is_denied }
    }

    /// A call that no caller made.
    pub(crate) fn none() -> QueueKey<'static> {
        QueueKey { key: None, is_denied: &|| false }
    }
}

impl fmt::Debug for QueueKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueKey").field("shared", &self.key.is_none()).finish_non_exhaustive()
    }
}

impl InFlightLimit {
    pub(super) fn new(permits: usize, max_waiting: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State::new(permits, max_waiting))))
    }

    /// Takes a permit if there is one, whatever one key holds: for a probe.
    pub(super) fn try_acquire(self: &Arc<Self>) -> Option<Permit> {
        let taken = self.state().try_take_for_probe();
        taken.then(|| Permit { limit: Arc::clone(self), key: None })
    }

    /// Waits for a permit until `end`, or until the breaker opens.
    ///
    /// # Errors
    /// [`CallError::Overloaded`] if too many calls wait already, in all or for the key, or if the call is denied meanwhile;
    /// [`CallError::NotSent`] at `end`, or if less time is left than the server took to answer of late;
    /// [`CallError::Unavailable`] when the breaker opens. Nothing was sent.
    ///
    /// # Cancel safety
    /// A call that is dropped has sent nothing.
    pub(super) async fn acquire(
        self: &Arc<Self>,
        queue: QueueKey<'_>,
        breaker: &Breaker,
        end: Instant,
        deadline: Duration,
    ) -> Result<Permit, CallError> {
        let QueueKey { key, is_denied } = queue;
        let entered = self.state().enter(key);
        let id = match entered {
            state::Entered::Permit => return Ok(Permit { limit: Arc::clone(self), key }),
            state::Entered::Waiting(id) => id,
            state::Entered::Full => return Err(CallError::Overloaded),
        };
        let mut waiting = Waiting { limit: self, key, id, denials: None };
        let give_up = async {
            tokio::select! {
                biased;
                () = breaker.opened() => CallError::silent(),
                () = sleep_until(end) => CallError::NotSent(deadline),
            }
        };
        tokio::pin!(give_up);
        loop {
            let granted = tokio::select! {
                biased;
                granted = waiting.granted() => granted,
                error = &mut give_up => return Err(error),
            };
            if is_denied() {
                return Err(CallError::Overloaded);
            }
            if granted {
                let left = end.saturating_duration_since(Instant::now());
                // The server would work for a call that is not answered in time.
                if left < self.state().latency().min(deadline / 2) {
                    return Err(CallError::NotSent(deadline));
                }
                std::mem::forget(waiting);
                return Ok(Permit { limit: Arc::clone(self), key });
            }
        }
    }

    /// Has the waiting calls of a key ask whether they are denied.
    pub(super) fn look_again(&self, key: u128) {
        let woken = self.state().look_again(key);
        wake(woken);
    }

    /// Notes an answer in time to a call that was sent at an instant.
    pub(super) fn answered(&self, sent: Instant) {
        let latency = sent.elapsed();
        let woken = self.state().grow(latency);
        wake(woken);
    }

    /// Notes that there was no answer in time to a call that was sent at an instant.
    pub(super) fn unanswered(&self, sent: Instant) {
        let latency = sent.elapsed();
        self.state().slow(latency);
    }

    /// Notes that others were answered since a call was sent, all of them too late.
    pub(super) fn congested(&self, sent: Instant) {
        self.state().shrink(sent);
    }

    /// Whether only one call is in flight. After a call was sent this says that none before it is.
    pub(super) fn has_one(&self) -> bool {
        self.state().in_flight() <= 1
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is complete before anything can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let woken = self.limit.state().release(self.key);
        wake(woken);
    }
}

/// A call that waits for its permit.
struct Waiting<'a> {
    limit: &'a InFlightLimit,
    key: Option<u128>,
    id: u64,
    /// How many denials of the key it has seen; `None` before it has looked.
    denials: Option<u64>,
}

impl Waiting<'_> {
    /// Waits until there is a permit, or until the call is to ask whether it is denied.
    async fn granted(&mut self) -> bool {
        poll_fn(|context| {
            match self.limit.state().poll(self.key, self.id, context.waker()) {
                None => Poll::Ready(true),
                // What was denied before it began to wait it has not looked at either.
                Some(denials) if self.denials.replace(denials) != Some(denials) => Poll::Ready(false),
                Some(_) => Poll::Pending,
            }
        })
        .await
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let woken = self.limit.state().leave(self.key, self.id);
        wake(woken);
    }
}

/// The calls to be woken when the lock is free again.
type Woken = SmallVec<[Waker; 4]>;

fn wake(woken: Woken) {
    woken.into_iter().for_each(Waker::wake);
}

#[cfg(test)]
mod tests;
