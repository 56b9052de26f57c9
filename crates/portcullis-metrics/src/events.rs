//! Counts the events of layers.

use portcullis_core::Decision;
use portcullis_tower::{Event, EventKind, Observer};

use crate::handles::Handles;
use crate::labels::{Dropped, IdentityError, Overload, Permit, Reload, RequestOutcome, Warning, WouldReject};
use crate::limiter::LimiterMetrics;
use crate::policies::{MAX_POLICIES, Policies, PolicyMetrics};

/// Counts the events of layers. An event costs additions to counters, and the look-up of its policies.
pub(crate) struct Events {
    limiter: LimiterMetrics,
    policies: Policies,
}

impl Events {
    pub(crate) fn new(handles: &Handles) -> Self {
        Self { limiter: LimiterMetrics::new(handles), policies: Policies::new(handles, MAX_POLICIES) }
    }

    pub(crate) fn limiter(&self) -> &LimiterMetrics {
        &self.limiter
    }

    pub(crate) fn policies(&self) -> &Policies {
        &self.policies
    }

    #[inline]
    fn policy(&self, decision: &Decision) -> &PolicyMetrics {
        self.policies.get(decision.policy())
    }

    #[inline]
    fn ended(&self, outcome: RequestOutcome, decisions: &[Decision]) {
        self.limiter.requests.count(outcome);
        for decision in decisions {
            self.policy(decision).decided(decision);
        }
    }
}

impl Observer for Events {
    fn on_event(&self, event: &Event<'_>) {
        let limiter = &self.limiter;
        match event.kind {
            EventKind::Admitted { decisions } => self.ended(RequestOutcome::Admitted, decisions),
            EventKind::Charged { decision, units } => self.policy(decision).charged_units.increment(units),
            EventKind::Rejected { reason, decisions } => self.ended(reason.into(), decisions),
            EventKind::ChargedMore { decisions, units } => {
                for decision in decisions.iter().filter(|decision| decision.is_metered()) {
                    self.policy(decision).charged_units.increment(units);
                }
            }
            EventKind::Refunded { decision, units } => self.policy(decision).refunded_units.increment(units),
            EventKind::ChargeDenied { decisions, .. } => {
                for decision in decisions.iter().filter(|decision| !decision.is_allowed()) {
                    self.policy(decision).denied_charges.increment(1);
                }
            }
            EventKind::PermitAcquired { decision } => self.policy(decision).permits.count(Permit::Acquired),
            EventKind::PermitReleased { decision } => self.policy(decision).permits.count(Permit::Released),
            EventKind::Waited { policy, waited } => self.policies.get(policy).waits().record(waited),
            EventKind::Skipped => limiter.skipped.increment(1),
            EventKind::Preflight { .. } => limiter.preflights.increment(1),
            EventKind::StoreFailed { error, is_new } => limiter.store_failed(error, is_new),
            EventKind::StoreRecovered => limiter.recoveries.increment(1),
            EventKind::StoreOverloaded { error } => {
                limiter.store_failed(error, false);
                limiter.overloads.count(Overload::Store);
            }
            EventKind::TooManyWaiting => limiter.overloads.count(Overload::Waiting),
            EventKind::NotReady => limiter.overloads.count(Overload::NotReady),
            EventKind::RefundDropped => limiter.dropped.count(Dropped::Refund),
            EventKind::ChargeDropped => limiter.dropped.count(Dropped::Charge),
            EventKind::RulesReloaded { generation } => {
                limiter.reloads.count(Reload::Applied);
                limiter.rules_changed(generation);
            }
            EventKind::RulesRejected { generation, .. } => {
                limiter.reloads.count(Reload::Rejected);
                limiter.rules_changed(generation);
            }
            EventKind::Shed { class, is_shadow: false, .. } => limiter.shed.count(class.into()),
            EventKind::Shed { class, is_shadow: true, .. } => limiter.would_shed.count(class.into()),
            kind => self.on_rare_event(kind),
        }
    }

    fn wants_charges(&self) -> bool {
        true
    }
}

impl Events {
    /// The events of a policy that few requests cause.
    fn on_rare_event(&self, kind: EventKind<'_>) {
        let policy = |name| self.policies.get(name);
        match kind {
            EventKind::Exempt { policy: name } => policy(name).exempt.increment(1),
            EventKind::SoftLimitReached { decision } => self.policy(decision).soft_limit.increment(1),
            EventKind::ShadowWouldReject { decision } => {
                self.policy(decision).would_reject.count(WouldReject::Limited);
            }
            EventKind::ShadowUnidentified { policy: name, .. } => {
                policy(name).would_reject.count(WouldReject::Unidentified);
            }
            EventKind::IdentityMissing { policy: name, .. } => {
                policy(name).identity_errors.count(IdentityError::Missing);
            }
            EventKind::IdentityMalformed { policy: name, .. } => {
                policy(name).identity_errors.count(IdentityError::Malformed);
            }
            EventKind::LookupFailed { policy: name, .. } => {
                policy(name).identity_errors.count(IdentityError::LookupFailed);
            }
            EventKind::QuotaLookupFailed { policy: name, .. } => {
                policy(name).identity_errors.count(IdentityError::QuotaLookupFailed);
            }
            EventKind::QuotaRefused { policy: name, .. } => {
                policy(name).identity_errors.count(IdentityError::QuotaRefused);
            }
            EventKind::LockedOut { policy: name, .. } => policy(name).lock_outs.increment(1),
            EventKind::PermitLapsed { policy: name } => policy(name).permits.count(Permit::Lapsed),
            EventKind::UpgradeReleased { policy: name } => {
                policy(name).warnings.count(Warning::UpgradeReleased);
            }
            EventKind::DebtExceeded { policy: name, uncharged } => {
                policy(name).uncharged_units.increment(uncharged);
            }
            EventKind::SettlementLost { policy: name, reserved, used, cause } => {
                let policy = policy(name);
                policy.settlements_lost.count(cause.into());
                policy.settlement_units_lost.increment(reserved.abs_diff(used));
            }
            EventKind::UsageLost { policy: name, .. } => policy(name).warnings.count(Warning::UsageLost),
            EventKind::OpenForExpired { policy: name } => {
                policy(name).warnings.count(Warning::OpenForExpired);
            }
            EventKind::TooManyUnsettled { policy: name } => {
                policy(name).warnings.count(Warning::TooManyUnsettled);
            }
            EventKind::OutcomePanicked { policy: name } => {
                policy(name).warnings.count(Warning::OutcomePanicked);
            }
            EventKind::OutgoingClosed { policy: name, .. } => {
                policy(name).warnings.count(Warning::OutgoingClosed);
            }
            EventKind::OutgoingHintIgnored { policy: name, .. } => {
                policy(name).warnings.count(Warning::OutgoingHintIgnored);
            }
            EventKind::OutgoingNotShared { policy: name } => {
                policy(name).warnings.count(Warning::OutgoingNotShared);
            }
            EventKind::ChargedTwice { policy: name } => policy(name).warnings.count(Warning::ChargedTwice),
            // Rejections for a wrong configuration are counted as requests.
            _ => {}
        }
    }
}
