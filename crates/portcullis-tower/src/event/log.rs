//! The log of a layer: transitions, and throttled lines about requests, never one per request.

use portcullis_core::overrides::Block;
use portcullis_core::{PolicyName, StoreError};

use super::outgoing_log::OutgoingLog;
use super::quota_log::QuotaLog;
use super::{Event, EventKind, Observer, SettlementLoss};
use crate::class::Class;
use crate::log_throttle::LogThrottle;
use crate::{KeyError, OnMissing, Reason};

/// Writes the log lines of a layer.
#[derive(Debug)]
pub(crate) struct EventLog {
    store_overloaded: LogThrottle,
    misconfigured: LogThrottle,
    missing: LogThrottle,
    malformed: LogThrottle,
    lookup_failed: LogThrottle,
    refund_dropped: LogThrottle,
    debt_exceeded: LogThrottle,
    settlement_lost: LogThrottle,
    too_many_wait: LogThrottle,
    not_ready: LogThrottle,
    permit_lapsed: LogThrottle,
    upgrade_released: LogThrottle,
    charged_twice: LogThrottle,
    soft_limit: LogThrottle,
    shadow: LogThrottle,
    shadow_unidentified: LogThrottle,
    denied: LogThrottle,
    charge_dropped: LogThrottle,
    too_many_unsettled: LogThrottle,
    outcome_panicked: LogThrottle,
    quotas: QuotaLog,
    locked_out: LogThrottle,
    outgoing: OutgoingLog,
    shed: LogThrottle,
    shadow_shed: LogThrottle,
}

impl Observer for EventLog {
    fn on_event(&self, event: &Event<'_>) {
        match event.kind {
            EventKind::StoreFailed { error, is_new: true } => {
                let meanwhile = event.policies;
                tracing::warn!(%error, %meanwhile, "the store of the rate limiter cannot answer");
            }
            EventKind::OpenForExpired { policy } => tracing::warn!(
                %policy,
                "the store of the rate limiter still cannot answer, for longer than a policy is open: requests are rejected"
            ),
            EventKind::StoreRecovered => tracing::info!("the store of the rate limiter answers again"),
            EventKind::StoreOverloaded { error } => self.store_overloaded(error),
            EventKind::TooManyWaiting => self.too_many_wait(),
            EventKind::NotReady => self.not_ready(),
            EventKind::IdentityMissing { policy, on_missing } => self.identity_missing(policy, on_missing),
            EventKind::IdentityMalformed { policy, error } => self.identity_malformed(policy, error),
            EventKind::Misconfigured { error } => self.misconfigured(error),
            EventKind::LookupFailed { policy, error } => self.lookup_failed(policy, error),
            EventKind::QuotaRefused { policy, quota, error } => self.quotas.refused(policy, quota, error),
            EventKind::QuotaLookupFailed { policy, error } => self.quotas.lookup_failed(policy, error),
            EventKind::SoftLimitReached { decision } => self.soft_limit_reached(decision.policy()),
            EventKind::ShadowWouldReject { decision } => self.shadow_would_reject(decision.policy()),
            EventKind::ShadowUnidentified { policy, error } => self.shadow_unidentified(policy, error),
            EventKind::RefundDropped => self.refund_dropped(),
            EventKind::DebtExceeded { policy, uncharged } => self.debt_exceeded(policy, uncharged),
            EventKind::SettlementLost { policy, reserved, used, cause } => {
                self.settlement_lost(policy, reserved.abs_diff(used), cause);
            }
            EventKind::PermitLapsed { policy } => self.permit_lapsed(policy),
            EventKind::UpgradeReleased { policy } => self.upgrade_released(policy),
            EventKind::LockedOut { policy, block } => self.locked_out(policy, block),
            EventKind::ChargedTwice { policy } => self.charged_twice(policy),
            EventKind::Rejected { reason: Reason::Denied, .. } => self.denied(),
            EventKind::ChargeDropped => self.charge_dropped(),
            EventKind::TooManyUnsettled { policy } => self.too_many_unsettled(policy),
            EventKind::OutcomePanicked { policy } => self.outcome_panicked(policy),
            EventKind::OutgoingClosed { policy, length, is_capped } => {
                self.outgoing.closed(policy, length, is_capped);
            }
            EventKind::OutgoingHintIgnored { policy, header } => self.outgoing.hint_ignored(policy, header),
            EventKind::OutgoingNotShared { policy } => self.outgoing.not_shared(policy),
            EventKind::Shed { class, limit, is_shadow, .. } => self.shed(class, limit, is_shadow),
            // Logged where they happen: no layer emits them.
            EventKind::RulesReloaded { .. }
            | EventKind::RulesRejected { .. }
            | EventKind::StoreFailed { is_new: false, .. }
            | EventKind::Admitted { .. }
            | EventKind::Rejected { .. }
            | EventKind::Exempt { .. }
            | EventKind::Skipped
            | EventKind::Waited { .. }
            | EventKind::Preflight { .. }
            | EventKind::Charged { .. }
            | EventKind::ChargedMore { .. }
            | EventKind::ChargeDenied { .. }
            | EventKind::PermitAcquired { .. }
            | EventKind::PermitReleased { .. }
            | EventKind::Refunded { .. } => {}
        }
    }
}

impl EventLog {
    fn store_overloaded(&self, error: &StoreError) {
        if let Some(checks) = self.store_overloaded.due() {
            tracing::warn!(
                %error,
                checks,
                "the store of the rate limiter is overloaded: requests are rejected with 503; counted since the last \
                 such line"
            );
        }
    }

    fn misconfigured(&self, error: &KeyError) {
        if let Some(requests) = self.misconfigured.due() {
            tracing::error!(
                %error,
                requests,
                "the rate limiter cannot decide requests, and rejects them; counted since the last such line"
            );
        }
    }

    fn identity_missing(&self, policy: &PolicyName, on_missing: OnMissing) {
        if let Some(requests) = self.missing.due() {
            tracing::warn!(
                %policy,
                ?on_missing,
                requests,
                "requests have no identity; counted since the last such line"
            );
        }
    }

    fn identity_malformed(&self, policy: &PolicyName, error: &KeyError) {
        if let Some(requests) = self.malformed.due() {
            tracing::warn!(
                %policy,
                %error,
                requests,
                "requests have a malformed identity, the latest with this error; counted since the last such line"
            );
        }
    }

    fn lookup_failed(&self, policy: &PolicyName, error: &KeyError) {
        if let Some(lookups) = self.lookup_failed.due() {
            tracing::warn!(
                %policy,
                %error,
                lookups,
                "look-ups fail, and requests are rejected with 503 unless the policy is a shadow policy; counted since \
                 the last such line"
            );
        }
    }

    fn refund_dropped(&self) {
        if let Some(requests) = self.refund_dropped.due() {
            tracing::warn!(
                requests,
                "requests whose clients have disconnected stay charged, because too many refunds are in progress or \
                 there is no runtime; counted since the last such line"
            );
        }
    }

    fn debt_exceeded(&self, policy: &PolicyName, uncharged: u64) {
        if let Some(settlements) = self.debt_exceeded.due() {
            tracing::warn!(
                %policy,
                uncharged,
                settlements,
                "settlements exceed the debt that a policy allows, the latest by this number of units, which stay \
                 uncharged; counted since the last such line"
            );
        }
    }

    fn settlement_lost(&self, policy: &PolicyName, units: u64, cause: SettlementLoss) {
        if let Some(settlements) = self.settlement_lost.due() {
            tracing::warn!(
                %policy,
                units,
                %cause,
                settlements,
                "settlements of reservations are given up, the latest of this number of units for this cause; counted \
                 since the last such line"
            );
        }
    }

    fn too_many_wait(&self) {
        if let Some(requests) = self.too_many_wait.due() {
            tracing::warn!(
                requests,
                "too many requests wait for a slot, a look-up or the inner service: more of them are rejected with 503; \
                 counted since the last such line"
            );
        }
    }

    fn not_ready(&self) {
        if let Some(requests) = self.not_ready.due() {
            tracing::warn!(
                requests,
                "the inner service is not ready for requests that have waited, and they are rejected with 503; counted \
                 since the last such line"
            );
        }
    }

    fn charge_dropped(&self) {
        if let Some(requests) = self.charge_dropped.due() {
            tracing::warn!(
                requests,
                "requests that were to be charged by their outcome stay uncharged, because there is no runtime; counted since \
                 the last such line"
            );
        }
    }

    fn too_many_unsettled(&self, policy: &PolicyName) {
        if let Some(requests) = self.too_many_unsettled.due() {
            tracing::warn!(
                %policy,
                requests,
                "too many requests with one key, or in all, have no outcome yet: more of them are rejected with 429; counted \
                 since the last such line"
            );
        }
    }

    fn outcome_panicked(&self, policy: &PolicyName) {
        if let Some(requests) = self.outcome_panicked.due() {
            tracing::error!(
                %policy,
                requests,
                "the closure that charges by outcome has panicked, and requests stay charged; counted since the last such line"
            );
        }
    }

    fn permit_lapsed(&self, policy: &PolicyName) {
        if let Some(requests) = self.permit_lapsed.due() {
            tracing::warn!(
                %policy,
                requests,
                "the leases of requests in flight could not be renewed in time: the store counts these requests no longer; counted \
                 since the last such line"
            );
        }
    }

    fn locked_out(&self, policy: &PolicyName, block: Block) {
        if let Some(keys) = self.locked_out.due() {
            tracing::warn!(
                %policy,
                length = ?block.length(),
                keys,
                "clients go on after their rejections and are locked out, the latest under this policy for this time; counted \
                 since the last such line"
            );
        }
    }

    fn upgrade_released(&self, policy: &PolicyName) {
        if let Some(connections) = self.upgrade_released.due() {
            tracing::warn!(
                %policy,
                connections,
                "upgraded connections are not counted as in flight, because nothing keeps the permit of their request: move \
                 `charge.take_permit()` into the task that uses the connection; counted since the last such line"
            );
        }
    }

    fn charged_twice(&self, policy: &PolicyName) {
        if let Some(seen) = self.charged_twice.due() {
            tracing::warn!(
                seen,
                %policy,
                "one request is charged twice: two layers with this policy are inside each other; remove one of them"
            );
        }
    }

    fn soft_limit_reached(&self, policy: &PolicyName) {
        if let Some(requests) = self.soft_limit.due() {
            tracing::info!(
                %policy,
                requests,
                "requests come near a limit, the latest near that of this policy; counted since the last such line"
            );
        }
    }

    fn shadow_would_reject(&self, policy: &PolicyName) {
        tracing::debug!(%policy, "a shadow policy would have rejected this request");
        if let Some(requests) = self.shadow.due() {
            tracing::info!(
                %policy,
                requests,
                "shadow policies would have rejected requests, this one the latest; counted since the last such line"
            );
        }
    }

    fn shed(&self, class: Class, limit: u32, is_shadow: bool) {
        let throttle = if is_shadow { &self.shadow_shed } else { &self.shed };
        let (Some(requests), class) = (throttle.due(), class.as_str()) else { return };
        if is_shadow {
            tracing::info!(
                class,
                limit,
                requests,
                "the service is overloaded, and requests would be rejected, the latest of this class at this limit; counted since \
                 the last such line"
            );
        } else {
            tracing::warn!(
                class,
                limit,
                requests,
                "the service is overloaded, and requests are rejected with 503, the latest of this class at this limit; counted \
                 since the last such line"
            );
        }
    }

    fn denied(&self) {
        if let Some(requests) = self.denied.due() {
            tracing::info!(
                requests,
                "requests are rejected with 403, because a list of the rate limiter denies them; counted since the last \
                 such line"
            );
        }
    }

    fn shadow_unidentified(&self, policy: &PolicyName, error: &KeyError) {
        if let Some(requests) = self.shadow_unidentified.due() {
            tracing::warn!(
                %policy,
                %error,
                requests,
                "a shadow policy would have rejected requests whose identity it cannot determine; counted since the \
                 last such line"
            );
        }
    }
}

impl Default for EventLog {
    fn default() -> Self {
        Self {
            store_overloaded: LogThrottle::per_minute(),
            misconfigured: LogThrottle::hourly(),
            missing: LogThrottle::per_minute(),
            malformed: LogThrottle::per_minute(),
            lookup_failed: LogThrottle::per_minute(),
            refund_dropped: LogThrottle::per_minute(),
            debt_exceeded: LogThrottle::per_minute(),
            settlement_lost: LogThrottle::per_minute(),
            too_many_wait: LogThrottle::per_minute(),
            not_ready: LogThrottle::per_minute(),
            permit_lapsed: LogThrottle::per_minute(),
            upgrade_released: LogThrottle::hourly(),
            charged_twice: LogThrottle::hourly(),
            soft_limit: LogThrottle::per_minute(),
            shadow: LogThrottle::per_minute(),
            shadow_unidentified: LogThrottle::per_minute(),
            denied: LogThrottle::per_minute(),
            charge_dropped: LogThrottle::per_minute(),
            too_many_unsettled: LogThrottle::per_minute(),
            outcome_panicked: LogThrottle::per_minute(),
            quotas: QuotaLog::default(),
            locked_out: LogThrottle::per_minute(),
            outgoing: OutgoingLog::default(),
            shed: LogThrottle::per_minute(),
            shadow_shed: LogThrottle::per_minute(),
        }
    }
}

#[cfg(test)]
mod tests;
