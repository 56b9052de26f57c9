//! What all layers and checks of one limiter share: the store, the registered policies, the observers, and the requests that wait or
//! are not settled.

#[cfg(feature = "runtime")]
mod backlog;
mod by_key;
mod clients;
pub mod keyed_limit;
mod limits;
pub(crate) mod lock_outs;
#[cfg(feature = "runtime")]
mod outage;
#[cfg(feature = "runtime")]
pub mod permits;
pub mod report;
#[cfg(feature = "runtime")]
pub mod settler;
#[cfg(feature = "runtime")]
pub(crate) mod slots;
#[cfg(feature = "runtime")]
pub(crate) mod windows;

use std::sync::Arc;
#[cfg(feature = "runtime")]
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};

use portcullis_core::overrides::LockOut;
use portcullis_core::store::Store;
use portcullis_core::{Clock, Key, Policy, PolicyName, Quota, Receipt, Strategy, Timestamp};

use crate::event::Observers;
#[cfg(feature = "runtime")]
use crate::event::{Event, EventKind, EventLog};
use crate::limit::PolicyLockOut;
use crate::limit::is_in_flight;
use crate::limit::rate::Rate;
#[cfg(feature = "runtime")]
pub use backlog::Backlog;
pub use clients::{BlockReach, BlockedClient, FOLLOW_EVERY};
pub use limits::{CallerPolicies, CallerQuotas, Limits, Signals};
#[cfg(feature = "runtime")]
pub use outage::PoliciesInUse;

use clients::KnownClients;

use crate::policies::{InstalledPolicy, Member, Membership, PolicyTable, reading_overrides};
use crate::{LayerError, PolicyConflict};
use keyed_limit::KeyedLimit;
#[cfg(feature = "runtime")]
use outage::StoreOutage;

/// The store, with the policies that it was asked to register, and with the observers of its answers.
pub struct Engine {
    store: Arc<dyn Store>,
    policies: Arc<PolicyTable>,
    observers: Observers,
    clock: Arc<dyn Clock>,
    clients: KnownClients,
    pub(crate) unsettled: KeyedLimit<(u128, Key)>,
    /// What is left to be done later.
    #[cfg(feature = "runtime")]
    pub backlog: Backlog,
    #[cfg(feature = "runtime")]
    outage: StoreOutage,
    time_zones_are_logged: AtomicBool,
}

opaque_debug!(Engine);

impl Engine {
    /// An engine without policies and observers, by the clock of the runtime.
    #[cfg(feature = "runtime")]
    pub fn new(store: Arc<dyn Store>) -> Self {
        let time_of_day = Arc::new(crate::clock::SystemClock);
        Self::of(store, Arc::new(crate::RuntimeClock::default()), time_of_day)
    }

    /// An engine without policies and observers. The clock tells when outages begin and end, and since when policies are known; the
    /// store decides by its own.
    pub fn with_clock(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self::of(store, Arc::clone(&clock), clock)
    }

    fn of(store: Arc<dyn Store>, clock: Arc<dyn Clock>, time_of_day: Arc<dyn Clock>) -> Self {
        Self {
            store,
            policies: Arc::new(PolicyTable::new(time_of_day)),
            observers: Observers::default(),
            clock,
            clients: KnownClients::default(),
            unsettled: KeyedLimit::new(keyed_limit::MAX_UNSETTLED),
            #[cfg(feature = "runtime")]
            backlog: Backlog::default(),
            #[cfg(feature = "runtime")]
            outage: StoreOutage::default(),
            time_zones_are_logged: AtomicBool::new(false),
        }
    }

    /// The time by the clock of the engine.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The store that decides.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The observers of events.
    pub fn observers(&self) -> &Observers {
        &self.observers
    }

    /// Emits an event to a log and to the observers.
    #[cfg(feature = "runtime")]
    pub fn emit(&self, log: &EventLog, event: &Event<'_>) {
        if event.kind.is_logged() {
            self.log_outage(event);
            log.write(event, &self.backlog.unsaid_lines);
        }
        self.observers.emit(event);
    }

    /// Names policies in the lines about an outage of the store, those that are registered apart, as long as they exist.
    #[cfg(feature = "runtime")]
    pub fn name_in_outages(&self, policies: Weak<dyn PoliciesInUse>) {
        self.outage.add(policies);
    }

    /// Logs what an event says about an outage of the store, once for all layers.
    #[cfg(feature = "runtime")]
    fn log_outage(&self, event: &Event<'_>) {
        let registered = || self.policies.policies();
        match event.kind {
            EventKind::StoreFailed { error, .. } => self.outage.failed(self.now(), error, event, registered),
            EventKind::OpenForExpired { policy } => self.outage.expired(policy, event, registered),
            EventKind::StoreRecovered => self.outage.answered(|| self.now()),
            _ => {}
        }
    }

    /// Whether the log has an outage whose end it does not have.
    #[cfg(feature = "runtime")]
    #[inline]
    pub(crate) fn is_store_failing(&self) -> bool {
        self.outage.is_failing()
    }

    /// Logs the end of an outage that other layers have seen, if an answer shows it.
    #[cfg(feature = "runtime")]
    pub(crate) fn store_answered(&self) {
        self.outage.answered(|| self.now());
    }

    /// The policies as they are now.
    pub fn policies(&self) -> &Arc<PolicyTable> {
        &self.policies
    }

    /// Registers a policy, here and at the store, for as long as the limiter exists.
    ///
    /// # Errors
    ///
    /// Returns an error if another policy of the name is registered, or the store refuses the policy.
    pub fn register(&self, policy: &Policy) -> Result<(), LayerError> {
        if !self.policies.admits(&[], policy)? {
            self.ask_store(policy)?;
        }
        self.policies.keep(policy)
    }

    /// Registers the policies of a layer. All are registered already, except for the one that is added.
    ///
    /// # Errors
    ///
    /// Returns an error if the policy that is added conflicts with a registered one, the store refuses it, or a decision over all of them
    /// is too much work.
    ///
    /// # Panics
    ///
    /// Panics if a member that is not added is not registered.
    pub fn join(
        &self,
        members: Box<[Member]>,
        added: Option<&Policy>,
    ) -> Result<Arc<Membership>, LayerError> {
        if let Some(added) = added
            && !self.policies.admits(&members, added)?
        {
            self.ask_store(added)?;
        }
        self.policies.join(members, added).map(Arc::new)
    }

    /// Sets the lock-out of a registered policy, which lets it have overrides, in all layers.
    ///
    /// # Errors
    ///
    /// Returns an error if the policy has another lock-out, cannot be granted, or the store refuses it.
    ///
    /// # Panics
    ///
    /// Panics if the policy is not registered.
    pub fn set_lock_out(&self, policy: &Policy, rule: LockOut) -> Result<Arc<PolicyLockOut>, LayerError> {
        self.ask_store(&reading_overrides(policy)?)?;
        self.policies.set_lock_out(policy.name(), rule)
    }

    /// Installs policies: all, or none. What the store lacks is registered there first.
    ///
    /// # Errors
    ///
    /// Returns an error if a policy conflicts with the layers that have it or with another one, or the store refuses it. Nothing is changed
    /// then.
    pub fn install(
        &self,
        policies: &[InstalledPolicy],
        commit: impl FnOnce(),
    ) -> Result<Membership, LayerError> {
        for installed in policies {
            let policy = installed.policy()?;
            if self.policies.policy(policy.name()).is_none_or(|registered| registered != policy) {
                self.ask_store(&policy)?;
            }
        }
        self.policies.install(policies, commit)
    }

    /// Replaces a registered policy. Returns the former one.
    ///
    /// # Errors
    ///
    /// Returns an error if no policy of the name is registered, the new one has other states, the store refuses it, or a layer would do too
    /// much work in one decision.
    pub fn set_policy(&self, policy: Policy) -> Result<Policy, LayerError> {
        self.replace_policy(policy, false)
    }

    /// Replaces the quota of a registered policy, and nothing else. Returns the policy before and now.
    ///
    /// # Errors
    ///
    /// Returns an error as [`set_policy`](Self::set_policy); if the policy cannot have the quota, or a signed document sets the policy.
    pub fn set_quota(&self, name: &PolicyName, quota: Quota) -> Result<(Policy, Policy), LayerError> {
        let unknown = || LayerError::Unknown { policy: name.clone() };
        let registered = self.policies.policy(name).ok_or_else(unknown)?;
        if quota.is_zero() {
            return Err(LayerError::ZeroQuota { policy: name.clone() });
        }
        let invalid = |error| LayerError::Quota { policy: name.clone(), error: Box::new(error) };
        let policy = registered.replace_quota(quota).map_err(invalid)?;
        Ok((self.replace_policy(policy.clone(), true)?, policy))
    }

    fn replace_policy(&self, policy: Policy, is_quota: bool) -> Result<Policy, LayerError> {
        let registered = self.policies.policy(policy.name());
        let policy = registered.iter().fold(policy, Policy::with_states_of);
        // Its failure mode may be new, and need memory in a fallback. An error of the table comes first.
        if let Some(registered) = registered {
            PolicyConflict::check_change(&registered, &policy)?;
            let reads_overrides = registered.reads_overrides();
            self.ask_store(&if reads_overrides { reading_overrides(&policy)? } else { policy.clone() })?;
        }
        self.policies.set_policy(policy, is_quota)
    }

    /// A policy that was charged as it is registered now. `None` if it is not, or has become one with other states: what was charged
    /// under the former one is corrected under it.
    pub(crate) fn as_changed(&self, charged: &Policy) -> Option<Policy> {
        let registered = self.policies.policy(charged.name())?;
        PolicyConflict::check_change(charged, &registered).is_ok().then_some(registered)
    }

    /// Not under a lock, because the store may block or call back.
    fn ask_store(&self, policy: &Policy) -> Result<(), LayerError> {
        let refused = |error| LayerError::Refused { policy: policy.name().clone(), error };
        self.store.register(policy).map_err(refused)?;
        self.log_time_zone_data(policy);
        Ok(())
    }

    /// Logs the version of the time zone data, with the first policy that counts in the windows of a calendar.
    fn log_time_zone_data(&self, policy: &Policy) {
        if let Strategy::CalendarWindow(window) = policy.strategy()
            && let Some(version) = window.table().data_version()
            && !self.time_zones_are_logged.swap(true, Ordering::Relaxed)
        {
            tracing::info!(policy = %policy.name(), version, "calendar windows use this version of the time zone data");
        }
    }

    /// Returns the receipt to settle at `cost`, with the policy as it is registered now where it applies, and with
    /// the quota of its caller. A permit whose lease has changed is corrected under the present one: the release by a shorter lease
    /// would shorten those of other requests.
    pub fn as_of_now(&self, receipt: Receipt, cost: u64) -> Receipt {
        let charged = receipt.policy();
        let policy = self.policy_as_of_now(charged);
        if is_in_flight(charged) && charged.strategy().window() != policy.strategy().window() {
            return receipt.with_policy(&policy);
        }
        corrected_under(&policy, receipt, cost)
    }

    /// A policy that was charged as it is registered now, with the quota of its caller.
    pub(crate) fn policy_as_of_now(&self, charged: &Policy) -> Policy {
        let Some(registered) = self.as_changed(charged) else { return charged.clone() };
        let with_quota = charged.caller_quota().and_then(|quota| registered.with_quota(quota).ok());
        with_quota.unwrap_or(registered)
    }
}

/// Returns the receipt to settle at `cost` under a policy whose quota may have changed since the charge.
///
/// What is refunded was charged at the rate of its own time: at a slower one, the refund of a few units would free a whole level. What
/// is charged in addition is bounded by the quota that applies now. All that was charged under a grant is corrected under it.
fn corrected_under(policy: &Policy, receipt: Receipt, cost: u64) -> Receipt {
    let charged = receipt.policy();
    let keeps_own =
        charged.is_granted() || (receipt.missing(cost) == 0 && Rate::of(charged) != Rate::of(policy));
    if keeps_own { receipt } else { receipt.with_policy(policy) }
}
