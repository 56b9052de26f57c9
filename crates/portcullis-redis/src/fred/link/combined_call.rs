//! Calls for several decisions.
//!
//! A decision that has its permit is sent at once, by its caller, if few calls are on their way. Otherwise it waits in the
//! [queue](crate::resilience::combining), and a task sends it in one call with others. No caller sends for another one, so
//! callers that go away, or are not polled, hold up nobody.
//!
//! Invariants:
//! - A decision that waits leaves when a call ends, and at the latest after 1/16 of its deadline, with all before it. So a server
//!   that is far, slow or silent gets it hardly later than without combined calls.
//! - A caller that leaves before its call is sent has charged nothing, and its permit is free.
//! - A decision is part of one call. If the fate of that call is unknown, so is that of each decision in it.
//! - Each caller has its reply, or an error, at its own deadline at the latest.
//! - An error reply means that nothing was written: a script writes after all decisions are made, and a server refuses only the
//!   first write of a script for its own state. If decisions would differ in calls of their own, because some write nothing or
//!   only one is at fault, each is sent by itself. So an error is that of the decision.
//! - Permits are held until the reply, or until the connection ends. Equal decisions that follow each other have one, because the
//!   server makes them in one step.

mod watch;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use ::fred::error::Error;
use bytes::Bytes;
use smallvec::SmallVec;
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::Instant;

use super::Link;
use super::in_flight_call::{ReplyObserver, reply_to};
use crate::fred::command::Command;
use crate::fred::error::{call_error, is_answer};
use crate::protocol::value::Value;
use crate::protocol::wire::CombinedRequest;
use crate::resilience::deadline::ReplyTime;
use crate::resilience::in_flight::{InFlightLimit, Permit};
use crate::resilience::liveness::Liveness;
use crate::transport::CallError;
use watch::Watch;

/// What decisions have in common that may share a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lane {
    /// The slot, in a cluster.
    slot: Option<u16>,
    /// The instant of a scenario.
    instant: Option<Bytes>,
}

/// A decision that waits for its call, or is in one, with equal ones that are made right after it.
#[derive(Debug)]
pub(super) struct Decision {
    command: Command,
    permit: Permit,
    /// How many have joined it, those included that have left since.
    joined: usize,
    /// One for each decision, in the order of their arrival.
    callers: SmallVec<[Caller; 1]>,
}

/// Who waits for a decision.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) end: Instant,
    /// The time that was left when it requested its permit.
    pub(super) before: Duration,
    /// Taken when the caller gets its answer.
    pub(super) answer: Option<oneshot::Sender<Answer>>,
}

/// What a waiting caller gets.
#[derive(Debug)]
pub(super) enum Answer {
    Result(Result<Value, CallError>),
    /// Nothing was done, and the decision is to be sent by itself.
    Alone(Box<Command>, Place),
}

/// What a decision that is to be sent by itself has.
#[derive(Debug)]
pub(super) enum Place {
    Permit(Permit),
    /// It needs a permit under this key: that of its call has gone to an equal one.
    Key(Option<u128>),
}

/// A call that is on its way. When it is dropped, the call has ended, and what waits is sent.
pub(super) struct Turn {
    link: Arc<Link>,
    lane: Lane,
    /// How many decisions its call has, those included that have left since.
    decisions: usize,
}

impl Link {
    /// Starts a task that sends the decisions that wait no longer, and ends when none is left. It looks for the first time at
    /// `first`.
    pub(super) fn watch(self: &Arc<Self>, first: Instant) {
        self.runtime.spawn(Watch::new(self, first).run());
    }

    pub(super) fn lane(&self, command: &Command) -> Lane {
        let slot = command.slot.filter(|_| command.by_slot || self.is_clustered);
        Lane { slot, instant: command.instant().cloned() }
    }

    /// Sends what waits in one call, by a task, whose call has begun in the queue. Beside another call it leaves after the tasks that are
    /// ready to run, and looks again as long as more arrives meanwhile.
    pub(super) fn send_what_arrives(self: &Arc<Self>, lane: &Lane) {
        let (link, lane) = (Arc::clone(self), lane.clone());
        self.runtime.spawn(async move {
            let mut turn = Turn { link, lane, decisions: 0 };
            let mut seen = 0;
            for _ in 0..MOST_YIELDS {
                let arrived = turn.link.combining.arrived(&turn.lane);
                if arrived <= seen {
                    break;
                }
                seen = arrived;
                yield_now().await;
            }
            let decisions = turn.link.combining.take(&turn.lane);
            turn.decisions = count(&decisions);
            turn.run(decisions).await;
        });
    }

    /// Sends decisions in one call, by a task. Their call has begun in the queue.
    fn send_combined(self: &Arc<Self>, lane: &Lane, decisions: Vec<Decision>) {
        if decisions.is_empty() {
            return;
        }
        let (link, lane) = (Arc::clone(self), lane.clone());
        self.runtime.spawn(async move {
            // If the runtime ends before this, no further call begins.
            let turn = Turn { link, lane, decisions: count(&decisions) };
            turn.run(decisions).await;
        });
    }
}

impl Turn {
    pub(super) fn alone(link: &Arc<Link>, lane: Lane) -> Self {
        Self { link: Arc::clone(link), lane, decisions: 1 }
    }

    async fn run(&self, mut decisions: Vec<Decision>) {
        let (link, now) = (&self.link, Instant::now());
        let latency = link.in_flight.latency();
        decisions.retain_mut(|decision| decision.is_to_be_sent(now, latency));
        let Some(first) = decisions.first() else { return };
        let admitted = link.live().and_then(|live| {
            let breaker_permit = link.breaker.admit().ok_or_else(CallError::no_replies)?;
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
        let observer = ReplyObserver::new(
            &command,
            ReplyTime::Sufficient,
            breaker_permit,
            &live,
            &link.in_flight,
            &link.outage_log,
        );
        let count = decisions.iter().map(Decision::count).sum();
        let observer = Some(observer.of_decisions(count));
        let (liveness, permits) = (Arc::clone(&live.liveness), decisions.len());
        let mut call =
            CombinedCall { turn: self, request, decisions, observer, liveness, sent: now, is_next: false };
        let mut reply = reply_to(&live, command);
        let first = poll_fn(|context| Poll::Ready(reply.as_mut().poll(context))).await;
        if let Poll::Ready(result) = first {
            return call.finish(result);
        }
        call.is_next = link.in_flight.has_only(permits);
        while let Some(end) = call.next_deadline() {
            match link.timer.wait_until(end, &mut reply).await {
                Some(result) => return call.finish(result),
                None => call.expire(end),
            }
        }
        let result = reply.await;
        // Too late for every caller.
        call.observer = None;
        call.finish(result);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.link.combining.end(&self.lane, self.decisions) {
            self.link.send_what_arrives(&self.lane);
        }
    }
}

impl Decision {
    pub(super) fn new(command: Command, permit: Permit, caller: Caller) -> Self {
        Self { command, permit, joined: 0, callers: SmallVec::from_buf([caller]) }
    }

    /// Whether the decisions of a command may be made right after this one, as one more of them.
    pub(super) fn takes(&self, command: &Command) -> bool {
        let is_equal =
            Arc::ptr_eq(&self.command.words, &command.words) || self.command.words == command.words;
        is_equal && self.command.words.replay().is_some()
    }

    pub(super) fn join(&mut self, caller: Caller) {
        if self.joined == 0 {
            // For most calls once, because the queue is locked.
            self.callers.reserve(ROOM);
        }
        self.joined += 1;
        self.callers.push(caller);
    }

    /// Removes callers that have gone away. Returns whether none is left.
    pub(super) fn remove_gone(&mut self) -> bool {
        self.callers.retain(|caller| caller.waits());
        self.callers.is_empty()
    }

    /// How many decisions it is.
    pub(super) fn count(&self) -> usize {
        self.callers.len()
    }

    /// Removes callers that wait no longer, or have less time left than replies take. Returns whether any is left.
    fn is_to_be_sent(&mut self, now: Instant, latency: Duration) -> bool {
        let deadline = self.command.deadline;
        self.callers.retain(|caller| {
            if InFlightLimit::is_too_late(caller.end.saturating_duration_since(now), latency, deadline) {
                caller.answer(Err(CallError::NotSent(deadline)));
            }
            caller.waits()
        });
        !self.callers.is_empty()
    }

    /// Answers all callers that still wait.
    fn answer(mut self, result: &Result<Value, CallError>) {
        self.callers.iter_mut().for_each(|caller| caller.answer(result.clone()));
    }

    fn send_alone(self) {
        let Self { command, permit, callers, .. } = self;
        let (key, mut permit) = (permit.key(), Some(permit));
        for Caller { end, answer, .. } in callers {
            if let Some(answer) = answer {
                let command = Command { end, load: None, ..command.clone() };
                let place = permit.take().map_or(Place::Key(key), Place::Permit);
                let _ = answer.send(Answer::Alone(Box::new(command), place));
            }
        }
    }
}

impl Caller {
    fn waits(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| !answer.is_closed())
    }

    /// Answers the caller, if it was not answered before.
    fn answer(&mut self, result: Result<Value, CallError>) {
        if let Some(answer) = self.answer.take() {
            // The caller may have gone away.
            let _ = answer.send(Answer::Result(result));
        }
    }
}

/// The decisions of a call, as the queue counts them.
fn count(decisions: &[Decision]) -> usize {
    decisions.iter().map(|decision| 1 + decision.joined).sum()
}

/// A call for several decisions that was given to fred.
struct CombinedCall<'a> {
    turn: &'a Turn,
    request: CombinedRequest,
    decisions: Vec<Decision>,
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
        let (link, sent) = (&self.turn.link, self.sent);
        let callers = self.decisions.iter_mut().flat_map(|decision| {
            let deadline = decision.command.deadline;
            decision.callers.iter_mut().map(move |caller| (caller, deadline))
        });
        for (caller, deadline) in callers.filter(|(caller, _)| caller.end <= end && caller.answer.is_some()) {
            let left = caller.end.saturating_duration_since(sent);
            let error = match ReplyTime::of(caller.before, left, deadline) {
                ReplyTime::SpentOnPermit => CallError::Overtaken(deadline),
                ReplyTime::Short => CallError::TimedOut(deadline),
                ReplyTime::Sufficient => match self.observer.take() {
                    Some(observer) => observer.observe_no_reply(deadline),
                    None if link.replied_since(sent) => CallError::Overtaken(deadline),
                    None => CallError::TimedOut(deadline),
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
            self.turn.link.breaker.replied();
        }
        match result.map_err(|error| call_error(&error, self.is_next)) {
            Ok(reply) => self.answer(&reply, observer),
            Err(error) => {
                let is_shared = self.decisions.len() > 1 || self.decisions.iter().any(|own| own.count() > 1);
                let differ = is_shared && self.would_differ_alone(&error);
                let result = Err(error);
                if let Some(observer) = observer {
                    observer.observe(&result);
                }
                for decision in self.decisions {
                    if differ { decision.send_alone() } else { decision.answer(&result) }
                }
            }
        }
    }

    fn answer(mut self, reply: &Value, observer: Option<ReplyObserver>) {
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
        Permit::release_all(self.decisions.iter_mut().map(|decision| &mut decision.permit));
        let mut replies = replies.into_iter();
        for caller in self.decisions.iter_mut().flat_map(|decision| &mut decision.callers) {
            caller.answer(Ok(replies.next().unwrap_or(Value::Null)));
        }
    }

    /// Whether the decisions may get different answers in calls of their own. In a cluster, a server that has become a replica is
    /// the wrong one for all of them.
    fn would_differ_alone(&self, error: &CallError) -> bool {
        let is_wrong_node = self.turn.lane.slot.is_some() && error.is_read_only();
        error.is_of_some_decisions() && !is_wrong_node
    }
}

fn fail(decisions: Vec<Decision>, error: &CallError) {
    let result = Err(error.clone());
    for decision in decisions {
        decision.answer(&result);
    }
}

/// The part of its deadline for which a decision waits at most for calls that are on their way.
pub(super) const LONGEST_WAIT: u32 = 16;
/// The equal decisions for which there is room when the first one joins another.
const ROOM: usize = 63;
/// How often a call that is about to leave looks for more decisions.
const MOST_YIELDS: usize = 16;
