//! Calls for several checks.
//!
//! A check that has its permit is sent at once, by its caller, if few calls are on their way. Otherwise it waits in the
//! [queue](crate::resilience::combining), and a task sends it in one call with others. No caller sends for another one, so
//! callers that go away, or are not polled, hold up no other.
//!
//! A check waits for at most 1/16 of its deadline. If the fate of its call is unknown, so is its own. An error reply means that nothing was
//! written: if checks would differ in calls of their own, each is sent by itself, and equal checks under one permit together, because
//! their answers are the same. Permits are held until the reply, or until the connection ends.

mod queued_check;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use ::fred::error::Error;
use bytes::Bytes;
use tokio::task::yield_now;
use tokio::time::Instant;

use super::Link;
use super::reply::reply_to;
use super::reply_observer::ReplyObserver;
use crate::fred::command::Command;
use crate::fred::error::{call_error, is_answer};
use crate::protocol::value::Value;
use crate::protocol::wire::CombinedRequest;
use crate::resilience::combining::{Due, Taken, Turn};
use crate::resilience::deadline::ReplyTime;
use crate::resilience::liveness::Liveness;
use crate::resilience::watch::watch;
use crate::transport::CallError;
pub(super) use queued_check::{Answer, Caller, QueuedCheck};

/// What checks have in common that may share a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LaneKey {
    /// The slot, in a cluster.
    slot: Option<u16>,
    /// The instant of a scenario.
    instant: Option<Bytes>,
}

/// A turn of a lane. When it is dropped, the turn ends, and what waits is sent.
pub(super) struct LaneTurn {
    link: Arc<Link>,
    lane: LaneKey,
    /// Taken when it ends.
    turn: Option<Turn>,
}

impl Link {
    /// Starts a task that sends the checks that wait no longer, from `first` on, and ends when none is left.
    pub(super) fn watch(self: &Arc<Self>, first: Instant) {
        // If the runtime ends before the task, what waits is dropped, and the callers get an error.
        watch(&self.runtime, self, first, Self::send_due, |link| drop(link.combining.clear()));
    }

    /// Sends the checks that have waited for long enough. Returns when to look again.
    fn send_due(self: &Arc<Self>, at: Instant) -> Option<Instant> {
        let Due { calls, next } = self.combining.due(at, Instant::now());
        for (lane, turn, checks) in calls {
            let link = Arc::clone(self);
            self.runtime.spawn(async move {
                // If the runtime ends before this, no further call begins.
                let turn = LaneTurn::new(&link, lane, turn);
                send_in_one_call(&link, turn.lane.slot, checks).await;
            });
        }
        next
    }

    pub(super) fn lane(&self, command: &Command) -> LaneKey {
        let slot = command.slot.filter(|_| command.by_slot || self.is_clustered);
        LaneKey { slot, instant: command.instant().cloned() }
    }

    /// Sends what waits in one call, by a task, and what arrives after it in the calls that follow in its turn.
    pub(super) fn send_what_arrives(self: &Arc<Self>, lane: LaneKey, turn: Turn) {
        let link = Arc::clone(self);
        self.runtime.spawn(async move {
            let mut turn = LaneTurn::new(&link, lane, turn);
            loop {
                turn.wait_for_more().await;
                let checks = turn.take();
                send_in_one_call(&link, turn.lane.slot, checks).await;
                if !turn.continues() {
                    break;
                }
                // The callers that were answered check again.
                yield_now().await;
            }
        });
    }
}

impl LaneTurn {
    pub(super) fn new(link: &Arc<Link>, lane: LaneKey, turn: Turn) -> Self {
        Self { link: Arc::clone(link), lane, turn: Some(turn) }
    }

    /// Lets the tasks run that are ready, and again as long as more checks arrive meanwhile.
    async fn wait_for_more(&self) {
        let mut seen = 0;
        for _ in 0..MOST_YIELDS {
            let arrived = self.link.combining.arrived(&self.lane);
            if arrived <= seen {
                break;
            }
            seen = arrived;
            yield_now().await;
        }
    }

    fn take(&mut self) -> Vec<QueuedCheck> {
        let Some(turn) = &mut self.turn else { return Vec::new() };
        let Taken { checks, begins } = self.link.combining.take(&self.lane, turn);
        if let Some(begins) = begins {
            self.link.send_what_arrives(self.lane.clone(), begins);
        }
        checks
    }

    fn continues(&mut self) -> bool {
        self.turn.as_mut().is_some_and(|turn| self.link.combining.continues(&self.lane, turn))
    }
}

impl Drop for LaneTurn {
    fn drop(&mut self) {
        if let Some(turn) = self.turn.take()
            && let Some(begins) = self.link.combining.end(&self.lane, turn)
        {
            self.link.send_what_arrives(self.lane.clone(), begins);
        }
    }
}

/// Sends checks in one call. `slot` is that of their lane.
async fn send_in_one_call(link: &Arc<Link>, slot: Option<u16>, mut checks: Vec<QueuedCheck>) {
    let now = Instant::now();
    let latency = link.health.in_flight.latency();
    checks.retain_mut(|check| check.is_to_be_sent(now, latency));
    let Some(first) = checks.first() else { return };
    let admitted = link.live().and_then(|live| {
        let breaker_permit = link.health.breaker.admit().ok_or_else(CallError::no_replies)?;
        Ok((live, breaker_permit))
    });
    let (live, breaker_permit) = match admitted {
        Ok(admitted) => admitted,
        Err(error) => return fail(checks, &error),
    };
    let mut request = CombinedRequest::default();
    for check in &checks {
        request.add(&check.command.words, check.count());
    }
    let command = first.command.with_request(request.keys(), request.request());
    let observer =
        ReplyObserver::new(&command, ReplyTime::Sufficient, breaker_permit, &live, &link.health, now);
    let count = checks.iter().map(QueuedCheck::count).sum();
    let (permits, deadline) = (checks.len(), command.deadline);
    let (observer, liveness) = (Some(observer.of_decisions(permits, count)), Arc::clone(&live.liveness));
    let mut call =
        CombinedCall { link, slot, request, checks, observer, liveness, sent: now, is_next: false };
    let mut reply = reply_to(&live, command);
    let first = poll_fn(|context| Poll::Ready(reply.as_mut().poll(context))).await;
    if let Poll::Ready(result) = first {
        return call.finish(result);
    }
    call.is_next = link.health.in_flight.has_only(permits);
    while let Some(end) = call.next_deadline() {
        let mut result = link.timer.wait_until(end, &mut reply).await;
        if let (None, Some(observer)) = (&result, &mut call.observer) {
            result = Box::pin(observer.wait_on(end, deadline, reply.as_mut())).await;
        }
        match result {
            Some(result) => return call.finish(result),
            None => call.expire(end.max(Instant::now())),
        }
    }
    let result = reply.await;
    // Too late for every caller.
    call.observer = None;
    call.finish(result);
}

/// A call for several checks that was given to fred.
struct CombinedCall<'a> {
    link: &'a Arc<Link>,
    slot: Option<u16>,
    request: CombinedRequest,
    checks: Vec<QueuedCheck>,
    /// Taken when the result of the call is recorded, or that there was none at the first deadline.
    observer: Option<ReplyObserver>,
    liveness: Arc<Liveness>,
    sent: Instant,
    /// Whether all earlier calls were answered when it was sent, so that the next reply is for this one.
    is_next: bool,
}

impl CombinedCall<'_> {
    /// The first deadline of a caller that still waits.
    fn next_deadline(&self) -> Option<Instant> {
        let callers = self.checks.iter().flat_map(|check| &check.callers);
        callers.filter(|caller| caller.answer.is_some()).map(|caller| caller.end).min()
    }

    /// Answers the callers whose deadline has passed.
    fn expire(&mut self, end: Instant) {
        let (link, sent) = (self.link, self.sent);
        let callers = self.checks.iter_mut().flat_map(|check| {
            let deadline = check.command.deadline;
            check.callers.iter_mut().map(move |caller| (caller, deadline))
        });
        for (caller, deadline) in callers.filter(|(caller, _)| caller.end <= end && caller.answer.is_some()) {
            let left = caller.end.saturating_duration_since(sent);
            let error = match ReplyTime::of(caller.before, left, deadline) {
                ReplyTime::SpentOnPermit => CallError::Overtaken(deadline),
                ReplyTime::Sufficient => match self.observer.take() {
                    Some(observer) => observer.observe_no_reply(deadline),
                    None if link.health.breaker.outage().is_some() && !link.replied_since(sent) => {
                        CallError::TimedOut(deadline)
                    }
                    None => CallError::Overtaken(deadline),
                },
            };
            caller.answer(Err(error));
        }
    }

    /// Records the result, and answers the callers that still wait.
    fn finish(mut self, result: Result<Value, Error>) {
        let observer = self.observer.take();
        if observer.is_none() && is_answer(&result) {
            // It came after the deadline of a caller.
            self.liveness.reply();
            self.link.health.breaker.replied();
        }
        match result.map_err(|error| call_error(&error, self.is_next)) {
            Ok(reply) => self.answer(&reply, observer),
            Err(error) => {
                let differ = self.checks.len() > 1 && self.would_differ_alone(&error);
                let result = Err(error);
                if let Some(observer) = observer {
                    observer.observe(&result);
                }
                for check in self.checks {
                    if !differ {
                        check.answer(&result);
                    } else if let Some(repeated) = check.send_alone() {
                        // Without a place in the queue: it has waited for one before.
                        let (link, slot) = (Arc::clone(self.link), self.slot);
                        link.runtime.clone().spawn(async move {
                            send_in_one_call(&link, slot, vec![repeated]).await;
                        });
                    }
                }
            }
        }
    }

    fn answer(self, reply: &Value, observer: Option<ReplyObserver>) {
        let replies = match reply {
            Value::Text(bytes) => self.request.split(bytes),
            _ => None,
        };
        // What the store reads from another reply is an error for each check.
        let replies = replies.unwrap_or_default();
        if let Some(observer) = observer {
            let wrote = self.checks.first().map(|check| check.command.wrote);
            let written = replies.iter().find(|reply| wrote.is_some_and(|wrote| wrote(reply)));
            observer.observe(&Ok(written.unwrap_or(reply).clone()));
        }
        // Released before the callers run on, whose next checks need permits.
        let callers: Vec<_> = self.checks.into_iter().flat_map(|check| check.callers).collect();
        let mut replies = replies.into_iter();
        for mut caller in callers {
            caller.answer(Ok(replies.next().unwrap_or(Value::Null)));
        }
    }

    /// Whether the checks may get different answers in calls of their own, and not because a server has become a replica.
    fn would_differ_alone(&self, error: &CallError) -> bool {
        let is_wrong_node = self.slot.is_some() && error.is_read_only();
        error.is_of_some_decisions() && !is_wrong_node
    }
}

fn fail(checks: Vec<QueuedCheck>, error: &CallError) {
    let result = Err(error.clone());
    for check in checks {
        check.answer(&result);
    }
}

/// The part of its deadline for which a check waits at most for calls that are on their way.
pub(super) const LONGEST_WAIT: u32 = 16;
/// How often a call that is about to leave looks for more checks.
const MOST_YIELDS: usize = 16;
