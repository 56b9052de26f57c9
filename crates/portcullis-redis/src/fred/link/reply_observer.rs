//! What a call, or a probe, means for its link.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ::fred::error::Error;
use tokio::time::Instant;

use super::LinkHealth;
use crate::fred::command::Command;
use crate::fred::error::call_error;
use crate::fred::live::Live;
use crate::protocol::value::Value;
use crate::resilience::breaker::{BreakerPermit, NoReply};
use crate::resilience::deadline::{ReplyTime, wait_until};
use crate::resilience::liveness::Liveness;
use crate::resilience::overtime::{LateCall, Overtime, wait_on};
use crate::transport::CallError;

/// Records the result of one call for the link.
pub(super) struct ReplyObserver {
    breaker_permit: BreakerPermit,
    liveness: Arc<Liveness>,
    health: Arc<LinkHealth>,
    wrote: fn(&Value) -> bool,
    /// The permits of the decisions in the call; one for other calls. Equal decisions may have one together.
    permits: usize,
    /// What the call counts as; nothing if it is a probe.
    decisions: Option<u32>,
    sent: Instant,
    end: Instant,
    reply_time: ReplyTime,
    /// Whether the call has begun to wait beyond its deadline.
    has_waited: bool,
    /// The deadline from which that wait began, if the process stood still before its end.
    stalled: Option<Instant>,
}

impl ReplyObserver {
    pub(super) fn new(
        command: &Command,
        reply_time: ReplyTime,
        breaker_permit: BreakerPermit,
        live: &Live,
        health: &Arc<LinkHealth>,
        sent: Instant,
    ) -> Self {
        Self {
            breaker_permit,
            liveness: Arc::clone(&live.liveness),
            health: Arc::clone(health),
            wrote: command.wrote,
            permits: 1,
            decisions: command.decisions,
            sent,
            end: command.end,
            reply_time,
            has_waited: false,
            stalled: None,
        }
    }

    /// Makes this the observer of a call for several decisions.
    pub(super) fn of_decisions(self, permits: usize, decisions: usize) -> Self {
        Self { permits, decisions: Some(u32::try_from(decisions).unwrap_or(u32::MAX)), ..self }
    }

    /// Waits for a reply [beyond the deadline](crate::resilience::overtime).
    pub(super) async fn wait_on<F: Future + ?Sized>(
        &mut self,
        end: Instant,
        deadline: Duration,
        reply: Pin<&mut F>,
    ) -> Option<F::Output> {
        if matches!(self.reply_time, ReplyTime::SpentOnPermit) {
            return None;
        }
        // A wait that another one continues begins late by itself.
        let end = if std::mem::replace(&mut self.has_waited, true) { Instant::now() } else { end };
        let settles_suspicion = self.breaker_permit.settles_suspicion();
        let is_probe = settles_suspicion || self.breaker_permit.is_probe();
        let call = LateCall { sent: self.sent, end, deadline, is_probe };
        let Overtime { reply, stalled } = wait_on(&self.health.breaker, call, reply).await;
        self.stalled = self.stalled.or(stalled);
        reply
    }

    /// Records that there was no reply in time. Returns the caller's error.
    pub(super) fn observe_no_reply(self, deadline: Duration) -> CallError {
        let (health, sent, decisions) = (Arc::clone(&self.health), self.sent, self.decisions);
        let error = self.no_reply(deadline);
        health.breaker.stats().call_ended(sent, decisions, Err(error.label()));
        error
    }

    fn no_reply(self, deadline: Duration) -> CallError {
        self.health.in_flight.unanswered(self.sent);
        if matches!(self.reply_time, ReplyTime::SpentOnPermit) {
            return CallError::Overtaken(deadline);
        }
        let no_reply = self.breaker_permit.timed_out(self.stalled);
        self.health.recheck();
        match no_reply {
            NoReply::Outage => {
                self.liveness.no_reply();
                CallError::TimedOut(deadline)
            }
            NoReply::Overload { all_late } => {
                if all_late {
                    self.health.in_flight.congested(self.sent);
                }
                CallError::Overtaken(deadline)
            }
        }
    }

    pub(super) fn observe(self, result: &Result<Value, CallError>) {
        let Self { breaker_permit, liveness, health, wrote, permits, sent, .. } = self;
        let ended = result.as_ref().map(|_| ()).map_err(CallError::label);
        health.breaker.stats().call_ended(sent, self.decisions, ended);
        match result {
            Err(error) if error.is_cluster_down() => {
                breaker_permit.refused(true);
                health.recheck();
            }
            // The server has not replied.
            Err(CallError::Lost(_) | CallError::Overloaded | CallError::NotSent(_)) => {}
            Err(error) if error.is_loading() => {
                liveness.reply();
                breaker_permit.refused(false);
            }
            Err(CallError::Unavailable(_)) => {}
            Err(error) if error.is_read_only() => {
                liveness.read_only();
                breaker_permit.refused(false);
            }
            _ => {
                if result.as_ref().is_ok_and(wrote) {
                    liveness.success();
                } else {
                    liveness.reply();
                }
                // The whole wait is the deadline of the probe of a suspicion.
                let is_in_time = !self.has_waited || breaker_permit.settles_suspicion();
                let serves_again = if is_in_time {
                    breaker_permit.answered()
                } else if self.stalled.is_some() {
                    breaker_permit.answered_in_stall()
                } else {
                    health.breaker.replied();
                    false
                };
                if serves_again {
                    health.outage_log.up();
                }
                // A reply after the deadline does not show that the server answers this number of calls in time.
                if self.has_waited {
                    health.in_flight.unanswered(sent);
                } else {
                    health.in_flight.answered(sent, permits);
                }
            }
        }
    }

    /// Waits for the reply after the caller has gone away. Returns the pending reply, if there is none by then.
    pub(super) async fn wait_for_reply(
        mut self,
        deadline: Duration,
        mut reply: ReplyFuture,
    ) -> Option<ReplyFuture> {
        let mut result = wait_until(self.end, &mut reply).await;
        if result.is_none() {
            result = self.wait_on(self.end, deadline, reply.as_mut()).await;
        }
        if self.observe_result(result) { None } else { Some(reply) }
    }

    /// Records the result, or that there is none in time, of a call that no caller waits for. Returns whether there is one.
    pub(super) fn observe_result(self, result: Option<Result<Value, Error>>) -> bool {
        let Some(result) = result else {
            self.observe_no_reply(Duration::ZERO);
            return false;
        };
        self.observe(&result.map_err(|error| call_error(&error, false)));
        true
    }
}

pub(super) type ReplyFuture = Pin<Box<dyn Future<Output = Result<Value, Error>> + Send>>;
