//! One call on a link.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use ::fred::error::Error;
use ::fred::interfaces::ClientLike as _;
use ::fred::types::Value as RawValue;
use bytes::Bytes;
use tokio::time::Instant;

use super::Link;
use super::combined_call::LaneTurn;
use super::reply::{reply_to, while_connected};
use super::reply_observer::{ReplyFuture, ReplyObserver};
use crate::fred::command::{Command, custom, untimed};
use crate::fred::error::{call_error, is_answer};
use crate::fred::live::Live;
use crate::fred::value::from_raw;
use crate::protocol::value::Value;
use crate::resilience::deadline::ReplyTime;
use crate::resilience::in_flight::Permit;
use crate::resilience::liveness::Liveness;
use crate::transport::CallError;

impl Link {
    /// Sends a command in a call of its own. `before` is the time that was left when it requested its permit.
    pub(super) async fn send(
        &self,
        command: Command,
        permit: Permit,
        turn: Option<LaneTurn>,
        before: Duration,
    ) -> Result<Value, CallError> {
        let (end, deadline) = (command.end, command.deadline);
        let now = Instant::now();
        let left = end.saturating_duration_since(now);
        if left.is_zero() {
            return Err(CallError::NotSent(deadline));
        }
        let live = self.live()?;
        let breaker_permit = self.health.breaker.admit().ok_or_else(CallError::no_replies)?;
        let reply_time = ReplyTime::of(before, left, deadline);
        let observer = ReplyObserver::new(&command, reply_time, breaker_permit, &live, &self.health, now);
        let (mut call, first) = InFlightCall::begin(self, &live, command, permit, turn, observer).await;
        let mut next = false;
        let result = match first {
            Poll::Ready(result) => Some(result),
            Poll::Pending => {
                // All earlier calls have been answered, so the next reply is for this one.
                next = self.health.in_flight.has_only(1);
                let mut result = self.timer.wait_until(end, call.reply()).await;
                if result.is_none() {
                    // Boxed, because it is rare, and each call would have the memory for it.
                    result = Box::pin(call.wait_on(end, deadline)).await;
                }
                result
            }
        };
        let observer = call.observer.take().expect("the result is not recorded yet");
        let Some(result) = result else { return Err(observer.observe_no_reply(deadline)) };
        let result = result.map_err(|error| call_error(&error, next));
        observer.observe(&result);
        result
    }

    /// Takes a permit while the breaker is open, for a probe.
    pub(super) fn permit_to_probe(&self) -> Result<Permit, CallError> {
        if let Some(permit) = self.health.in_flight.try_acquire() {
            return Ok(permit);
        }
        // All permits are held by calls without a reply, so that none is left for a probe: that counts as no reply as well.
        self.health.breaker.postpone();
        if let Ok(live) = self.live() {
            live.liveness.no_reply();
        }
        Err(CallError::no_replies())
    }
}

/// A call that was given to fred. It holds its permit until fred has finished it, even if no caller waits any more.
struct InFlightCall<'a> {
    link: &'a Link,
    reply: Option<ReplyFuture>,
    permit: Option<Permit>,
    turn: Option<LaneTurn>,
    /// Taken when the result of the call is recorded.
    observer: Option<ReplyObserver>,
    liveness: Arc<Liveness>,
    deadline: Duration,
}

impl<'a> InFlightCall<'a> {
    /// Gives a command to fred.
    async fn begin(
        link: &'a Link,
        live: &Live,
        command: Command,
        permit: Permit,
        turn: Option<LaneTurn>,
        observer: ReplyObserver,
    ) -> (Self, Poll<Result<Value, Error>>) {
        let deadline = command.deadline;
        let reply: ReplyFuture = if command.asking {
            Box::pin(while_connected(send_asking(live, command), live.closed.clone()))
        } else {
            reply_to(live, command)
        };
        let (reply, permit, observer) = (Some(reply), Some(permit), Some(observer));
        let liveness = Arc::clone(&live.liveness);
        let mut call = Self { link, reply, permit, turn, observer, liveness, deadline };
        let first = poll_fn(|context| {
            let reply = call.reply.as_mut().expect("the reply is pending");
            Poll::Ready(reply.as_mut().poll(context))
        });
        let first = first.await;
        if first.is_ready() {
            call.reply = None;
        }
        (call, first)
    }

    async fn reply(&mut self) -> Result<Value, Error> {
        let reply = self.reply.as_mut().expect("the reply is pending");
        let result = reply.as_mut().await;
        self.reply = None;
        result
    }

    /// Waits for the reply beyond its deadline, as [`ReplyObserver::wait_on`].
    async fn wait_on(&mut self, end: Instant, deadline: Duration) -> Option<Result<Value, Error>> {
        let (reply, observer) = (self.reply.as_mut()?, self.observer.as_mut()?);
        let result = observer.wait_on(end, deadline, reply.as_mut()).await?;
        self.reply = None;
        Some(result)
    }
}

impl Drop for InFlightCall<'_> {
    fn drop(&mut self) {
        let Some(reply) = self.reply.take() else { return };
        let (permit, turn, observer) = (self.permit.take(), self.turn.take(), self.observer.take());
        let (liveness, health, deadline) =
            (Arc::clone(&self.liveness), Arc::clone(&self.link.health), self.deadline);
        self.link.runtime.spawn(async move {
            let late = match observer {
                Some(observer) => observer.wait_for_reply(deadline, reply).await,
                None => Some(reply),
            };
            if let Some(reply) = late
                && is_answer(&reply.await)
            {
                liveness.reply();
                health.breaker.replied();
            }
            drop((permit, turn));
        });
    }
}

/// Sends `ASKING` before the command. fred writes the commands of a pipeline without others in between.
fn send_asking(live: &Live, command: Command) -> impl Future<Output = Result<Value, Error>> + Send + use<> {
    let pipeline = live.client.pipeline().with_options(&untimed());
    async move {
        let _: RawValue = pipeline.custom(custom("ASKING", None), Vec::<Bytes>::new()).await?;
        let _: RawValue = pipeline.custom(command.custom(), command.into_words()).await?;
        let reply: RawValue = pipeline.last().await?;
        Ok(from_raw(reply))
    }
}
