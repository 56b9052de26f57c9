//! Requests through a layer, whose corrections are made in the background and repeated: the records are of what its store is asked.

use std::collections::HashMap;
use std::convert::Infallible;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::request::Parts;
use axum::http::{Request, Response, StatusCode};
use fastrand::Rng;
use portcullis::charge::{OnAbort, Usage};
use portcullis::key::{Identity, KeyError, KeyExtractor, KeyWriter};
use portcullis::{Limit, Limiter, PolicyExt as _, Secret};
use portcullis_core::store::{Checks, Outcome as Decided, Store, StoreFuture};
use portcullis_core::{Decision, Key, Policy, Receipt, Settlement, StoreError};
use portcullis_histories::{Answer, Call, Correction, Failure, Family, KeyId, Op, Outcome, monotonic_micros};
use portcullis_redis::RedisStore;
use tower::{Layer as _, ServiceExt as _, service_fn};

/// A store that records the calls of a layer.
#[derive(Clone)]
pub(crate) struct Recorder {
    store: RedisStore,
    record: Arc<Mutex<Record>>,
}

#[derive(Default)]
struct Record {
    ops: Vec<Op>,
    /// The rotation and the caller of each key.
    callers: HashMap<Key, (u32, u8)>,
}

impl Recorder {
    pub(crate) fn new(store: RedisStore) -> Self {
        Self { store, record: Arc::default() }
    }

    pub(crate) fn take_ops(&self) -> Vec<Op> {
        mem::take(&mut self.lock().ops)
    }

    /// Notes the call and its time; what it returns records the answer, or an unknown fate if the caller goes away.
    fn call(&self, policy: &Policy, key: Key, call: Call) -> PendingOp {
        let family = Family::ALL.into_iter().find(|family| family.policy().name() == policy.name());
        let (rotation, caller) = *self.lock().callers.get(&key).expect("the key is of a request");
        let key_id = KeyId { rotation, family: family.expect("the policy is of a family"), caller };
        let invoked = monotonic_micros();
        let outcome = Outcome::Unknown(Failure::Dropped);
        let op = Op { process: 0, key_id, call, invoked, completed: invoked, outcome };
        PendingOp { op: Some(op), record: Arc::clone(&self.record) }
    }

    fn lock(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct PendingOp {
    op: Option<Op>,
    record: Arc<Mutex<Record>>,
}

impl PendingOp {
    fn end(mut self, outcome: Outcome) {
        if let Some(op) = &mut self.op {
            op.outcome = outcome;
        }
    }
}

impl Drop for PendingOp {
    fn drop(&mut self) {
        let op = self.op.take().map(|op| Op { completed: monotonic_micros(), ..op });
        self.record.lock().unwrap_or_else(PoisonError::into_inner).ops.extend(op);
    }
}

impl Store for Recorder {
    fn check(&self, checks: Checks) -> StoreFuture<Decided> {
        let pending: Vec<_> =
            checks.iter().map(|check| self.call(&check.policy, check.key, Call::Check(check.cost))).collect();
        let answer = self.store.check(checks);
        StoreFuture::boxed(async move {
            let answer = answer.await;
            let count = pending.len();
            for (index, op) in pending.into_iter().enumerate() {
                op.end(match &answer {
                    Ok(outcome) => check_outcome(outcome, index, count),
                    Err(error) => Outcome::of_error(error.kind()),
                });
            }
            answer
        })
    }

    fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
        let call = Call::Settle(Correction::new(&receipt, 0));
        let op = self.call(receipt.policy(), receipt.key(), call);
        let answer = self.store.refund(receipt);
        StoreFuture::boxed(async move {
            let answer = answer.await;
            op.end(match &answer {
                Ok(decision) => Outcome::Answered(Answer::new(decision, true)),
                Err(error) => Outcome::of_error(error.kind()),
            });
            answer
        })
    }

    fn settle(&self, receipt: Receipt, cost: u64) -> StoreFuture<Settlement> {
        let call = Call::Settle(Correction::new(&receipt, cost));
        let op = self.call(receipt.policy(), receipt.key(), call);
        let answer = self.store.settle(receipt, cost);
        StoreFuture::boxed(async move {
            let answer = answer.await;
            op.end(match &answer {
                Ok(Settlement { decision, uncharged, .. }) => {
                    Outcome::Answered(Answer { uncharged: *uncharged, ..Answer::new(decision, true) })
                }
                Err(error) => Outcome::of_error(error.kind()),
            });
            answer
        })
    }

    fn reset(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        self.store.reset(policy, key)
    }

    fn register(&self, policy: &Policy) -> Result<(), StoreError> {
        self.store.register(policy)
    }
}

/// The figures of one check of `count`.
fn check_outcome(outcome: &Decided, index: usize, count: usize) -> Outcome {
    let answer = Answer::new(&outcome.decisions()[index], outcome.is_allowed());
    let name = outcome.decisions()[index].policy();
    let receipts = outcome.clone().into_receipts();
    let position = receipts.into_iter().find(|receipt| receipt.policy().name() == name);
    Outcome::Answered(Answer {
        position: position.map(|receipt| receipt.runs()[0].position).unwrap_or_default(),
        delay: answer.delay.filter(|_| count == 1),
        ..answer
    })
}

/// A client of two layers in one process: one that reserves, and one that charges by outcome.
pub(crate) struct Client {
    recorder: Recorder,
    limiter: Limiter,
}

impl Client {
    pub(crate) fn new(recorder: Recorder) -> Self {
        let limiter = Limiter::new(recorder.clone(), Secret::published());
        Self { recorder, limiter }
    }

    /// Sends one request to a layer, and reads its response, drops it half-way, or drops the request.
    pub(crate) async fn request(&self, rotation: u32, caller: u8, random: &mut Rng) {
        let key_id = KeyId { rotation, family: Family::Count, caller };
        self.recorder.lock().callers.insert(key_id.key(), (rotation, caller));
        let request = Request::builder().extension(key_id).body(Body::empty()).expect("it has no headers");
        let patience = if random.u64(..10) == 0 { Duration::from_millis(1) } else { Duration::from_secs(60) };
        let answer = if random.u64(..2) == 0 {
            tokio::time::timeout(patience, self.reserving(request, random.u64(..6))).await
        } else {
            tokio::time::timeout(patience, self.by_outcome(request, random.u64(..2) == 0)).await
        };
        let Ok(response) = answer else { return };
        let body = response.into_body();
        if random.u64(..4) > 0 {
            let _ = axum::body::to_bytes(body, 1_024).await;
        }
    }

    /// The response uses `used` units under two policies, which reserve one and three.
    async fn reserving(&self, request: Request<Body>, used: u64) -> Response<Body> {
        let layer = self
            .limiter
            .layer(Family::Count.policy().by(CallerKey).reserve_or(1, OnAbort::Used))
            .and(Limit::new(Family::Bucket.policy()).reserve_or(3, OnAbort::Reservation));
        let service = layer.layer(service_fn(move |request: Request<Body>| async move {
            if let Some(usage) = request.extensions().get::<Usage>() {
                usage.add(used);
            }
            Ok::<_, Infallible>(Response::new(Body::from(Bytes::from("tokens"))))
        }));
        service.oneshot(request).await.expect("the service is infallible").map(Body::new)
    }

    /// A response that is charged if it is a failure.
    async fn by_outcome(&self, request: Request<Body>, succeeds: bool) -> Response<Body> {
        let status = if succeeds { StatusCode::OK } else { StatusCode::UNAUTHORIZED };
        let layer = self.limiter.layer(
            Family::Window
                .policy()
                .by(CallerKey)
                .charge_when(|outcome| outcome.status() == StatusCode::UNAUTHORIZED),
        );
        let service = layer.layer(service_fn(move |_: Request<Body>| async move {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = status;
            Ok::<_, Infallible>(response)
        }));
        service.oneshot(request).await.expect("the service is infallible").map(Body::new)
    }

    /// Ends what is settled in the background. What servers that are gone do not settle is left.
    pub(crate) async fn drain(&self) {
        let _ = self.limiter.drain(Duration::from_secs(5)).await;
    }
}

/// The caller of the [`KeyId`] in the extensions.
struct CallerKey;

impl KeyExtractor for CallerKey {
    fn extract(&self, parts: &Parts, key: &mut KeyWriter<'_>) -> Result<Identity, KeyError> {
        let Some(key_id) = parts.extensions.get::<KeyId>() else { return Ok(Identity::Missing) };
        key_id.write(key);
        Ok(Identity::Found)
    }
}

/// The tasks of a process that send requests.
pub(crate) const CLIENTS: u64 = 2;
