//! The log of a layer: counted lines about requests, and for those who ask for them, lines about single requests.

use std::time::Duration;

use portcullis_core::{Decision, Retry};
use portcullis_log::{LogThrottle, UnsaidLines, codes};
use tracing::Level;

use super::kind::{LOG_TARGET, logs_decisions, logs_rejections};
use super::{Event, EventKind};
use crate::Reason;

/// Makes [`CountedEvents`] of its lines: `name: period level = CODE pattern => (texts) [fields] count "message";`. A line may be written after
/// its event, so what the fields borrow of it is made a text in the parentheses. `sum name = units` adds up units of the events.
macro_rules! log_lines {
    ($($name:ident: $period:ident $level:ident $(= $code:ident)? $event:pat => ($($text:ident $(= $value:expr)?),*)
        $(sum $sum:ident = $units:expr,)? [$($field:tt)*] $count:ident $message:literal;)*) => {
        /// The counted lines of a layer.
        #[derive(Debug)]
        struct CountedEvents {
            $($name: LogThrottle,)*
        }

        impl Default for CountedEvents {
            fn default() -> Self {
                Self { $($name: LogThrottle::$period(),)* }
            }
        }

        impl CountedEvents {
            /// Counts an event, and writes its line if one is due.
            fn count(&self, event: EventKind<'_>, unsaid: &UnsaidLines) {
                match event {
                    $($event => if tracing::enabled!(target: LOG_TARGET, Level::$level) {
                        let units = 0 $(+ $units)?;
                        self.$name.count(units, Some(unsaid), || {
                            $($(let $text = $value;)? let $text = $text.to_string();)*
                            move |counted| {
                                $(let $sum = counted.units;)?
                                let $count = counted.events;
                                tracing::event!(
                                    Level::$level,
                                    $(code = %codes::$code,)?
                                    $($field)*
                                    $count,
                                    concat!($message, "; counted since the last such line")
                                );
                            }
                        });
                    })*
                    _ => {}
                }
            }
        }
    };
}

log_lines! {
    store_overloaded: per_minute WARN = STORE_OVERLOADED EventKind::StoreOverloaded { error } => (error) [%error,]
        checks "the store of the rate limiter is overloaded: requests are rejected with 503";
    misconfigured: hourly ERROR = CANNOT_DECIDE EventKind::Misconfigured { error } => (error) [%error,]
        requests "the rate limiter cannot decide requests, and rejects them";
    missing: per_minute WARN = IDENTITY_MISSING EventKind::IdentityMissing { policy, on_missing } => (policy) [%policy, ?on_missing,]
        requests "requests have no identity";
    malformed: per_minute WARN = IDENTITY_MALFORMED EventKind::IdentityMalformed { policy, error } => (policy, error) [%policy, %error,]
        requests "requests have a malformed identity, one of them with this error";
    lookup_failed: per_minute WARN = LOOKUP_FAILED EventKind::LookupFailed { policy, error } => (policy, error) [%policy, %error,]
        lookups "look-ups fail, and requests are rejected with 503 unless the policy is a shadow policy";
    quota_refused: per_minute WARN = QUOTA_REFUSED EventKind::QuotaRefused { policy, quota, error } => (policy, quota, error)
        [%policy, %quota, %error,]
        requests "callers have quotas that their policy does not use, such as this one, and get the quota of the policy";
    quota_lookup_failed: per_minute WARN = QUOTA_LOOKUP_FAILED EventKind::QuotaLookupFailed { policy, error } =>
        (policy, error) [%policy, %error,]
        requests "look-ups of quotas fail, and their callers get the quota of the policy";
    refund_dropped: per_minute WARN = REFUND_DROPPED EventKind::RefundDropped => () []
        requests "requests whose clients have disconnected stay charged, because too many refunds are in progress or there is no runtime";
    debt_exceeded: per_minute WARN = DEBT_EXCEEDED EventKind::DebtExceeded { policy, uncharged } => (policy) sum uncharged = uncharged,
        [%policy, uncharged,]
        settlements "settlements exceed the debt that a policy allows, one of them under this policy, and these units of all of them \
            stay uncharged";
    settlement_lost: per_minute WARN = SETTLEMENT_LOST EventKind::SettlementLost { policy, reserved, used, cause } => (policy)
        sum units = reserved.abs_diff(used), [%policy, units, %cause,]
        settlements "settlements of reservations are given up, one of them under this policy for this cause, with these units in all";
    usage_lost: per_minute WARN = USAGE_LOST EventKind::UsageLost { policy, cause } => (policy) [%policy, %cause,]
        responses "the usage of responses is not known, one of them under this policy for this cause, and their reservations stay charged";
    too_many_wait: per_minute WARN = TOO_MANY_WAITING EventKind::TooManyWaiting => () []
        requests "too many requests wait for a slot, a look-up or the inner service: more of them are rejected with 503";
    not_ready: per_minute WARN = NOT_READY EventKind::NotReady => () []
        requests "the inner service is not ready for requests that have waited, and they are rejected with 503";
    permit_lapsed: per_minute WARN = PERMIT_LAPSED EventKind::PermitLapsed { policy } => (policy) [%policy,]
        requests "the leases of requests in flight could not be renewed in time: the store counts these requests no longer";
    upgrade_released: hourly WARN = UPGRADE_RELEASED EventKind::UpgradeReleased { policy } => (policy) [%policy,]
        connections "upgraded connections are not counted as in flight, because nothing keeps the permit of their request: \
            move `charge.take_permit()` into the task that uses the connection in code";
    charged_twice: hourly WARN = CHARGED_TWICE EventKind::ChargedTwice { policy } => (policy) [%policy,]
        seen "one request is charged twice: two layers with this policy are inside each other; remove one of them";
    soft_limit: per_minute INFO EventKind::SoftLimitReached { decision } => (policy = decision.policy()) [%policy,]
        requests "requests come near a limit, one of them near that of this policy";
    shadow: per_minute INFO EventKind::ShadowWouldReject { decision } => (policy = decision.policy()) [%policy,]
        requests "shadow policies would have rejected requests, this one some of them";
    shadow_unidentified: per_minute WARN = SHADOW_UNIDENTIFIED EventKind::ShadowUnidentified { policy, error } =>
        (policy, error) [%policy, %error,]
        requests "a shadow policy would have rejected requests whose identity it cannot determine";
    denied: per_minute INFO EventKind::Rejected { reason: Reason::Denied, .. } => () []
        requests "requests are rejected with 403, because a list of the rate limiter denies them";
    charge_dropped: per_minute WARN = CHARGE_DROPPED EventKind::ChargeDropped => () []
        requests "requests that were to be charged by their outcome stay uncharged, because there is no runtime";
    too_many_unsettled: per_minute WARN = TOO_MANY_UNSETTLED EventKind::TooManyUnsettled { policy } => (policy) [%policy,]
        requests "too many requests with one key, or in all, have no outcome yet: more of them are rejected with 429";
    outcome_panicked: per_minute ERROR = OUTCOME_PANICKED EventKind::OutcomePanicked { policy } => (policy) [%policy,]
        requests "the closure that charges by outcome has panicked, and requests stay charged";
    locked_out: per_minute WARN = LOCKED_OUT EventKind::LockedOut { policy, block } => (policy) [%policy, length = ?block.length(),]
        keys "clients go on after their rejections and are locked out, one of them under this policy for this time";
    outgoing_closed: per_minute WARN = OUTGOING_CLOSED EventKind::OutgoingClosed { policy, length, is_capped } => (policy)
        [%policy, ?length, is_capped,]
        answers "servers refuse outgoing requests, one of them under this policy for this time: compare the policy with what the server \
            allows";
    outgoing_hint_ignored: per_minute WARN = OUTGOING_HINT_IGNORED EventKind::OutgoingHintIgnored { policy, header } =>
        (policy, header) [%policy, header,]
        answers "answers to outgoing requests have headers that cannot be used, and that are ignored, such as this one";
    outgoing_not_shared: per_minute WARN = OUTGOING_NOT_SHARED EventKind::OutgoingNotShared { policy } => (policy) [%policy,]
        keys "keys of outgoing requests are closed in this process alone, because the store could not be told";
    shadow_shed: per_minute INFO EventKind::Shed { class, limit, is_shadow: true, .. } => ()
        [class = class.as_str(), limit,]
        requests "the service is overloaded, and requests would be rejected, one of them of this class at this limit";
    shed: per_minute WARN = SHED EventKind::Shed { class, limit, .. } => () [class = class.as_str(), limit,]
        requests "the service is overloaded, and requests are rejected with 503, one of them of this class at this limit";
}

/// Writes the log lines of a layer.
#[derive(Debug)]
pub struct EventLog {
    counted: CountedEvents,
    rejections: LogThrottle,
    tried: LogThrottle,
}

impl Default for EventLog {
    fn default() -> Self {
        let single = || LogThrottle::at_most_per_minute(MAX_SINGLE_LINES);
        Self { counted: CountedEvents::default(), rejections: single(), tried: single() }
    }
}

impl EventLog {
    /// Writes the lines about an event. `unsaid` keeps those that are left at the end of the process.
    pub fn write(&self, event: &Event<'_>, unsaid: &UnsaidLines) {
        if logs_rejections() {
            self.log_rejection(event, unsaid);
        }
        if logs_decisions() {
            log_decisions(event);
        }
        self.counted.count(event.kind, unsaid);
    }

    /// Writes a line about a rejection, or one that a policy would have made that is tried out.
    fn log_rejection(&self, event: &Event<'_>, unsaid: &UnsaidLines) {
        match event.kind {
            EventKind::Rejected { reason, decisions } => self.rejections.count(0, Some(unsaid), || {
                let decided = Decision::decisive(decisions);
                let policy = decided.map_or_else(|| event.policies.joined(), |decision| decision.policy().to_string());
                // Load shedding has no policy.
                let policy = Some(policy).filter(|policy| !policy.is_empty());
                let (route, wait) = (event.route(), decided.and_then(wait));
                move |counted| {
                    let (route, policy, reason) = (route.as_deref(), policy.as_deref(), reason.name());
                    let wait = wait.map(tracing::field::debug);
                    match counted.events {
                        1 => tracing::debug!(route, policy, reason, wait, "a request is rejected"),
                        requests => tracing::debug!(
                            route,
                            policy,
                            reason,
                            wait,
                            requests,
                            "more requests are rejected, one of them like this; counted since the last such line"
                        ),
                    }
                }
            }),
            EventKind::ShadowWouldReject { decision } => self.tried.count(0, Some(unsaid), || {
                let (route, decision) = (event.route(), decision.clone());
                move |counted| {
                    let (route, policy) = (route.as_deref(), decision.policy());
                    let wait = wait(&decision).map(tracing::field::debug);
                    match counted.events {
                        1 => tracing::debug!(
                            route,
                            %policy,
                            wait,
                            "a shadow policy would have rejected this request"
                        ),
                        requests => tracing::debug!(
                            route,
                            %policy,
                            wait,
                            requests,
                            "shadow policies would have rejected more requests, one of them like this; counted since the last such line"
                        ),
                    }
                }
            }),
            _ => {}
        }
    }

    /// Writes a line about each decision of policies that are tried out and would admit the request.
    pub(crate) fn log_tried(event: &Event<'_>) {
        if let EventKind::Admitted { decisions } = event.kind {
            for decision in decisions.iter().filter(|decision| decision.is_allowed()) {
                log_decision(event, decision, "tried out");
            }
        }
    }
}

/// Writes a line about each decision of an event.
fn log_decisions(event: &Event<'_>) {
    let (decisions, about) = match event.kind {
        EventKind::Admitted { decisions } => (decisions, "admission"),
        EventKind::Rejected { decisions, .. } => (decisions, "rejection"),
        EventKind::ChargedMore { decisions, .. } | EventKind::ChargeDenied { decisions, .. } => {
            (decisions, "further charge")
        }
        EventKind::ShadowWouldReject { decision } => (std::slice::from_ref(decision), "tried out"),
        _ => return,
    };
    for decision in decisions {
        log_decision(event, decision, about);
    }
}

fn log_decision(event: &Event<'_>, decision: &Decision, about: &'static str) {
    let route = event.route();
    tracing::trace!(
        route = route.as_deref(),
        policy = %decision.policy(),
        about,
        is_allowed = decision.is_allowed(),
        is_degraded = decision.is_degraded(),
        limit = decision.limit(),
        remaining = decision.remaining(),
        wait = wait(decision).map(tracing::field::debug),
        "a policy has decided"
    );
}

/// How long a denied request has to wait, if that helps.
fn wait(denied: &Decision) -> Option<Duration> {
    match denied.retry() {
        Some(Retry::After(wait)) => Some(wait),
        _ => None,
    }
}

/// Lines about single requests of one kind, in a minute.
const MAX_SINGLE_LINES: u64 = 100;
