//! The log of a layer: transitions, and throttled lines about requests, never one per request.

use super::{Event, EventKind, Observer};
use crate::Reason;
use crate::log_throttle::LogThrottle;

/// Makes [`EventLog`] of its lines: `name: period level pattern => [fields] "message";`. The last field is the number of events since
/// the last such line.
macro_rules! log_lines {
    ($($name:ident: $period:ident $level:ident $event:pat => [$($field:tt)*] $count:ident $message:literal;)*) => {
        /// Writes the log lines of a layer.
        #[derive(Debug)]
        pub struct EventLog {
            $($name: LogThrottle,)*
        }

        impl Default for EventLog {
            fn default() -> Self {
                Self { $($name: LogThrottle::$period(),)* }
            }
        }

        impl EventLog {
            /// Writes the throttled line about an event, if one is due.
            fn count(&self, event: EventKind<'_>) {
                match event {
                    $($event => {
                        if let Some($count) = self.$name.due() {
                            tracing::$level!($($field)* $count, concat!($message, "; counted since the last such line"));
                        }
                    })*
                    _ => {}
                }
            }
        }
    };
}

log_lines! {
    store_overloaded: per_minute warn EventKind::StoreOverloaded { error } => [%error,]
        checks "the store of the rate limiter is overloaded: requests are rejected with 503";
    misconfigured: hourly error EventKind::Misconfigured { error } => [%error,]
        requests "the rate limiter cannot decide requests, and rejects them";
    missing: per_minute warn EventKind::IdentityMissing { policy, on_missing } => [%policy, ?on_missing,]
        requests "requests have no identity";
    malformed: per_minute warn EventKind::IdentityMalformed { policy, error } => [%policy, %error,]
        requests "requests have a malformed identity, the latest with this error";
    lookup_failed: per_minute warn EventKind::LookupFailed { policy, error } => [%policy, %error,]
        lookups "look-ups fail, and requests are rejected with 503 unless the policy is a shadow policy";
    quota_refused: per_minute warn EventKind::QuotaRefused { policy, quota, error } => [%policy, %quota, %error,]
        requests "callers have quotas that their policy does not use, the latest this one, and get the quota of the policy";
    quota_lookup_failed: per_minute warn EventKind::QuotaLookupFailed { policy, error } => [%policy, %error,]
        requests "look-ups of quotas fail, and their callers get the quota of the policy";
    refund_dropped: per_minute warn EventKind::RefundDropped => []
        requests "requests whose clients have disconnected stay charged, because too many refunds are in progress or there is no runtime";
    debt_exceeded: per_minute warn EventKind::DebtExceeded { policy, uncharged } => [%policy, uncharged,]
        settlements "settlements exceed the debt that a policy allows, the latest by this number of units, which stay uncharged";
    settlement_lost: per_minute warn EventKind::SettlementLost { policy, reserved, used, cause } =>
        [%policy, units = reserved.abs_diff(used), %cause,]
        settlements "settlements of reservations are given up, the latest of this number of units for this cause";
    too_many_wait: per_minute warn EventKind::TooManyWaiting => []
        requests "too many requests wait for a slot, a look-up or the inner service: more of them are rejected with 503";
    not_ready: per_minute warn EventKind::NotReady => []
        requests "the inner service is not ready for requests that have waited, and they are rejected with 503";
    permit_lapsed: per_minute warn EventKind::PermitLapsed { policy } => [%policy,]
        requests "the leases of requests in flight could not be renewed in time: the store counts these requests no longer";
    upgrade_released: hourly warn EventKind::UpgradeReleased { policy } => [%policy,]
        connections "upgraded connections are not counted as in flight, because nothing keeps the permit of their request: move \
            `charge.take_permit()` into the task that uses the connection";
    charged_twice: hourly warn EventKind::ChargedTwice { policy } => [%policy,]
        seen "one request is charged twice: two layers with this policy are inside each other; remove one of them";
    soft_limit: per_minute info EventKind::SoftLimitReached { decision } => [policy = %decision.policy(),]
        requests "requests come near a limit, the latest near that of this policy";
    shadow: per_minute info EventKind::ShadowWouldReject { decision } => [policy = %decision.policy(),]
        requests "shadow policies would have rejected requests, this one the latest";
    shadow_unidentified: per_minute warn EventKind::ShadowUnidentified { policy, error } => [%policy, %error,]
        requests "a shadow policy would have rejected requests whose identity it cannot determine";
    denied: per_minute info EventKind::Rejected { reason: Reason::Denied, .. } => []
        requests "requests are rejected with 403, because a list of the rate limiter denies them";
    charge_dropped: per_minute warn EventKind::ChargeDropped => []
        requests "requests that were to be charged by their outcome stay uncharged, because there is no runtime";
    too_many_unsettled: per_minute warn EventKind::TooManyUnsettled { policy } => [%policy,]
        requests "too many requests with one key, or in all, have no outcome yet: more of them are rejected with 429";
    outcome_panicked: per_minute error EventKind::OutcomePanicked { policy } => [%policy,]
        requests "the closure that charges by outcome has panicked, and requests stay charged";
    locked_out: per_minute warn EventKind::LockedOut { policy, block } => [%policy, length = ?block.length(),]
        keys "clients go on after their rejections and are locked out, the latest under this policy for this time";
    outgoing_closed: per_minute warn EventKind::OutgoingClosed { policy, length, is_capped } => [%policy, ?length, is_capped,]
        answers "servers refuse outgoing requests, the latest under this policy for this time: compare the policy with what the server \
            allows";
    outgoing_hint_ignored: per_minute warn EventKind::OutgoingHintIgnored { policy, header } => [%policy, header,]
        answers "answers to outgoing requests have headers that cannot be used, and that are ignored, the latest this one";
    outgoing_not_shared: per_minute warn EventKind::OutgoingNotShared { policy } => [%policy,]
        keys "keys of outgoing requests are closed in this process alone, because the store could not be told";
    shadow_shed: per_minute info EventKind::Shed { class, limit, is_shadow: true, .. } => [class = class.as_str(), limit,]
        requests "the service is overloaded, and requests would be rejected, the latest of this class at this limit";
    shed: per_minute warn EventKind::Shed { class, limit, .. } => [class = class.as_str(), limit,]
        requests "the service is overloaded, and requests are rejected with 503, the latest of this class at this limit";
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
            EventKind::ShadowWouldReject { decision } => {
                tracing::debug!(policy = %decision.policy(), "a shadow policy would have rejected this request");
            }
            _ => {}
        }
        self.count(event.kind);
    }
}
