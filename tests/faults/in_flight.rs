//! Requests in flight: permits that are taken, renewed, and released, or not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use portcullis_core::Receipt;
use portcullis_core::store::{Checks, Outcome as Decided, Position, Renewal, Store as _};
use portcullis_histories::{
    Answer, Call, Correction, Family, KeyId, Op, Outcome, ROTATION_MICROS, monotonic_micros,
};
use portcullis_redis::RedisStore;
use tokio::time::sleep;

/// A task with requests in flight.
pub(crate) struct Requests {
    pub(crate) store: RedisStore,
    pub(crate) stopped: Arc<AtomicBool>,
    pub(crate) start: u64,
    pub(crate) random: Rng,
    pub(crate) ops: Vec<Op>,
    pub(crate) running: Vec<Request>,
}

/// A request that holds permits.
pub(crate) struct Request {
    key_id: KeyId,
    receipt: Receipt,
    /// When it ends, in microseconds.
    end: u64,
    /// When its permits are renewed next, if they are.
    renewal: Option<u64>,
    /// How often they are released.
    releases: u64,
}

impl Requests {
    /// Begins and ends requests until the process stops. Those that still run then do not release their permits.
    pub(crate) async fn run(mut self) -> Vec<Op> {
        while !self.stopped.load(Ordering::Relaxed) && self.ops.len() < MAX_OPS {
            if self.running.len() < MAX_RUNNING {
                self.begin().await;
            }
            self.renew().await;
            self.end().await;
            sleep(Duration::from_millis(20 + self.random.u64(..60))).await;
        }
        self.ops
    }

    /// Takes permits, a part of them together with a unit of another policy, or looks at them.
    async fn begin(&mut self) {
        let rotation = (monotonic_micros() - self.start) / ROTATION_MICROS;
        let caller = u8::try_from(self.random.u64(..CALLERS)).unwrap_or_default();
        let key_id =
            KeyId { rotation: u32::try_from(rotation).unwrap_or_default(), family: Family::InFlight, caller };
        let cost = [0, 1, 1, 1, 2][self.random.usize(..5)];
        let mut requested = vec![(key_id, cost)];
        let mut checks = Checks::one(key_id.family.policy(), key_id.key(), cost);
        if cost > 0 && self.random.u64(..5) == 0 {
            let count = KeyId { family: Family::Count, ..key_id };
            requested.push((count, 1));
            checks = checks.and(count.family.policy(), count.key(), 1).expect("each family has its own name");
        }
        let invoked = monotonic_micros();
        let answer = self.store.check(checks).await;
        let completed = monotonic_micros();
        let receipts: Vec<Receipt> =
            answer.as_ref().ok().cloned().into_iter().flat_map(Decided::into_receipts).collect();
        let receipt_of = |key_id: KeyId| {
            let policy = key_id.family.policy();
            receipts.iter().find(move |receipt| receipt.policy().name() == policy.name())
        };
        for (index, (key_id, cost)) in requested.iter().enumerate() {
            let outcome = match &answer {
                Ok(outcome) => {
                    let answer = Answer::new(&outcome.decisions()[index], outcome.is_allowed());
                    let position =
                        receipt_of(*key_id).map_or(Position::default(), |it| it.runs()[0].position);
                    let delay = answer.delay.filter(|_| requested.len() == 1);
                    Outcome::Answered(Answer { position, delay, ..answer })
                }
                Err(error) => Outcome::of_error(error.kind()),
            };
            let call = Call::Check(*cost);
            self.ops.push(Op { process: 0, key_id: *key_id, call, invoked, completed, outcome });
        }
        if let Some(receipt) = receipt_of(key_id) {
            let longest = *self.random.choice(&LONGEST_REQUESTS).expect("there is one");
            let end = completed + self.random.u64(..longest);
            // A third of them is never renewed: their leases may end first.
            let renewal = Some(completed + LEASE_PART).filter(|_| self.random.u64(..3) > 0);
            // A quarter of them never releases its permits, and others release them twice.
            let releases = [0, 1, 1, 2][self.random.usize(..4)];
            self.running.push(Request { key_id, receipt: receipt.copy_for_retry(), end, renewal, releases });
        }
    }

    /// Renews the permits that are due, in one call.
    async fn renew(&mut self) {
        let now = monotonic_micros();
        let is_due = |request: &&mut Request| request.renewal.is_some_and(|due| due <= now);
        let mut calls = Vec::new();
        for request in self.running.iter_mut().filter(is_due) {
            request.renewal = Some(now + LEASE_PART);
            calls.push((request.key_id, Renewal::of(&request.receipt)));
        }
        if calls.is_empty() {
            return;
        }
        let invoked = monotonic_micros();
        let answer = self.store.renew(calls.iter().map(|(_, renewal)| renewal.clone()).collect()).await;
        let completed = monotonic_micros();
        for (index, (key_id, renewal)) in calls.iter().enumerate() {
            let outcome = match &answer {
                Ok(renewed) => Outcome::Done(renewed[index].held),
                Err(error) => match Outcome::of_error(error.kind()) {
                    // The call for another server may have run.
                    Outcome::NotDone(failure) if calls.len() > 1 => Outcome::Unknown(failure),
                    outcome => outcome,
                },
            };
            let call = Call::Renew(renewal.runs().to_vec());
            self.ops.push(Op { process: 0, key_id: *key_id, call, invoked, completed, outcome });
        }
    }

    /// Ends the requests that are due. Some give back a part of their permits and go on.
    async fn end(&mut self) {
        let now = monotonic_micros();
        let (due, running) =
            std::mem::take(&mut self.running).into_iter().partition(|request| request.end <= now);
        self.running = running;
        for mut request in due {
            if request.releases == 0 {
                continue;
            }
            let goes_on = request.receipt.cost() > 1 && self.random.u64(..3) == 0;
            let to = if goes_on { request.receipt.cost() / 2 } else { 0 };
            let correction = Correction::new(&request.receipt, to);
            let invoked = monotonic_micros();
            let answer = self.store.settle(request.receipt.copy_for_retry(), to).await;
            let completed = monotonic_micros();
            let outcome = match answer {
                Ok(settlement) => {
                    match settlement.receipt.filter(|receipt| receipt.cost() > 0) {
                        Some(left) => request.receipt = left,
                        None => request.releases -= 1,
                    }
                    let answer = Answer::new(&settlement.decision, true);
                    Outcome::Answered(Answer { uncharged: settlement.uncharged, ..answer })
                }
                // As a layer does, the release is repeated until it is answered, for which the permits are not renewed.
                Err(error) => {
                    request.renewal = None;
                    Outcome::of_error(error.kind())
                }
            };
            let call = Call::Settle(correction);
            self.ops.push(Op { process: 0, key_id: request.key_id, call, invoked, completed, outcome });
            request.end = completed + self.random.u64(..LONGEST_PAUSE);
            self.running.push(request);
        }
    }
}

/// The keys of a rotation, whose permits all tasks of all processes want.
const CALLERS: u64 = 3;
const MAX_RUNNING: usize = 4;
const MAX_OPS: usize = 200_000;
/// In microseconds. Most requests end within the lease, and others need renewals.
const LONGEST_REQUESTS: [u64; 2] = [200_000, 2_500_000];
/// The time from one renewal of a request to the next.
const LEASE_PART: u64 = 400_000;
/// The longest time until a release is repeated.
const LONGEST_PAUSE: u64 = 300_000;
