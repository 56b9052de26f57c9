//! Calls for several decisions.
//!
//! A decision that has its permit is sent at once, by its caller, if few calls are on their way. Otherwise it waits in the
//! [queue](crate::resilience::combining), and a task sends it in one call with others. No caller sends for another one, so
//! callers that go away, or are not polled, hold up no other.
//!
//! A decision waits for at most 1/16 of its deadline. If the fate of its call is unknown, so is its own. An error reply means that nothing was
//! written: if decisions would differ in calls of their own, each is sent by itself, and equal decisions under one permit together, because
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
use crate::resilience::combining::{Due, Taken};
use crate::resilience::deadline::ReplyTime;
use crate::resilience::liveness::Liveness;
use crate::resilience::watch::watch;
use crate::transport::CallError;
pub(super) use queued_check::{Answer, Caller, QueuedCheck};

/// What decisions have in common that may share a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lane {
    /// The slot, in a cluster.
    slot: Option<u16>,
    /// The instant of a scenario.
    instant: Option<Bytes>,
}

/// A call that is on its way. When it is dropped, the call has ended, and what waits is sent.
pub(super) struct LaneCall {
    link: Arc<Link>,
    lane: Lane,
    /// How many decisions its call has, those included that have left since.
    decisions: usize,
}

impl Link {
    /// Starts a task that sends the decisions that wait no longer, from `first` on, and ends when none is left.
    pub(super) fn watch(self: &Arc<Self>, first: Instant) {
        // If the runtime ends before the task, what waits is dropped, and the callers get an error.
        watch(&self.runtime, self, first, Self::send_due, |link| drop(link.combining.clear()));
    }

    /// Sends the decisions that have waited for long enough. Returns when to look again.
    fn send_due(self: &Arc<Self>, at: Instant) -> Option<Instant> {
        let Due { calls, next } = self.combining.due(at, Instant::now());
        for (lane, decisions) in calls {
            self.send_combined(&lane, decisions);
        }
        next
    }

    pub(super) fn lane(&self, command: &Command) -> Lane {
        let slot = command.slot.filter(|_| command.by_slot || self.is_clustered);
        Lane { slot, instant: command.instant().cloned() }
    }

    /// Sends what waits in one call, by a task, whose call has begun in the queue, and then the calls that begin in its place.
    pub(super) fn send_what_arrives(self: &Arc<Self>, lane: &Lane) {
        let (link, lane) = (Arc::clone(self), lane.clone());
        self.runtime.spawn(async move {
            let mut lane_call = LaneCall { link, lane, decisions: 0 };
            loop {
                lane_call.wait_for_more().await;
                let Taken { decisions, begins_call } = lane_call.link.combining.take(&lane_call.lane);
                lane_call.decisions = count(&decisions);
                if begins_call {
                    lane_call.link.send_what_arrives(&lane_call.lane);
                }
                send_in_one_call(&lane_call.link, lane_call.lane.slot, decisions).await;
                if !lane_call.begin_next() {
                    break;
                }
                // The callers that were answered decide again.
                yield_now().await;
            }
        });
    }

    /// Sends decisions in one call, by a task. Their call has begun in the queue.
    fn send_combined(self: &Arc<Self>, lane: &Lane, decisions: Vec<QueuedCheck>) {
        if decisions.is_empty() {
            return;
        }
        let (link, lane) = (Arc::clone(self), lane.clone());
        self.runtime.spawn(async move {
            // If the runtime ends before this, no further call begins.
            let lane_call = LaneCall { link, lane, decisions: count(&decisions) };
            send_in_one_call(&lane_call.link, lane_call.lane.slot, decisions).await;
        });
    }
}

impl LaneCall {
    pub(super) fn alone(link: &Arc<Link>, lane: Lane) -> Self {
        Self { link: Arc::clone(link), lane, decisions: 1 }
    }

    /// Lets the tasks run that are ready, and again as long as more decisions arrive meanwhile for a call beside another one.
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

    /// Begins the next call in the place of its own, which has ended.
    fn begin_next(&mut self) -> bool {
        let begins = self.link.combining.begin_next(&self.lane, self.decisions);
        if begins {
            self.decisions = 0;
        }
        begins
    }
}

impl Drop for LaneCall {
    fn drop(&mut self) {
        if self.link.combining.end(&self.lane, self.decisions) {
            self.link.send_what_arrives(&self.lane);
        }
    }
}

/// Sends decisions in one call. `slot` is that of their lane.
async fn send_in_one_call(link: &Arc<Link>, slot: Option<u16>, mut decisions: Vec<QueuedCheck>) {
    let now = Instant::now();
    let latency = link.health.in_flight.latency();
    decisions.retain_mut(|decision| decision.is_to_be_sent(now, latency));
    let Some(first) = decisions.first() else { return };
    let admitted = link.live().and_then(|live| {
        let breaker_permit = link.health.breaker.admit().ok_or_else(CallError::no_replies)?;
        Ok((live, breaker_permit))
    });
    let (live, breaker_permit) = match admitted {
        Ok(admitted) => admitted,
        Err(error) => return fail(decisions, &error),
    };
    let mut request = CombinedRequest::default();
    for decision in &decisions {
        decision.callers.iter().for_each(|_| request.add(&decision.command.words));
    }
    let command = first.command.with_request(request.keys(), request.request());
    let observer = ReplyObserver::new(&command, ReplyTime::Sufficient, breaker_permit, &live, &link.health);
    let (permits, count, deadline) = (decisions.len(), count(&decisions), command.deadline);
    let (observer, liveness) = (Some(observer.of_decisions(permits, count)), Arc::clone(&live.liveness));
    let mut call =
        CombinedCall { link, slot, request, decisions, observer, liveness, sent: now, is_next: false };
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

fn count(decisions: &[QueuedCheck]) -> usize {
    decisions.iter().map(QueuedCheck::count).sum()
}

/// A call for several decisions that was given to fred.
struct CombinedCall<'a> {
    link: &'a Arc<Link>,
    slot: Option<u16>,
    request: CombinedRequest,
    decisions: Vec<QueuedCheck>,
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
        let callers = self.decisions.iter().flat_map(|decision| &decision.callers);
        callers.filter(|caller| caller.answer.is_some()).map(|caller| caller.end).min()
    }

    /// Answers the callers whose deadline has passed.
    fn expire(&mut self, end: Instant) {
        let (link, sent) = (self.link, self.sent);
        let callers = self.decisions.iter_mut().flat_map(|decision| {
            let deadline = decision.command.deadline;
            decision.callers.iter_mut().map(move |caller| (caller, deadline))
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
                let differ = self.decisions.len() > 1 && self.would_differ_alone(&error);
                let result = Err(error);
                if let Some(observer) = observer {
                    observer.observe(&result);
                }
                for decision in self.decisions {
                    if !differ {
                        decision.answer(&result);
                    } else if let Some(repeated) = decision.send_alone() {
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
        // What the store reads from another reply is an error for each decision.
        let replies = replies.unwrap_or_default();
        if let Some(observer) = observer {
            let wrote = self.decisions.first().map(|decision| decision.command.wrote);
            let written = replies.iter().find(|reply| wrote.is_some_and(|wrote| wrote(reply)));
            observer.observe(&Ok(written.unwrap_or(reply).clone()));
        }
        // Released before the callers run on, whose next decisions need permits.
        let callers: Vec<_> = self.decisions.into_iter().flat_map(|decision| decision.callers).collect();
        let mut replies = replies.into_iter();
        for mut caller in callers {
            caller.answer(Ok(replies.next().unwrap_or(Value::Null)));
        }
    }

    /// Whether the decisions may get different answers in calls of their own, and not because a server has become a replica.
    fn would_differ_alone(&self, error: &CallError) -> bool {
        let is_wrong_node = self.slot.is_some() && error.is_read_only();
        error.is_of_some_decisions() && !is_wrong_node
    }
}

fn fail(decisions: Vec<QueuedCheck>, error: &CallError) {
    let result = Err(error.clone());
    for decision in decisions {
        decision.answer(&result);
    }
}

/// The part of its deadline for which a decision waits at most for calls that are on their way.
pub(super) const LONGEST_WAIT: u32 = 16;
/// How often a call that is about to leave looks for more decisions.
const MOST_YIELDS: usize = 16;
