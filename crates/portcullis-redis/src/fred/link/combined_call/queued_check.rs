//! A check that shares a call with others, and its callers.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::fred::command::Command;
use crate::protocol::value::Value;
use crate::resilience::in_flight::{InFlightLimit, Permit};
use crate::transport::CallError;

/// A check that waits for its call, or is in one, with equal ones that are made right after it.
#[derive(Debug)]
pub(in crate::fred::link) struct QueuedCheck {
    pub(super) command: Command,
    pub(super) permit: Permit,
    /// One for each of them, in the order of their arrival and of their ids.
    pub(in crate::fred::link) callers: SmallVec<[Caller; 1]>,
}

/// A caller that waits for a check.
#[derive(Debug)]
pub(in crate::fred::link) struct Caller {
    /// Its id in the queue.
    pub(in crate::fred::link) id: u64,
    pub(in crate::fred::link) end: Instant,
    /// The time that was left when it requested its permit.
    pub(in crate::fred::link) before: Duration,
    /// Taken when the caller gets its answer.
    pub(in crate::fred::link) answer: Option<oneshot::Sender<Answer>>,
}

/// What a waiting caller gets.
#[derive(Debug)]
pub(in crate::fred::link) enum Answer {
    Result(Result<Value, CallError>),
    /// Nothing was done, and the check is to be sent by itself, with its permit.
    Alone(Box<Command>, Permit),
}

impl QueuedCheck {
    pub(in crate::fred::link) fn new(command: Command, permit: Permit, caller: Caller) -> Self {
        Self { command, permit, callers: SmallVec::from_buf([caller]) }
    }

    /// Whether the check of a command may be made right after this one, as one more of them.
    pub(in crate::fred::link) fn takes(&self, command: &Command) -> bool {
        let is_equal =
            Arc::ptr_eq(&self.command.words, &command.words) || self.command.words == command.words;
        is_equal && self.command.words.replay.is_some()
    }

    /// Removes the caller with this id. Returns whether it was there.
    pub(in crate::fred::link) fn leave(&mut self, id: u64) -> bool {
        let position = self.callers.binary_search_by_key(&id, |caller| caller.id);
        position.map(|position| self.callers.remove(position)).is_ok()
    }

    /// How many checks it is.
    pub(in crate::fred::link) fn count(&self) -> usize {
        self.callers.len()
    }

    /// Removes callers that wait no longer, or have less time left than replies take. Returns whether any is left.
    pub(super) fn is_to_be_sent(&mut self, now: Instant, latency: Duration) -> bool {
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
    pub(super) fn answer(mut self, result: &Result<Value, CallError>) {
        self.callers.iter_mut().for_each(|caller| caller.answer(result.clone()));
    }

    /// Lets its caller send it by itself. Returns it if several callers wait for it, whose answers one call has.
    pub(super) fn send_alone(mut self) -> Option<Self> {
        self.callers.retain(|caller| caller.waits());
        if self.callers.len() > 1 {
            return Some(self);
        }
        let Self { command, permit, mut callers, .. } = self;
        let Caller { end, answer, .. } = callers.pop()?;
        let command = Box::new(Command { end, load: None, ..command });
        // The caller may have gone away.
        let _ = answer?.send(Answer::Alone(command, permit));
        None
    }
}

impl Caller {
    fn waits(&self) -> bool {
        self.answer.as_ref().is_some_and(|answer| !answer.is_closed())
    }

    /// Answers the caller, if it was not answered before.
    pub(super) fn answer(&mut self, result: Result<Value, CallError>) {
        if let Some(answer) = self.answer.take() {
            // The caller may have gone away.
            let _ = answer.send(Answer::Result(result));
        }
    }
}
