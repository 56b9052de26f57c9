//! Decides when a request is sent.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use portcullis_core::store::{Outcome, StoreFuture};
use portcullis_core::{Key, Retry};
use portcullis_engine::EventKind;
use portcullis_engine::engine::keyed_limit::WaitPermit;
use portcullis_tower::{Charge, CheckFuture, Limited, Reason, internal};
use tokio::time::{Instant, Sleep};

use crate::error::{OutgoingError, Paced};
use crate::shared::{Shared, blocked_for};

/// Why a request is not sent.
pub(super) enum Refusal {
    Limited(Paced),
    Undecided(Limited),
}

impl<E> From<Refusal> for OutgoingError<E> {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Limited(paced) => Self::Limited(paced),
            Refusal::Undecided(limited) => Self::Undecided(limited),
        }
    }
}

/// How the pacing of a request begins.
pub(super) enum Start {
    /// It is sent at once.
    Send(Charge),
    Wait(Box<Pacing>),
    Refuse(Refusal),
}

/// A request that is not sent yet.
///
/// # Cancel safety
///
/// As for [`CheckFuture`].
pub(super) struct Pacing {
    shared: Arc<Shared>,
    key: Key,
    /// When the request arrived.
    started: Instant,
    state: State,
}

#[expect(clippy::large_enum_variant, reason = "it is boxed, and most requests are the first variant")]
enum State {
    Checking(CheckFuture),
    /// The key is closed.
    Closed {
        since: Instant,
        sleep: Pin<Box<Sleep>>,
        _permit: WaitPermit,
    },
    /// The request has waited for its slot. Meanwhile another process may have closed the key.
    Looking {
        look: StoreFuture<Outcome>,
        charge: Option<Charge>,
    },
}

/// Charges a request, if it can be sent now.
pub(super) fn start(shared: &Arc<Shared>, key: Key) -> Start {
    if let Some(until) = shared.closed.until(key, Instant::now) {
        let started = Instant::now();
        return match closed(shared, key, started, until) {
            Ok(state) => Start::Wait(Box::new(Pacing { shared: Arc::clone(shared), key, started, state })),
            Err(refusal) => Start::Refuse(refusal),
        };
    }
    let mut check = shared.check(key, shared.config.at_most);
    // If it is not ready, it is polled again with a waker.
    match Pin::new(&mut check).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(charge)) => Start::Send(charge),
        Poll::Ready(Err(limited)) => {
            let started = Instant::now();
            match denied(shared, key, started, limited) {
                Ok(state) => {
                    Start::Wait(Box::new(Pacing { shared: Arc::clone(shared), key, started, state }))
                }
                Err(refusal) => Start::Refuse(refusal),
            }
        }
        Poll::Pending => {
            let (shared, started) = (Arc::clone(shared), Instant::now());
            Start::Wait(Box::new(Pacing { shared, key, started, state: State::Checking(check) }))
        }
    }
}

impl Pacing {
    pub(super) fn shared(&self) -> (&Arc<Shared>, Key) {
        (&self.shared, self.key)
    }

    /// Waits until the request may be sent. Returns what was charged.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Charge, Refusal>> {
        loop {
            let Self { shared, key, started, state } = self;
            let next = match state {
                State::Checking(check) => match ready!(Pin::new(check).poll(cx)) {
                    Ok(charge) if charge.decision().delay().is_zero() => return Poll::Ready(Ok(charge)),
                    Ok(charge) => Ok(State::Looking { look: shared.look(*key), charge: Some(charge) }),
                    Err(limited) => denied(shared, *key, *started, limited),
                },
                State::Looking { look, charge } => {
                    let blocked = ready!(Pin::new(look).poll(cx)).ok().as_ref().and_then(blocked_for);
                    let now = Instant::now();
                    let blocked = blocked.and_then(|left| now.checked_add(left));
                    let charge = charge.take().expect("it is taken with the answer");
                    match blocked.max(shared.closed.until(*key, || now)) {
                        None => return Poll::Ready(Ok(charge)),
                        Some(until) => {
                            shared.refund(charge);
                            closed(shared, *key, *started, until)
                        }
                    }
                }
                State::Closed { since, sleep, .. } => {
                    ready!(sleep.as_mut().poll(cx));
                    let (policy, waited) = (shared.config.policy.name(), since.elapsed());
                    shared.emit(Some(*key), EventKind::Waited { policy, waited });
                    if let Some(until) = shared.closed.until(*key, Instant::now) {
                        closed(shared, *key, *started, until)
                    } else {
                        let left = longest_wait(shared).saturating_sub(started.elapsed());
                        Ok(State::Checking(shared.check(*key, Some(left))))
                    }
                }
            };
            match next {
                Ok(next) => *state = next,
                Err(refusal) => return Poll::Ready(Err(refusal)),
            }
        }
    }
}

/// How long a request waits in all.
fn longest_wait(shared: &Shared) -> Duration {
    let config = &shared.config;
    config.at_most.or(config.policy.max_wait()).unwrap_or_default()
}

/// A check has denied the request: it waits if its key is closed and opens in time.
fn denied(shared: &Shared, key: Key, started: Instant, limited: Limited) -> Result<State, Refusal> {
    let Some(decision) = limited.decision() else { return Err(Refusal::Undecided(limited)) };
    let left = match decision.retry() {
        Some(Retry::After(left)) => Some(left),
        _ => None,
    };
    if limited.reason() == Reason::Blocked
        && let Some(until) = left.and_then(|left| Instant::now().checked_add(left))
    {
        return closed(shared, key, started, until);
    }
    Err(Refusal::Limited(Paced::new(decision.policy().clone(), left, decision.is_blocked())))
}

/// Waits until a key opens, unless that takes too long or too many requests wait.
fn closed(shared: &Shared, key: Key, started: Instant, until: Instant) -> Result<State, Refusal> {
    let since = Instant::now();
    let config = &shared.config;
    if until.saturating_duration_since(started) > longest_wait(shared) {
        shared.emit(Some(key), EventKind::Rejected { reason: Reason::Blocked, decisions: &[] });
        let left = until.saturating_duration_since(since);
        return Err(Refusal::Limited(Paced::new(config.policy.name().clone(), Some(left), true)));
    }
    let own = (!key.is_shared()).then_some(key);
    let Some(permit) = config.registry.engine().backlog.wait_limit.acquire(own) else {
        shared.emit(Some(key), EventKind::TooManyWaiting);
        shared.emit(Some(key), EventKind::Rejected { reason: Reason::Overloaded, decisions: &[] });
        return Err(Refusal::Undecided(internal::overloaded(&config.registry)));
    };
    let sleep = Box::pin(tokio::time::sleep_until(until));
    Ok(State::Closed { since, sleep, _permit: permit })
}
