//! The store.

mod answers;
mod calls;
mod cross_slot;
mod denials;
mod documents;
mod encoded;
mod errors;
mod figures;
mod leases;
mod overrides;
mod renewals;

use std::sync::Arc;
use std::time::Duration;

use portcullis_core::overrides::{
    Block, BlockedClients, ClientChange, LockOut, Override, validate_block, validate_grant, validate_policy,
};
use portcullis_core::store::{
    CallObserver, Check, CheckResult, Checks, ExchangedRecord, Figure, Outcome, RecordExchange, Renewal,
    Renewed, Run, Standby, Store, StoreFuture,
};
use portcullis_core::{
    Clock, Decision, Key, Policy, Quota, Receipt, Settlement, StoreError, StoreErrorKind, Timestamp,
};
use tokio::time::Instant;

use crate::connection::Connection;
use crate::protocol::keys::{self, Layout, Slots};
use crate::protocol::script::Script;
use crate::protocol::wire::{Operation, Reply};
use crate::transport::{Availability, QueueKey, Transport as _};

use self::answers::Answers;
pub(crate) use self::cross_slot::RecentlyDenied;
pub(crate) use self::denials::{DEFAULT_ENTRIES, DenialMemory};
pub(crate) use self::encoded::EncodedDecisions;
use self::errors::{store_error, with_outage};
pub(crate) use self::leases::Leases;
pub(crate) use self::overrides::SeenGrants;

/// A store in Redis, Valkey or a cluster, shared by all processes that use the same server, namespace and secret. Clones share
/// the connection.
#[derive(Clone, Debug)]
pub struct RedisStore(Arc<Inner>);

// Every decision counts a reference, on any thread. Aligned, the fields are not in the cache line of that number.
#[repr(align(128))]
pub(crate) struct Inner {
    pub(crate) connection: Connection,
    pub(crate) layout: Layout,
    pub(crate) script: Script,
    pub(crate) override_script: Script,
    pub(crate) denials: DenialMemory,
    pub(crate) leases: Leases,
    pub(crate) grants: SeenGrants,
    pub(crate) encoded: EncodedDecisions,
    /// The clock of a scenario; `None` for the server's clock.
    pub(crate) scenario: Option<Box<dyn Clock>>,
    /// Decides which slots are queried first.
    pub(crate) recently_denied: RecentlyDenied,
}

impl RedisStore {
    /// Whether there is a connection now, in a cluster to any of its nodes.
    pub fn is_connected(&self) -> bool {
        self.0.connection.availability(None).is_connected
    }

    pub(crate) fn from_inner(inner: Inner) -> Self {
        Self(Arc::new(inner))
    }

    fn start_check(&self, checks: Checks, standby: Option<Arc<dyn Standby>>) -> StoreFuture<Outcome> {
        if let Some(denied) = self.0.remembered_denial(&checks) {
            return StoreFuture::ready(Ok(denied));
        }
        match self.0.leases.pay(&checks) {
            Some(parts) => self.start_leased(checks, parts, standby, None),
            None => self.start_exact(checks, standby, None),
        }
    }

    /// Lets the server decide, until `end` if the decision has less than a whole deadline left.
    fn start_exact(
        &self,
        checks: Checks,
        standby: Option<Arc<dyn Standby>>,
        end: Option<Instant>,
    ) -> StoreFuture<Outcome> {
        let slots = self.0.slots(&checks);
        if let Some(refused) = self.0.rejects_now(&slots) {
            self.0.connection.stats().count_error(refused.kind());
            return StoreFuture::ready(self.0.decide_without_store(standby.as_deref(), checks, refused));
        }
        // A decision has at least one check.
        let first = slots[0];
        if slots.iter().any(|slot| *slot != first) && self.0.connection.is_cluster() {
            return match self.0.denial_of_lost_slot(&checks, &slots) {
                Some(denied) => StoreFuture::ready(Ok(denied)),
                None => StoreFuture::boxed(self.clone().decide_cross_slot(checks, slots, standby)),
            };
        }
        StoreFuture::boxed(self.clone().decide(checks, first, standby, end))
    }

    /// Makes a decision by one call. Its future takes less than a kilobyte, which a test bounds: allocators are slower beyond.
    #[expect(
        clippy::manual_async_fn,
        reason = "a block uses what it captures in place, a function has a copy of it"
    )]
    fn decide(
        self,
        checks: Checks,
        slot: u16,
        standby: Option<Arc<dyn Standby>>,
        end: Option<Instant>,
    ) -> impl Future<Output = Result<Outcome, StoreError>> + Send + 'static {
        async move {
            let sent = Instant::now();
            let answers = match self.0.run_checks(slot, &checks, checks.iter(), end).await {
                Ok(answers) => answers,
                Err(failure) => return self.0.decide_without_store(standby.as_deref(), checks, failure),
            };
            self.0.remember(slot, &checks, checks.iter().zip(answers.iter()), sent);
            let outcome = answers.outcome(checks).expect("there is one answer per check");
            if let Some(standby) = standby {
                standby.record(&outcome);
            }
            Ok(outcome)
        }
    }

    /// Changes one state, and returns its figures.
    async fn change(
        &self,
        operation: Operation<'_>,
        check: &Check,
    ) -> Result<(Timestamp, CheckResult, Reply), StoreError> {
        let mut reply = self.0.change(operation, check).await?;
        let (at, result) = self.0.result_of(&mut reply, check, 0)?;
        Ok((at, result, reply))
    }

    /// Refunds or settles by one call, however many runs the receipt has.
    async fn correct(self, receipt: Receipt, cost: u64) -> Result<Settlement, StoreError> {
        let (policy, key, missing) = (receipt.policy().clone(), receipt.key(), receipt.missing(cost));
        let check = Check { policy, key, cost: missing };
        let operation =
            if missing > 0 { Operation::Force } else { Operation::Refund(receipt.refund_to(cost)) };
        let (at, result, mut reply) = self.change(operation, &check).await?;
        let (mut uncharged, mut run) = (0, None);
        if missing > 0 {
            let before = reply.stored(check.policy.strategy())?;
            let (units, left_out) = before.forced(at, missing);
            (uncharged, run) = (left_out, Some(Run { units, position: result.position }));
        }
        let decision = Decision::new(&check.policy, at, result.snapshot);
        Ok(Settlement { decision, uncharged, receipt: Some(receipt.settled(cost, run, at)) })
    }
}

impl Store for RedisStore {
    fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        self.start_check(checks, None)
    }

    fn check_with(&self, checks: Checks, standby: Arc<dyn Standby>) -> StoreFuture<Outcome> {
        self.start_check(checks, Some(standby))
    }

    fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
        if let Some((decision, _)) = self.refund_to_lease(&receipt, 0) {
            return StoreFuture::ready(Ok(decision));
        }
        let correction = self.clone().correct(receipt, 0);
        StoreFuture::boxed(async { Ok(correction.await?.decision) })
    }

    fn settle(&self, receipt: Receipt, cost: u64) -> StoreFuture<Settlement> {
        if let Some((decision, left)) = self.refund_to_lease(&receipt, cost) {
            return StoreFuture::ready(Ok(Settlement { decision, uncharged: 0, receipt: Some(left) }));
        }
        StoreFuture::boxed(self.clone().correct(receipt, cost))
    }

    fn renew(&self, renewals: Vec<Renewal>) -> StoreFuture<Vec<Renewed>> {
        StoreFuture::boxed(self.clone().renew_permits(renewals))
    }

    fn reset(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        self.0.recently_denied.remove(key);
        let (store, check) = (self.clone(), Check { policy: policy.clone(), key, cost: 0 });
        StoreFuture::boxed(async move {
            let answer = store.change(Operation::Reset, &check).await.map(drop);
            // A lease that was charged before the reset has nothing left to refund. If nothing was reset, it is still charged.
            if answer.as_ref().err().is_none_or(|error| error.kind().is_fate_unknown()) {
                store.0.leases.reset(&check.policy, check.key);
            }
            answer
        })
    }

    fn set_grant(&self, policy: &Policy, key: Key, grant: Option<(Quota, Duration)>) -> StoreFuture<()> {
        let valid = match grant {
            Some((quota, length)) => validate_grant(policy, quota, length),
            None => validate_policy(policy),
        };
        self.start_change(valid, policy, key, move |record, now| record.set_grant(now, grant))
    }

    fn block(&self, policy: &Policy, key: Key, length: Duration) -> StoreFuture<()> {
        let valid = validate_block(policy, length);
        self.start_change(valid, policy, key, move |record, now| record.set_block(now, length))
    }

    fn unblock(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        self.0.recently_denied.remove(key);
        self.start_change(validate_policy(policy), policy, key, |record, _| record.unblock())
    }

    fn record_denials(
        &self,
        policy: &Policy,
        key: Key,
        denials: u32,
        lock_out: &LockOut,
    ) -> StoreFuture<Option<Block>> {
        self.start_denials(policy, key, denials, *lock_out)
    }

    fn overrides(&self, policy: &Policy, key: Key) -> StoreFuture<Override> {
        self.start_read(policy, key)
    }

    fn blocked_clients(
        &self,
        change: Option<ClientChange>,
    ) -> StoreFuture<Option<(Timestamp, BlockedClients)>> {
        self.start_clients(change)
    }

    fn exchange_record(&self, exchange: RecordExchange) -> StoreFuture<Option<ExchangedRecord>> {
        self.start_exchange(exchange)
    }

    fn figures(&self, visit: &mut dyn FnMut(Figure<'_>)) {
        self.0.visit_figures(visit);
    }

    fn observe_calls(&self, observer: Arc<dyn CallObserver>) {
        self.0.connection.stats().observers.add(observer);
    }

    /// [Returns the leases](RedisStore::return_leases) of this process.
    fn drain(&self) -> StoreFuture<()> {
        let store = self.clone();
        StoreFuture::boxed(async move {
            store.return_leases().await;
            Ok(())
        })
    }
}

impl Inner {
    /// Runs checks that share a slot, which are all or a part of a decision's. While the call waits it is bounded by the narrowest
    /// key of the decision, and it fails once one of the decision's checks is denied.
    pub(crate) async fn run_checks(
        &self,
        slot: u16,
        decision: &Checks,
        checks: impl Iterator<Item = &Check> + Clone,
        end: Option<Instant>,
    ) -> Result<Answers, StoreError> {
        if checks.clone().any(|check| check.policy.reads_overrides()) {
            return Box::pin(self.run_guarded(slot, decision, checks, end)).await;
        }
        let is_denied = || self.denials.denies(decision);
        let key = decision.narrowest_key().map(|key| key.fingerprint());
        // Permits bound what a client can hold of shared limits by decisions that its own limit denies: parts of decisions need them.
        let queue = QueueKey { may_join: decision.len() == 1, ..QueueKey::new(key, &is_denied) };
        // Not by `call`, whose future would take the memory for this one again.
        let reply = self.send(slot, queue, Operation::Check, checks.clone(), &[], end).await;
        let mut reply = Reply::new(self.received(slot, reply)?)?;
        let at = reply.at()?;
        let mut answers = Answers::default();
        for check in checks {
            let (admitted, stored) = self.read_stored(&mut reply, check, at)?;
            answers.push(at, stored.check_result(at, check.units(), admitted));
        }
        Ok(answers)
    }

    /// Refunds, settles or resets one state. Removes its remembered denial, unless it frees nothing, and then no denial from a request
    /// before the answer is remembered.
    pub(crate) async fn change(&self, operation: Operation<'_>, check: &Check) -> Result<Reply, StoreError> {
        let correction = self.denials.correct(&check.policy, check.key);
        let key = (!check.key.is_shared()).then(|| check.key.fingerprint());
        let queue = QueueKey::new(key, &|| false);
        let (slot, checks) = (keys::slot(check.key), std::iter::once(check));
        let is_reset = matches!(operation, Operation::Reset);
        let is_charge = matches!(operation, Operation::Force);
        let reply = self.call(slot, queue, operation, checks, &[], None).await;
        match &reply {
            _ if is_charge => correction.not_made(),
            Err(error) if error.kind().is_fate_unknown() => drop(correction),
            // A key that is reset is to pass in an outage as well.
            Err(_) if !is_reset => correction.not_made(),
            _ => correction.answered(),
        }
        reply
    }

    /// Remembers the denials of one call, and makes waiting calls check whether they are denied. `sent` is before the call.
    pub(crate) fn remember<'a>(
        &self,
        slot: u16,
        decision: &Checks,
        answers: impl Iterator<Item = (&'a Check, &'a (Timestamp, CheckResult))>,
        sent: Instant,
    ) {
        for (check, (at, result)) in answers {
            if result.admitted {
                self.denials.admitted(check, *at);
            } else if self.denials.remember_until(
                self.end_of_grant(check),
                check,
                *at,
                &result.snapshot,
                sent,
            ) && let Some(key) = decision.narrowest_key()
            {
                self.connection.recheck_denied(slot, key.fingerprint());
            }
        }
    }

    /// The result of a decision of which no check could be answered: a denial that is remembered, or what the standby decides.
    pub(crate) fn decide_without_store(
        &self,
        standby: Option<&dyn Standby>,
        checks: Checks,
        failure: StoreError,
    ) -> Result<Outcome, StoreError> {
        match (self.denied_without_store(&checks, failure.kind()), standby) {
            (Some(denied), _) => Ok(denied),
            (None, Some(standby)) => standby.decide(checks, failure),
            (None, None) => Err(failure),
        }
    }

    /// Returns the remembered denial of a decision that was certainly not made.
    pub(crate) fn denied_without_store(&self, checks: &Checks, failure: StoreErrorKind) -> Option<Outcome> {
        match failure {
            StoreErrorKind::Overloaded => self.remembered_denial(checks),
            unknown if unknown.is_fate_unknown() => None,
            _ => self.denial_in_outage(checks),
        }
    }

    /// The slots of the checks, all the same without a cluster, where they are needed for nothing.
    fn slots(&self, checks: &Checks) -> Slots {
        if self.connection.has_slots() {
            keys::slots(checks.iter().map(|check| check.key))
        } else {
            checks.iter().map(|_| 0).collect()
        }
    }

    /// Returns why no part of a decision would be answered now, if so. Does not send anything and does not allocate.
    fn rejects_now(&self, slots: &Slots) -> Option<StoreError> {
        let mut refused = None;
        for slot in slots {
            let Availability { rejection, outage, .. } = self.connection.availability(Some(*slot));
            refused = Some(with_outage(store_error(&rejection?), outage));
        }
        refused
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut inner = f.debug_struct("RedisStore");
        inner.field("connection", &self.connection).field("layout", &self.layout).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests;
