//! The interface for stores: the trait, the input and the result of its methods, and the [decision protocol](protocol).
//!
//! A store keeps a [`State`](crate::algorithm::State) per policy and key. For each call it locks or loads the states, lets the
//! protocol decide, and writes what has changed.

mod checks;
mod document;
mod error;
mod figures;
mod future;
mod list;
#[cfg(feature = "std")]
mod no_store;
mod outcome;
mod overriding;
pub mod protocol;
mod ready_check;
mod record;
mod renewal;
mod standby;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::overrides::{Block, BlockedClients, ClientChange, LockOut, Override};
use crate::{Decision, Key, Policy, Quota, Timestamp};

pub use crate::algorithm::CheckResult;
pub use crate::charge::{Position, Run};
pub use crate::receipt::{Receipt, Settlement};
pub use crate::refund::Refund;
pub use crate::strategy::Structure;
pub use checks::{Check, Checks, ChecksError, TooMuchWork};
pub use document::DocumentStore;
pub use error::{StoreError, StoreErrorKind};
pub use figures::{CallObserver, CallOutcome, Figure, FigureKind, FigureUnit, StoreCall};
pub use future::StoreFuture;
#[cfg(feature = "std")]
pub use no_store::NoStore;
pub use outcome::{Outcome, ServerResult};
pub use ready_check::ReadyCheck;
pub use record::{ExchangedRecord, RecordExchange};
pub use renewal::{Renewal, Renewed};
pub use standby::Standby;

/// Keeps state per policy and key, and decides atomically.
///
/// A store receives data, never closures, so that it can decide on another machine. All checks of one call are charged
/// together or not at all, and a denial charges nothing. A denial is an [`Outcome`]; a store returns a [`StoreError`] only if
/// it cannot answer.
pub trait Store: Send + Sync + 'static {
    /// Decides, and charges if all checks fit.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the charge may or may not have been made.
    fn check(&self, checks: Checks) -> StoreFuture<Outcome>;

    /// Like [`check`](Store::check) with a single check, for a store whose answers are always ready: the same decision and the same
    /// charge, without the lists of an outcome. A caller without use for a receipt saves what it takes to move them.
    ///
    /// `None` if the answer has to be awaited, in which case nothing is charged: call [`check`](Store::check). The default returns
    /// `None`.
    fn check_now(&self, policy: &Policy, key: Key, cost: u64) -> Option<Result<ReadyCheck, StoreError>> {
        let _ = (policy, key, cost);
        None
    }

    /// Like [`check`](Store::check), with a standby that decides the checks that this store cannot.
    ///
    /// The default implementation calls the standby if the whole check fails. It clones the checks and, if the answer has to
    /// be awaited, boxes a continuation. A store whose own future keeps the checks can override it to save both. A store with
    /// several servers overrides it so that the standby decides only the checks whose server has failed.
    ///
    /// # Cancel safety
    ///
    /// As for [`check`](Store::check); the standby may have charged as well.
    fn check_with(&self, checks: Checks, standby: Arc<dyn Standby>) -> StoreFuture<Outcome> {
        let kept = checks.clone();
        self.check(checks).map(move |answer| standby.answer_or_decide(kept, answer))
    }

    /// Frees the charges of [`Receipt::refund_to`], as far as the state still holds them, and returns a peek.
    ///
    /// If the policy's quota has changed since the charge, call [`Receipt::with_policy`] with the new policy first: under the
    /// old quota the receipt refers to a state that no longer exists.
    fn refund(&self, receipt: Receipt) -> StoreFuture<Decision>;

    /// Changes what was charged to `cost`: refunds the difference, the newest units first, or charges it whether it fits or
    /// not. As for a [refund](Store::refund), the receipt must have the current quota. The result has the
    /// [receipt](Receipt::settled) for what is charged then.
    fn settle(&self, receipt: Receipt, cost: u64) -> StoreFuture<Settlement>;

    /// Renews permits of limits on [requests in flight](crate::InFlight): those that are held expire a whole lease from now. Returns
    /// how many are held and how many are not, in the order of `renewals`. A permit that has expired or was released stays so.
    ///
    /// Renewing twice is harmless, so a call that has failed may be repeated. A store with a server may divide the list into several
    /// calls. The default is an error, for stores that keep permits until their first lease ends.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, some of the permits may have been renewed.
    fn renew(&self, renewals: Vec<Renewal>) -> StoreFuture<Vec<Renewed>> {
        let _ = renewals;
        let message = "the store cannot renew the permits of limits on requests in flight";
        StoreFuture::ready(Err(StoreError::new(StoreErrorKind::Unsupported, message)))
    }

    /// Removes the state of a key under a policy: the next check finds the full limit available. An [override](crate::overrides::Override)
    /// of the key stays: see [`set_grant`](Store::set_grant) and [`unblock`](Store::unblock).
    fn reset(&self, policy: &Policy, key: Key) -> StoreFuture<()>;

    /// Registers a policy before it is used, so that a store can reserve what it needs, or reject the policy while the service
    /// starts. Layers call this when they are built. Registering a policy again has no effect.
    ///
    /// The default accepts all policies.
    ///
    /// # Errors
    ///
    /// If the store cannot keep the policy's states. The message names the policy and the necessary change.
    fn register(&self, policy: &Policy) -> Result<(), StoreError> {
        let _ = policy;
        Ok(())
    }

    /// Gives a key another quota under a policy for a length of time from now on, which replaces an earlier grant. `None` ends it.
    ///
    /// Checks are decided under the policy with that quota, with the state that the key has. What the outcome and its receipts
    /// [have](Outcome::grant) is that policy.
    ///
    /// The future fails if the policy does not [read overrides](Policy::reads_overrides), if the grant is invalid, with
    /// an [`OverrideError`](crate::overrides::OverrideError), or if the store has no room for it. The default always fails: it
    /// is for stores that keep no [overrides](crate::overrides::Override).
    fn set_grant(&self, policy: &Policy, key: Key, grant: Option<(Quota, Duration)>) -> StoreFuture<()> {
        let _ = (key, grant);
        StoreFuture::ready(Err(overriding::unsupported(policy, "set_grant")))
    }

    /// Blocks a key under a policy for a length of time from now on, which replaces an earlier block: all its checks are
    /// [denied](Decision::is_blocked), peeks included, and nothing is charged.
    ///
    /// The future fails as that of [`set_grant`](Store::set_grant), and so does the default.
    fn block(&self, policy: &Policy, key: Key, length: Duration) -> StoreFuture<()> {
        let _ = (key, length);
        StoreFuture::ready(Err(overriding::unsupported(policy, "block")))
    }

    /// Ends the block of a key under a policy, and forgets what lock-outs have counted. See [`Override::unblock`].
    ///
    /// The future fails if the policy does not [read overrides](Policy::reads_overrides). The default always fails.
    fn unblock(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        let _ = key;
        StoreFuture::ready(Err(overriding::unsupported(policy, "unblock")))
    }

    /// Counts denials of a key under a policy, and returns the block that begins with them. See [`Override::record_denials`].
    ///
    /// The future fails if the policy does not [read overrides](Policy::reads_overrides). The default always fails.
    fn record_denials(
        &self,
        policy: &Policy,
        key: Key,
        denials: u32,
        lock_out: &LockOut,
    ) -> StoreFuture<Option<Block>> {
        let _ = (key, denials, lock_out);
        StoreFuture::ready(Err(overriding::unsupported(policy, "record_denials")))
    }

    /// Returns the override of a key under a policy, [`Override::NONE`] without one. Its parts may have ended.
    ///
    /// The future fails if the policy does not [read overrides](Policy::reads_overrides). The default always fails.
    fn overrides(&self, policy: &Policy, key: Key) -> StoreFuture<Override> {
        let _ = key;
        StoreFuture::ready(Err(overriding::unsupported(policy, "overrides")))
    }

    /// Changes the list of the clients that are blocked under all policies, or only reads it, and returns it with the time of the store.
    ///
    /// `None` if the store keeps no such list, as one of a single process, which a limiter keeps itself: the default. A store that
    /// several processes share keeps it as long as a block lasts; each process reads it every few seconds, and decides by what it has read.
    ///
    /// # Errors
    ///
    /// The future fails if the store does not answer, or if the list is [full](BlockedClients::MAX).
    fn blocked_clients(
        &self,
        change: Option<ClientChange>,
    ) -> StoreFuture<Option<(Timestamp, BlockedClients)>> {
        let _ = change;
        StoreFuture::ready(Ok(None))
    }

    /// Reads a record of the caller, or replaces it if it is as expected, in one step: of two processes that expect one record, one is
    /// refused.
    ///
    /// `None` if the store keeps no records, as one of a single process, whose callers keep them themselves: the default.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the record may or may not have been replaced.
    fn exchange_record(&self, exchange: RecordExchange) -> StoreFuture<Option<ExchangedRecord>> {
        drop(exchange);
        StoreFuture::ready(Ok(None))
    }

    /// Calls `visit` with each figure that the store reports about itself, in no particular order, for metrics. Does no I/O, and holds up
    /// no check for longer than another check would.
    ///
    /// A store that wraps another one passes them on. The default reports none.
    fn figures(&self, visit: &mut dyn FnMut(Figure<'_>)) {
        let _ = visit;
    }

    /// Adds an observer of the calls to the store's server, which stays for as long as the store. Each observer is called once for each
    /// call. What is decided without a call to the server, as a remembered denial is, has none.
    ///
    /// A store that wraps another one passes the observer on. The default drops it, for stores without a server.
    fn observe_calls(&self, observer: Arc<dyn CallObserver>) {
        drop(observer);
    }

    /// Returns what this process holds in advance, such as [leases](Policy::lease), and waits for what the store does in the
    /// background, for the end of the process. What cannot be returned expires by itself.
    ///
    /// A store that wraps another one calls it. The default has nothing to return.
    fn drain(&self) -> StoreFuture<()> {
        StoreFuture::ready(Ok(()))
    }
}

impl<S: Store + ?Sized> Store for Arc<S> {
    fn check(&self, checks: Checks) -> StoreFuture<Outcome> {
        (**self).check(checks)
    }

    #[inline]
    fn check_now(&self, policy: &Policy, key: Key, cost: u64) -> Option<Result<ReadyCheck, StoreError>> {
        (**self).check_now(policy, key, cost)
    }

    fn check_with(&self, checks: Checks, standby: Arc<dyn Standby>) -> StoreFuture<Outcome> {
        (**self).check_with(checks, standby)
    }

    fn refund(&self, receipt: Receipt) -> StoreFuture<Decision> {
        (**self).refund(receipt)
    }

    fn settle(&self, receipt: Receipt, cost: u64) -> StoreFuture<Settlement> {
        (**self).settle(receipt, cost)
    }

    fn renew(&self, renewals: Vec<Renewal>) -> StoreFuture<Vec<Renewed>> {
        (**self).renew(renewals)
    }

    fn reset(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        (**self).reset(policy, key)
    }

    fn register(&self, policy: &Policy) -> Result<(), StoreError> {
        (**self).register(policy)
    }

    fn set_grant(&self, policy: &Policy, key: Key, grant: Option<(Quota, Duration)>) -> StoreFuture<()> {
        (**self).set_grant(policy, key, grant)
    }

    fn block(&self, policy: &Policy, key: Key, length: Duration) -> StoreFuture<()> {
        (**self).block(policy, key, length)
    }

    fn unblock(&self, policy: &Policy, key: Key) -> StoreFuture<()> {
        (**self).unblock(policy, key)
    }

    fn record_denials(
        &self,
        policy: &Policy,
        key: Key,
        denials: u32,
        lock_out: &LockOut,
    ) -> StoreFuture<Option<Block>> {
        (**self).record_denials(policy, key, denials, lock_out)
    }

    fn overrides(&self, policy: &Policy, key: Key) -> StoreFuture<Override> {
        (**self).overrides(policy, key)
    }

    fn blocked_clients(
        &self,
        change: Option<ClientChange>,
    ) -> StoreFuture<Option<(Timestamp, BlockedClients)>> {
        (**self).blocked_clients(change)
    }

    fn exchange_record(&self, exchange: RecordExchange) -> StoreFuture<Option<ExchangedRecord>> {
        (**self).exchange_record(exchange)
    }

    fn figures(&self, visit: &mut dyn FnMut(Figure<'_>)) {
        (**self).figures(visit);
    }

    fn observe_calls(&self, observer: Arc<dyn CallObserver>) {
        (**self).observe_calls(observer);
    }

    fn drain(&self) -> StoreFuture<()> {
        (**self).drain()
    }
}
