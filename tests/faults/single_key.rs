//! A task that calls one key of its process at a time, below its rate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use portcullis_core::StoreError;
use portcullis_core::store::Outcome as Decided;
use portcullis_histories::{Answer, Call, Family, KeyId, Op, Outcome, ROTATION_MICROS, monotonic_micros};
use tokio::time::sleep;

/// Calls to the key of a caller in a family, another one in each rotation, until the process stops.
pub(crate) struct SingleKey {
    pub(crate) random: Rng,
    stopped: Arc<AtomicBool>,
    start: u64,
    family: Family,
    caller: u8,
    ops: Vec<Op>,
}

/// A call that begins now.
pub(crate) struct Turn {
    pub(crate) key_id: KeyId,
    invoked: u64,
}

impl SingleKey {
    pub(crate) fn new(stopped: Arc<AtomicBool>, start: u64, random: Rng, family: Family, caller: u8) -> Self {
        Self { random, stopped, start, family, caller, ops: Vec::new() }
    }

    /// `None` when the process stops.
    pub(crate) fn next_turn(&self) -> Option<Turn> {
        if self.stopped.load(Ordering::Relaxed) || self.ops.len() >= MAX_OPS {
            return None;
        }
        let rotation = u32::try_from((monotonic_micros() - self.start) / ROTATION_MICROS).unwrap_or_default();
        let key_id = KeyId { rotation, family: self.family, caller: self.caller };
        Some(Turn { key_id, invoked: monotonic_micros() })
    }

    /// Records a call that has ended now, and pauses.
    pub(crate) async fn record(&mut self, turn: Turn, call: Call, outcome: Outcome) {
        let (Turn { key_id, invoked }, completed) = (turn, monotonic_micros());
        self.ops.push(Op { process: 0, key_id, call, invoked, completed, outcome });
        sleep(Duration::from_millis(60 + self.random.u64(..20))).await;
    }

    pub(crate) fn into_ops(self) -> Vec<Op> {
        self.ops
    }
}

/// The outcome of a check of one key.
pub(crate) fn answer(answer: Result<Decided, StoreError>) -> Outcome {
    match answer {
        Ok(outcome) => {
            let answer = Answer::new(outcome.decision(), outcome.is_allowed());
            let position = outcome.into_receipts().next().map(|it| it.runs()[0].position);
            Outcome::Answered(Answer { position: position.unwrap_or_default(), ..answer })
        }
        Err(error) => Outcome::of_error(error.kind()),
    }
}

/// The outcome of a call without an answer.
pub(crate) fn done(answer: Result<(), StoreError>) -> Outcome {
    match answer {
        Ok(()) => Outcome::Done(0),
        Err(error) => Outcome::of_error(error.kind()),
    }
}

const MAX_OPS: usize = 200_000;
