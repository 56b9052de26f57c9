//! The calls of the store.

use std::sync::Arc;
use std::time::SystemTime;

use portcullis_core::store::{Check, CheckResult, Refund};
use portcullis_core::{StoreError, StoreErrorKind, Strategy, Timestamp};
use tokio::time::{Instant, sleep};

use super::Inner;
use crate::protocol::value::Value;
use crate::protocol::wire::{CallWords, Guard, Operation, Replay, Reply, StoredState, encode, load_of};
use crate::transport::{Call, CallError, QueueKey, Transport as _};

impl Inner {
    /// One round trip for all `checks`, whose keys are in `slot` if they are in a cluster. Other decisions may share it.
    pub(crate) async fn call(
        &self,
        slot: u16,
        queue: QueueKey<'_>,
        operation: Operation<'_>,
        checks: impl Iterator<Item = &Check> + Clone,
        guards: &[Guard],
        end: Option<Instant>,
    ) -> Result<Reply, StoreError> {
        let reply = self.send(slot, queue, operation, checks, guards, end).await;
        Reply::new(self.received(slot, reply)?)
    }

    /// Refunds a charge of which no request makes use. If it fails, the units stay charged.
    ///
    /// It is repeated if it was certainly not sent, because of this process's own bounds, or is a release, which frees a permit once however
    /// often it is made: it concerns other clients.
    pub(crate) async fn refund_unused(&self, check: &Check, refund: Refund<'_>) -> Result<Reply, StoreError> {
        let is_release = matches!(check.policy.strategy(), Strategy::InFlight(_));
        let mut attempts = 0;
        loop {
            let answer = self.change(Operation::Refund(refund), check).await;
            attempts += 1;
            let Err(error) = &answer else { return answer };
            let may_repeat =
                error.kind() == StoreErrorKind::Overloaded || is_release && error.kind().is_fate_unknown();
            if !may_repeat || attempts >= MAX_REFUNDS {
                return answer;
            }
            sleep(self.connection.deadline()).await;
        }
    }

    /// What a call to the node of a slot has brought.
    pub(crate) fn received(&self, slot: u16, reply: Result<Value, CallError>) -> Result<Value, StoreError> {
        self.connection.note(&reply);
        self.explained(slot, reply)
    }

    /// Encodes a call now, and sends it when it is polled.
    pub(crate) fn send<'a, 'c>(
        &'a self,
        slot: u16,
        queue: QueueKey<'a>,
        operation: Operation<'_>,
        checks: impl Iterator<Item = &'c Check> + Clone,
        guards: &[Guard],
        end: Option<Instant>,
    ) -> impl Future<Output = Result<Value, CallError>> + Send {
        let now = self.scenario.as_ref().map(|clock| clock.now());
        let load = match operation {
            Operation::Check => load_of(checks.clone().map(|check| check.policy.strategy())),
            Operation::Refund(_) | Operation::Force | Operation::Reset | Operation::Renew => None,
        };
        let load = load.map(|load| load.saturating_add(Guard::load_of(guards)));
        let own = checks.clone();
        let words = move || {
            let replay = load.and_then(|_| Replay::of_decision(own.clone(), guards));
            let near = now.unwrap_or_else(|| server_time(own.clone()));
            let (keys, args) = encode(&self.layout, operation, now, near, own, guards);
            CallWords::of_decision(keys, args, replay)
        };
        let words = match (now, load) {
            (None, Some(_)) if guards.is_empty() => self.words_of(checks, words),
            _ => words(),
        };
        let decisions = u32::from(matches!(operation, Operation::Check));
        let (script, slot) = (&self.script, Some(slot));
        let call = Call { script, slot, words, queue, load, decisions, end };
        self.connection.run(call)
    }

    /// Reads the figures of a state that was changed, for a check of this `cost`.
    pub(crate) fn result_of(
        &self,
        reply: &mut Reply,
        check: &Check,
        cost: u64,
    ) -> Result<(Timestamp, CheckResult), StoreError> {
        let at = reply.at()?;
        let (_, stored) = self.read_stored(reply, check, at)?;
        Ok((at, stored.check_result(at, cost, true)))
    }

    /// Reads whether a check fits, and the state. On scenario time, where keys outlive their states, it also verifies the expiry
    /// that a check on the server's time would have set.
    pub(crate) fn read_stored(
        &self,
        reply: &mut Reply,
        check: &Check,
        at: Timestamp,
    ) -> Result<(bool, StoredState), StoreError> {
        let (admitted, expiry) = reply.done()?;
        let stored = reply.stored(check.policy.strategy())?;
        if let (Some(_), Some(end), 1..) = (&self.scenario, stored.expires_at(), expiry) {
            let needed = end.saturating_sub(at.as_micros());
            let set = expiry.saturating_mul(1_000);
            if !(needed..=needed.saturating_add(2_000)).contains(&set) {
                let message =
                    format!("an expiry of {set} us was set for a state that expires after {needed} us");
                return Err(StoreError::new(StoreErrorKind::Failed, message));
            }
        }
        Ok((admitted, stored))
    }

    /// The words of a decision without guards, by `encode` if they are not known. Those of a calendar window depend on the time.
    fn words_of<'a>(
        &self,
        mut checks: impl Iterator<Item = &'a Check>,
        encode: impl FnOnce() -> Arc<CallWords>,
    ) -> Arc<CallWords> {
        match (checks.next(), checks.next()) {
            (Some(check), None) if !is_calendar(check) => self.encoded.get_or(check, encode),
            _ => encode(),
        }
    }
}

/// About the time of the server. Only calendar windows need it, so for others it is not read.
fn server_time<'a>(mut checks: impl Iterator<Item = &'a Check>) -> Timestamp {
    if checks.any(is_calendar) { SystemTime::now().into() } else { Timestamp::EPOCH }
}

/// How often a refund of a charge is tried of which no request makes use.
const MAX_REFUNDS: u32 = 5;

fn is_calendar(check: &Check) -> bool {
    matches!(check.policy.strategy(), Strategy::CalendarWindow(_))
}
