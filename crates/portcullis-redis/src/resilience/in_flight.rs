//! Limits the calls in flight on a connection, and chooses which waiting call is sent next.
//!
//! The client sends every command that it was given, even if the caller has gone away. So it gets a bounded number of calls at a time. The
//! others wait here; one that is dropped or times out meanwhile has sent nothing. Each decision of a [combined call](super::combining)
//! counts, but those that have joined an equal one.
//!
//! One key holds at most 1/16 of the permits and of the waiting calls, and the keys of waiting calls take turns. Calls without a key are
//! bounded only together with all others.
//!
//! If replies come, but all of them late, the limit is halved, and grows again with replies in time. A server that is too slow for a single
//! call is left with one call in flight. If no reply comes while that call waits, it is an outage, and not load from this process.

mod state;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::{Instant, sleep_until};

use self::state::{InFlightState, Polled};
use super::breaker::Breaker;
use crate::lock::lock;
use crate::transport::CallError;

/// The permits of one connection.
#[derive(Debug)]
pub(crate) struct InFlightLimit {
    state: Mutex<InFlightState>,
}

/// The result of [`InFlightLimit::enter`].
#[derive(Debug)]
pub(crate) enum Entered<'a> {
    Permit(Permit),
    Waiting(Waiting<'a>),
    /// Too many calls wait already, in total or for the key.
    Full,
}

/// Permission for one call in flight. It is held until the client has finished the call.
#[derive(Debug)]
pub(crate) struct Permit {
    limit: Arc<InFlightLimit>,
    key: Option<u128>,
}

impl InFlightLimit {
    pub(crate) fn new(permits: usize, max_waiting: usize) -> Arc<Self> {
        let state = Mutex::new(InFlightState::new(permits, max_waiting));
        Arc::new(Self { state })
    }

    /// Takes a permit for a probe if one is free, without the limit per key.
    pub(crate) fn try_acquire(self: &Arc<Self>) -> Option<Permit> {
        self.with(InFlightState::try_take_for_probe).then(|| Permit::new(self, None))
    }

    /// Takes a permit, or begins to wait for one.
    pub(crate) fn enter(self: &Arc<Self>, key: Option<u128>) -> Entered<'_> {
        match self.with(|state| state.enter(key)) {
            state::Entered::Permit => Entered::Permit(Permit::new(self, key)),
            state::Entered::Waiting { id, denials } => {
                Entered::Waiting(Waiting { limit: self, key, id, denials })
            }
            state::Entered::Full => Entered::Full,
        }
    }

    /// Whether a call is not to be sent with this time left: the server would run it, and its reply would come too late.
    pub(crate) fn is_too_late(left: Duration, latency: Duration, deadline: Duration) -> bool {
        left.is_zero() || left < latency.min(deadline / 2)
    }

    /// How long recent replies took at least.
    pub(crate) fn latency(&self) -> Duration {
        self.with(|state| state.latency())
    }

    /// Makes the waiting calls of a key check whether they are denied.
    pub(crate) fn recheck_denied(&self, key: u128) {
        self.wake(|state| state.recheck_denied(key));
    }

    /// Makes all waiting calls check whether the breaker has opened, or a suspicion is settled.
    pub(crate) fn recheck_breaker(&self) {
        self.wake(InFlightState::recheck_all);
    }

    /// Records a reply in time to a call with this number of permits that was sent at `sent`. It counts as a reply for each.
    pub(crate) fn answered(&self, sent: Instant, permits: usize) {
        let latency = sent.elapsed();
        self.wake(|state| state.grow(latency, permits));
    }

    /// Records that there was no reply in time to a call that was sent at `sent`.
    pub(crate) fn unanswered(&self, sent: Instant) {
        let latency = sent.elapsed();
        self.with(|state| state.slow(latency));
    }

    /// Records that other calls were answered since a call was sent, all of them too late.
    pub(crate) fn congested(&self, sent: Instant) {
        self.with(|state| state.shrink(sent));
    }

    /// Whether only these decisions are in flight. After their call was sent, this means that no earlier call is.
    pub(crate) fn has_only(&self, decisions: usize) -> bool {
        self.with(|state| state.in_flight()) <= decisions
    }

    /// How many calls have a permit, how many may have one, and how many wait for one.
    pub(crate) fn counts(&self) -> [u64; 3] {
        self.with(|state| state.counts()).map(|count| u64::try_from(count).unwrap_or(u64::MAX))
    }

    /// Whether calls wait for a permit. A decision that needs none must not overtake them.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.with(|state| state.has_waiting())
    }

    /// Uses the state under its lock.
    fn with<T>(&self, use_state: impl FnOnce(&mut InFlightState) -> T) -> T {
        use_state(&mut lock(&self.state))
    }

    /// Changes the state, and wakes calls after its lock is released.
    fn wake(&self, change: impl FnOnce(&mut InFlightState) -> Woken) {
        self.with(change).into_iter().for_each(Waker::wake);
    }
}

impl Permit {
    fn new(limit: &Arc<InFlightLimit>, key: Option<u128>) -> Self {
        Self { limit: Arc::clone(limit), key }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.limit.wake(|state| state.release(self.key));
    }
}

/// A call that waits for its permit.
#[derive(Debug)]
pub(crate) struct Waiting<'a> {
    limit: &'a Arc<InFlightLimit>,
    key: Option<u128>,
    id: u64,
    /// How many denials of the key it has seen.
    denials: u64,
}

impl Waiting<'_> {
    /// Waits for the permit until `end`, or until the breaker opens. While an outage is suspected at `end`, waits for the finding.
    ///
    /// # Errors
    /// [`CallError::Overloaded`] if the call is denied meanwhile; [`CallError::NotSent`] at `end`, or if less time is left than recent
    /// replies took; [`CallError::Unavailable`] when the breaker opens.
    pub(crate) async fn permit(
        mut self,
        is_denied: &(dyn Fn() -> bool + Sync),
        breaker: &Breaker,
        end: Instant,
        deadline: Duration,
    ) -> Result<Permit, CallError> {
        // From before the wait. Later denials are counted.
        if is_denied() {
            return Err(CallError::Overloaded);
        }
        let (mut ended, mut is_over) = (pin!(sleep_until(end)), false);
        loop {
            let granted = poll_fn(|context| {
                // The waker is known before the breaker is read, so that it is called if the breaker opens later.
                match self.limit.with(|state| state.poll(self.key, self.id, context.waker())) {
                    Polled::Granted { latency } => return Poll::Ready(Ok(Some(latency))),
                    Polled::Waits { denials } if std::mem::replace(&mut self.denials, denials) != denials => {
                        return Poll::Ready(Ok(None));
                    }
                    Polled::Waits { .. } if !breaker.is_closed() => {
                        return Poll::Ready(Err(CallError::no_replies()));
                    }
                    Polled::Waits { .. } if is_over && !breaker.is_suspected() => {
                        return Poll::Ready(Err(CallError::NotSent(deadline)));
                    }
                    Polled::Waits { .. } => {}
                }
                ended.as_mut().poll(context).map(|()| Err(CallError::NotSent(deadline)))
            });
            match granted.await {
                // The suspicion is settled within a deadline, unless this process stands still.
                Err(CallError::NotSent(_)) if !is_over && breaker.is_suspected() => {
                    is_over = true;
                    ended.as_mut().reset(end + deadline);
                }
                Err(error) => return Err(error),
                Ok(_) if is_denied() => return Err(CallError::Overloaded),
                Ok(None) => {}
                Ok(Some(latency)) => {
                    let left = end.saturating_duration_since(Instant::now());
                    if InFlightLimit::is_too_late(left, latency, deadline) {
                        return Err(CallError::NotSent(deadline));
                    }
                    let permit = Permit::new(self.limit, self.key);
                    std::mem::forget(self);
                    return Ok(permit);
                }
            }
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.limit.wake(|state| state.leave(self.key, self.id));
    }
}

/// The wakers to call after the lock is released.
type Woken = SmallVec<[Waker; 4]>;

#[cfg(test)]
mod tests;
