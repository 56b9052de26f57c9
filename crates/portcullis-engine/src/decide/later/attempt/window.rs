//! The wait for a window, a log or a permit of requests in flight that has denied a request: it is checked again when it may fit.

use std::sync::Arc;
use std::time::Duration;

use portcullis_core::store::{Check, Checks, Outcome};
use portcullis_core::{Policy, Retry, StoreError};
use tokio::time::{Instant, timeout_at};

use super::Attempt;
use crate::decide::call::StoreCall;
use crate::decide::{Ask, Rejected};
use crate::engine::report;
use crate::engine::windows::WindowQueueId;
use crate::event::{EventKeys, EventKind};
use crate::limit::is_in_flight;

/// Until when a request waits for its windows.
#[derive(Clone, Copy)]
struct Deadlines {
    arrival: Instant,
    /// The longest wait that the caller accepts.
    max_wait: Option<Duration>,
}

/// Which window a request waits for.
#[derive(Clone, Copy)]
struct Awaited {
    id: WindowQueueId,
    /// When the request may fit, if the store was asked.
    due: Option<Instant>,
    /// The end of the longest wait.
    deadline: Instant,
    /// The length of the window; zero for a permit, which comes back at any time.
    window: Duration,
}

/// Returns the last answer of the store.
///
/// # Cancel safety
///
/// While the request waits, nothing is charged, and the requests behind it move up.
pub(super) async fn check(
    attempt: &mut Attempt,
    ask: &Ask,
    in_queue: bool,
) -> Result<Result<Outcome, StoreError>, Rejected> {
    let limits = Arc::clone(attempt.limits());
    let (checks, queues) = (ask.checks(&limits), &limits.engine().backlog.window_queues);
    let call = || StoreCall::new(&limits, limits.check(checks.clone()), in_queue);
    let deadlines = Deadlines { arrival: Instant::now(), max_wait: attempt.max_wait() };
    let behind = deadlines.first_awaited(&checks, |id, deadline| queues.has_waiters_before(id, deadline));
    let mut awaited = if let Some(behind) = behind {
        behind
    } else {
        let answer = attempt.answer(call()).await;
        let Some(awaited) = Awaited::of(&answer, deadlines) else { return Ok(answer) };
        report::answered(&limits, answer.as_ref());
        awaited
    };
    if !attempt.wait_as(checks.narrowest_key()) {
        return Err(attempt.overloaded());
    }
    attempt.waits_since.get_or_insert(deadlines.arrival);
    let mut place = queues.join(awaited.id, awaited.due);
    let mut turn = None;
    attempt.patience().resume().await;
    loop {
        let deadline = awaited.deadline;
        if turn.is_none() {
            // Even if a request ahead is not polled, this one asks at the end of its wait.
            turn = timeout_at(deadline, place.turn()).await.ok();
        }
        // If the window begins too late, the store denies the request now.
        if let Some(due) = place.due().filter(|due| turn.is_some() && *due <= deadline) {
            let is_past = due <= deadlines.arrival;
            let spread = if is_past { Duration::ZERO } else { awaited.id.spread(awaited.window) };
            // A permit that comes back ends the wait.
            let _ = timeout_at((due + spread).min(deadline), place.freed()).await;
        }
        let is_last = Instant::now() >= deadline;
        let answer = call().await;
        let Some(next) = Awaited::of(&answer, deadlines).filter(|_| !is_last) else {
            if answer.as_ref().is_ok_and(Outcome::is_allowed)
                && let Some(check) = checks.iter().find(|check| WindowQueueId::new(check) == awaited.id)
            {
                let waited = deadlines.arrival.elapsed();
                let kind = EventKind::Waited { policy: check.policy.name(), waited };
                limits.emit(kind, || EventKeys::of_checks(&checks));
                if is_in_flight(&check.policy) {
                    // Another permit may have come back as well.
                    place.set_due(Some(Instant::now()));
                }
            }
            return Ok(answer);
        };
        report::answered(&limits, answer.as_ref());
        if next.id == awaited.id {
            place.set_due(next.due);
        } else {
            // At the end of the queue of another window.
            turn = None;
            place = queues.join(next.id, next.due);
        }
        awaited = next;
    }
}

impl Deadlines {
    /// `None` if the request does not wait for the policy, or it is a rate-based one, which compares the wait itself.
    fn of(self, policy: &Policy) -> Option<Instant> {
        let longest = policy.max_wait().filter(|_| !policy.strategy().queues())?;
        Some(self.arrival + self.max_wait.map_or(longest, |max_wait| longest.min(max_wait)))
    }

    /// The first window in whose queue others wait, so that the request waits behind them without a call of the store.
    fn first_awaited(
        self,
        checks: &Checks,
        has_waiters_before: impl Fn(WindowQueueId, Instant) -> bool,
    ) -> Option<Awaited> {
        // A cost that never fits is denied without a wait.
        let may_fit = |check: &&Check| (1..=check.policy.strategy().limit()).contains(&check.cost);
        checks.iter().filter(may_fit).find_map(|check| {
            let (deadline, id) = (self.of(&check.policy)?, WindowQueueId::new(check));
            let window = window_of(&check.policy);
            has_waiters_before(id, deadline).then_some(Awaited { id, due: None, deadline, window })
        })
    }
}

impl Awaited {
    /// The window that the request waits for longest; `None` if the answer is final, because it is no denial, or because a policy
    /// denies the request for longer than it may wait.
    fn of(answer: &Result<Outcome, StoreError>, deadlines: Deadlines) -> Option<Self> {
        let outcome = answer.as_ref().ok().filter(|outcome| !outcome.is_allowed())?;
        let now = Instant::now();
        let mut longest: Option<Self> = None;
        for (check, decision) in outcome.checks().iter().zip(outcome.decisions()) {
            let retry = match decision.retry() {
                None => continue,
                // A block is no window that ends.
                Some(_) if decision.is_blocked() => return None,
                Some(retry) => retry,
            };
            let deadline = deadlines.of(&check.policy)?;
            let due = match retry {
                Retry::After(wait) => now + wait,
                Retry::Unknown if now < deadline => deadline.min(now + PERMIT_INTERVAL),
                Retry::Unknown | Retry::Never => return None,
            };
            if due > deadline {
                return None;
            }
            if longest.as_ref().and_then(|longest| longest.due).is_none_or(|longest| due > longest) {
                let (id, window) = (WindowQueueId::new(check), window_of(&check.policy));
                longest = Some(Self { id, due: Some(due), deadline, window });
            }
        }
        longest
    }
}

/// What spreads the requests of different keys: the windows of all keys begin together, and permits come back one by one.
fn window_of(policy: &Policy) -> Duration {
    if is_in_flight(policy) { Duration::ZERO } else { policy.strategy().window() }
}

/// How often the first request of a queue asks for a permit that another process may have released, or whose lease may have ended.
const PERMIT_INTERVAL: Duration = Duration::from_millis(100);
