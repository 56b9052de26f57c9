//! The ways that a call takes on a link. A check that shares a call with others takes little memory while it waits for its answer; every
//! other way is boxed.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Link;
use super::combined_call::{Answer, Caller, LONGEST_WAIT, LaneKey, LaneTurn, QueuedCheck};
use crate::fred::command::Command;
use crate::protocol::value::Value;
use crate::resilience::combining::Entered;
use crate::resilience::in_flight::{self, InFlightLimit, Permit};
use crate::transport::{CallError, QueueKey};

/// A call that has begun on a link: it may have a permit and a place among those that wait before it is polled.
///
/// # Cancel safety
/// A call that is dropped before it is sent has sent nothing. One that is dropped later may still run, and is observed and holds its permit
/// until it ends.
#[must_use = "a call has to be awaited"]
pub(crate) struct LinkCall<'a>(Way<'a>);

enum Way<'a> {
    /// It fails at once. `None` when it has.
    Fails(Option<CallError>),
    /// It waits for its place in a call, and for its answer.
    Shared(PendingCheck<'a>),
    Other(Pin<Box<dyn Future<Output = Result<Value, CallError>> + Send + 'a>>),
}

impl Link {
    /// Sends a command once. `now` is the current time, or shortly before it.
    ///
    /// # Errors
    /// At the deadline or [beyond it](crate::resilience::overtime), and at once if the link rejects calls or too many wait.
    pub(crate) fn call<'a>(
        self: &'a Arc<Self>,
        command: Command,
        queue: QueueKey<'a>,
        now: Instant,
    ) -> LinkCall<'a> {
        if let Some(error) = self.rejection() {
            // The rejection with the message of the last error, which takes an allocation.
            return LinkCall::fails(self.live().err().unwrap_or(error));
        }
        let (end, deadline) = (command.end, command.deadline);
        let before = end.saturating_duration_since(now);
        // Only a part of a deadline may be less than replies take.
        if before < deadline / 2
            && InFlightLimit::is_too_late(before, self.health.in_flight.latency(), deadline)
        {
            return LinkCall::fails(CallError::NotSent(deadline));
        }
        if !self.health.breaker.is_closed() {
            return match self.permit_to_probe() {
                Ok(permit) => self.permitted(command, permit, before, now),
                Err(error) => LinkCall::fails(error),
            };
        }
        if queue.may_join
            && !self.health.in_flight.is_waited_for()
            && let Some(shared) = self.join(&command, before)
        {
            return self.shared(shared, command.end, command.deadline);
        }
        match self.health.in_flight.enter(queue.key) {
            in_flight::Entered::Permit(permit) => self.permitted(command, permit, before, now),
            in_flight::Entered::Waiting(waiting) => LinkCall::other(async move {
                let permit = waiting.permit(queue.is_denied, &self.health.breaker, end, deadline).await?;
                if queue.may_join
                    && let Some(shared) = self.join(&command, before)
                {
                    drop(permit);
                    return self.shared(shared, end, deadline).await;
                }
                self.permitted(command, permit, before, Instant::now()).await
            }),
            in_flight::Entered::Full => LinkCall::fails(CallError::Overloaded),
        }
    }

    /// Adds a check to an equal one that waits, whose permit and place it has then.
    fn join(self: &Arc<Self>, command: &Command, before: Duration) -> Option<PendingCheck<'_>> {
        command.load?;
        let (lane, end) = (self.lane(command), command.end);
        let (id, answer) = self.combining.join(&lane, command.words.tag?, end, |check, id| {
            let (caller, answer) = check.takes(command).then(oneshot::channel)?;
            check.callers.push(Caller { id, end, before, answer: Some(caller) });
            Some((id, answer))
        })?;
        Some(PendingCheck { link: self, lane, id, answer, before, has_left: false })
    }

    /// Waits for the answer to a check in the queue.
    fn shared<'a>(&self, shared: PendingCheck<'a>, end: Instant, deadline: Duration) -> LinkCall<'a> {
        if self.timer.is_driven_here() {
            LinkCall(Way::Shared(shared))
        } else {
            LinkCall::other(shared.wait_until(end, deadline))
        }
    }

    /// Sends a command by itself, or together with others. `before` is the time that was left when it requested its permit.
    fn permitted(
        self: &Arc<Self>,
        command: Command,
        permit: Permit,
        before: Duration,
        now: Instant,
    ) -> LinkCall<'_> {
        // A probe does not wait for calls without a reply.
        let Some(load) = command.load.filter(|_| self.health.breaker.is_closed()) else {
            return LinkCall::other(self.send(command, permit, None, before));
        };
        let lane = self.lane(&command);
        let (end, deadline) = (command.end, command.deadline);
        let latest = (now + deadline / LONGEST_WAIT).min(end);
        let place = (load, command.words.tag, latest);
        let entered = self.combining.enter(&lane, place, (command, permit), |(command, permit), id| {
            let (caller, answer) = oneshot::channel();
            (QueuedCheck::new(command, permit, Caller { id, end, before, answer: Some(caller) }), answer)
        });
        let (id, answer, is_unwatched, begins) = match entered {
            Entered::Now(turn, (command, permit)) => {
                let turn = LaneTurn::new(self, lane, turn);
                return LinkCall::other(self.send(command, permit, Some(turn), before));
            }
            Entered::Waits { id, receiver, is_unwatched, begins } => (id, receiver, is_unwatched, begins),
        };
        let shared = PendingCheck { link: self, lane, id, answer, before, has_left: false };
        if is_unwatched {
            self.watch(latest);
        }
        if let Some(turn) = begins {
            self.send_what_arrives(shared.lane.clone(), turn);
        }
        self.shared(shared, end, deadline)
    }
}

impl<'a> LinkCall<'a> {
    fn fails(error: CallError) -> Self {
        Self(Way::Fails(Some(error)))
    }

    fn other(call: impl Future<Output = Result<Value, CallError>> + Send + 'a) -> Self {
        Self(Way::Other(Box::pin(call)))
    }
}

impl Future for LinkCall<'_> {
    type Output = Result<Value, CallError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let call = self.get_mut();
        loop {
            match &mut call.0 {
                Way::Fails(error) => {
                    return Poll::Ready(Err(error.take().expect("a call is not polled after its end")));
                }
                Way::Shared(shared) => match ready!(Pin::new(&mut *shared).poll(context)) {
                    Answer::Result(result) => return Poll::Ready(result),
                    Answer::Alone(command, permit) => {
                        *call = LinkCall::other(shared.link.send(*command, permit, None, shared.before));
                    }
                },
                Way::Other(other) => return other.as_mut().poll(context),
            }
        }
    }
}

/// A check in the queue, or in a call with others. It is removed from the queue when its caller goes away.
struct PendingCheck<'a> {
    link: &'a Arc<Link>,
    lane: LaneKey,
    id: u64,
    answer: oneshot::Receiver<Answer>,
    /// The time that was left when it requested its permit.
    before: Duration,
    has_left: bool,
}

impl PendingCheck<'_> {
    /// Waits for the answer where nothing may drive the runtime of the task that sends the call.
    async fn wait_until(mut self, end: Instant, deadline: Duration) -> Result<Value, CallError> {
        let (link, start) = (self.link, end.checked_sub(self.before).unwrap_or(end));
        match link.wait_until((start, end, deadline), &mut self).await {
            Some(Answer::Result(result)) => result,
            Some(Answer::Alone(command, permit)) => self.link.send(*command, permit, None, self.before).await,
            None if self.leave() => Err(CallError::NotSent(deadline)),
            None if link.health.breaker.outage().is_some() && !link.replied_since(start) => {
                Err(CallError::TimedOut(deadline))
            }
            None => Err(CallError::Overtaken(deadline)),
        }
    }

    /// Removes it from the queue. Returns whether it was still there.
    fn leave(&mut self) -> bool {
        self.has_left = true;
        self.answer.close();
        let id = self.id;
        self.link.combining.leave(&self.lane, id, |check| check.leave(id))
    }
}

impl Future for PendingCheck<'_> {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        let answer = ready!(Pin::new(&mut self.answer).poll(context));
        self.has_left = true;
        Poll::Ready(answer.unwrap_or_else(|_| Answer::Result(Err(CallError::Lost(ENDED.to_owned())))))
    }
}

impl Drop for PendingCheck<'_> {
    fn drop(&mut self) {
        if !self.has_left {
            self.leave();
        }
    }
}

const ENDED: &str = "the runtime of the connection has ended";
