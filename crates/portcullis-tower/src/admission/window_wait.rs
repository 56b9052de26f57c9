//! Keeps a request that a window or log has denied, and checks it again when it may fit.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use portcullis_core::store::{Check, Checks, Outcome};
use portcullis_core::{Policy, Retry, StoreError};
use tokio::time::{Instant, Sleep};

use super::max_wait::MaxWait;
use super::pending_check::PendingCheck;
use super::permits;
use crate::config::LayerConfig;
use crate::event::{EventKeys, EventKind};
use crate::wait_limit::WaitPermit;
use crate::window_queues::{WindowQueueId, WindowTurn, WindowWaiter};

/// What it takes to check a request again.
pub(super) struct WaitContext {
    config: Arc<LayerConfig>,
    checks: Checks,
    deadlines: Deadlines,
    /// Whether the answer may also put the request into a queue.
    in_queue: bool,
    /// A permit that the request already has; its key may be a wider one.
    permit: Option<WaitPermit>,
}

/// Until when a request waits for its windows.
#[derive(Clone, Copy)]
struct Deadlines {
    arrival: Instant,
    /// The bound that a check of a handler sets.
    max_wait: Option<MaxWait>,
}

impl Deadlines {
    /// `None` if the request does not wait for the policy, or it is a rate-based one, which compares the wait itself.
    fn of(self, policy: &Policy) -> Option<Instant> {
        let longest = policy.max_wait().filter(|_| !policy.strategy().queues())?;
        Some(self.arrival + self.max_wait.map_or(longest, |MaxWait(max_wait)| longest.min(max_wait)))
    }
}

/// The last answer to a request.
#[expect(clippy::large_enum_variant, reason = "it is moved once, to its only caller")]
pub(super) enum LastAnswer {
    /// With the permit of a request that has waited.
    Decided(Result<Outcome, StoreError>, Option<WaitPermit>),
    /// The request would have to wait, and too many requests wait.
    TooManyWait,
}

/// The way on after a denial.
#[expect(clippy::large_enum_variant, reason = "it is moved once, to its only caller")]
pub(super) enum Continued {
    Wait(Box<WindowWait>),
    Over(LastAnswer),
}

impl Continued {
    /// The way on after an answer, of a request that may wait if it has `context`.
    pub(super) fn of(context: Option<Box<WaitContext>>, answer: Result<Outcome, StoreError>) -> Self {
        match context {
            None => Self::Over(LastAnswer::Decided(answer, None)),
            Some(context) => context.after(answer),
        }
    }
}

impl WaitContext {
    pub(super) fn new(
        config: &Arc<LayerConfig>,
        checks: Checks,
        in_queue: bool,
        permit: Option<WaitPermit>,
        max_wait: Option<MaxWait>,
    ) -> Box<Self> {
        let deadlines = Deadlines { arrival: Instant::now(), max_wait };
        Box::new(Self { config: Arc::clone(config), checks, deadlines, in_queue, permit })
    }

    /// Lets the request wait behind others that wait for one of its windows, without a call of the store. `Err` if it has to ask.
    pub(super) fn behind_others(self: Box<Self>) -> Result<Continued, Box<Self>> {
        let queues = self.config.registry.window_queues();
        // A cost that never fits is denied without a wait.
        let may_fit = |check: &&Check| (1..=check.policy.strategy().limit()).contains(&check.cost);
        let waited_for = self.checks.iter().filter(may_fit).find_map(|check| {
            let deadline = self.deadlines.of(&check.policy)?;
            let id = WindowQueueId::new(check);
            // If the window begins too late, the store answers with the exact time.
            let window = check.policy.strategy().window();
            queues.has_waiters_before(id, deadline).then_some((id, deadline, window))
        });
        match waited_for {
            Some((id, deadline, window)) => Ok(self.wait(Awaited { id, due: None, deadline, window })),
            None => Err(self),
        }
    }

    /// Lets the request wait if `answer` is a denial that ends within the longest wait.
    pub(super) fn after(mut self: Box<Self>, answer: Result<Outcome, StoreError>) -> Continued {
        match Awaited::of(&answer, self.deadlines) {
            Some(awaited) => {
                self.config.store.emit_answer(&answer);
                self.wait(awaited)
            }
            None => Continued::Over(LastAnswer::Decided(answer, self.permit.take())),
        }
    }

    fn wait(mut self: Box<Self>, awaited: Awaited) -> Continued {
        drop(self.permit.take());
        let keys = || EventKeys::of_checks(&self.checks);
        self.permit = permits::acquire(&self.config, self.checks.narrowest_key(), keys);
        if self.permit.is_none() {
            return Continued::Over(LastAnswer::TooManyWait);
        }
        let waiter = Some(self.config.registry.window_queues().join(awaited.id, awaited.due));
        let sleep = Box::pin(tokio::time::sleep_until(awaited.deadline));
        Continued::Wait(Box::new(WindowWait {
            context: self,
            awaited,
            waiter,
            asking: None,
            is_last: false,
            sleep,
        }))
    }
}

/// Which window a request waits for.
#[derive(Clone, Copy)]
struct Awaited {
    id: WindowQueueId,
    /// When the request may fit, if the store was asked.
    due: Option<Instant>,
    /// The end of the longest wait.
    deadline: Instant,
    /// The length of the window.
    window: std::time::Duration,
}

impl Awaited {
    /// The window that the request waits for longest; `None` if the answer is final, because it is no denial, or because a policy
    /// denies the request for longer than it may wait.
    fn of(answer: &Result<Outcome, StoreError>, deadlines: Deadlines) -> Option<Self> {
        let outcome = answer.as_ref().ok().filter(|outcome| !outcome.is_allowed())?;
        let now = Instant::now();
        let mut longest: Option<Self> = None;
        for (check, decision) in outcome.checks().iter().zip(outcome.decisions()) {
            let due = match decision.retry() {
                None => continue,
                Some(Retry::Unknown | Retry::Never) => return None,
                // A block is no window that ends.
                Some(Retry::After(_)) if decision.is_blocked() => return None,
                Some(Retry::After(wait)) => now + wait,
            };
            let deadline = deadlines.of(&check.policy)?;
            if due > deadline {
                return None;
            }
            if longest.as_ref().and_then(|longest| longest.due).is_none_or(|longest| due > longest) {
                let (id, window) = (WindowQueueId::new(check), check.policy.strategy().window());
                longest = Some(Self { id, due: Some(due), deadline, window });
            }
        }
        longest
    }
}

/// A request that waits for a window or log.
///
/// # Cancel safety
///
/// While it waits, nothing is charged: if it is dropped, the requests behind it move up. If it is dropped during a call of the
/// store, the charges of that call stay, except for slots in queues.
pub(super) struct WindowWait {
    context: Box<WaitContext>,
    awaited: Awaited,
    /// `None` after the last answer.
    waiter: Option<WindowWaiter>,
    asking: Option<PendingCheck>,
    /// Whether the longest wait is over, so that the next answer is the last.
    is_last: bool,
    sleep: Pin<Box<Sleep>>,
}

impl WindowWait {
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<LastAnswer> {
        loop {
            if let Some(asking) = &mut self.asking {
                let answer = ready!(asking.poll(cx));
                self.asking = None;
                let Some(awaited) = Awaited::of(&answer, self.context.deadlines).filter(|_| !self.is_last)
                else {
                    // The next request asks now.
                    self.waiter = None;
                    if answer.as_ref().is_ok_and(Outcome::is_allowed) {
                        self.emit_waited();
                    }
                    return Poll::Ready(LastAnswer::Decided(answer, self.context.permit.take()));
                };
                self.context.config.store.emit_answer(&answer);
                self.wait_again(awaited);
            }
            let Awaited { id, deadline, window, .. } = self.awaited;
            let turn = match &self.waiter {
                Some(waiter) => waiter.turn(cx.waker()),
                None => WindowTurn::First(None),
            };
            let asks_at = match turn {
                // If the window begins too late, the store denies the request now.
                WindowTurn::First(due) => due.filter(|due| *due <= deadline).map(|due| {
                    if due <= self.context.deadlines.arrival {
                        due
                    } else {
                        (due + id.spread(window)).min(deadline)
                    }
                }),
                // Even if a request ahead is not polled.
                WindowTurn::Behind => Some(deadline),
            };
            let now = Instant::now();
            if let Some(asks_at) = asks_at.filter(|asks_at| *asks_at > now) {
                if self.sleep.deadline() != asks_at {
                    self.sleep.as_mut().reset(asks_at);
                }
                ready!(self.sleep.as_mut().poll(cx));
                continue;
            }
            self.is_last = now >= deadline;
            let WaitContext { config, checks, in_queue, .. } = &*self.context;
            self.asking = Some(PendingCheck::new(config, config.store.check(checks.clone()), *in_queue));
        }
    }

    /// Emits that the request goes on, under the policy that it has waited for last.
    fn emit_waited(&self) {
        let WaitContext { config, checks, deadlines, .. } = &*self.context;
        let id = self.awaited.id;
        if let Some(check) = checks.iter().find(|check| WindowQueueId::new(check) == id) {
            let waited =
                EventKind::Waited { policy: check.policy.name(), waited: deadlines.arrival.elapsed() };
            config.store.emit_with(waited, || EventKeys::of_checks(checks));
        }
    }

    /// Waits for the window that has denied the request now: that of the same queue, or of another one, at its end.
    fn wait_again(&mut self, awaited: Awaited) {
        match (&self.waiter, awaited.due) {
            (Some(waiter), Some(due)) if waiter.id() == awaited.id => waiter.set_due(due),
            _ => {
                self.waiter =
                    Some(self.context.config.registry.window_queues().join(awaited.id, awaited.due));
            }
        }
        self.awaited = awaited;
    }
}
