//! All metrics of layers: names, types, labels, units and meanings.

use metrics::Unit;

use crate::labels::{
    CallEnd, DecisionOutcome, Dropped, IdentityError, Labels as _, Loss, Overload, Permit, Reload,
    RequestOutcome, ShedClass, StoreFailure, Warning, WouldReject,
};

/// A metric: what it is called, and what it means.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Metric {
    /// The name.
    pub name: &'static str,
    /// The type.
    pub kind: MetricKind,
    /// The names of the labels.
    pub labels: &'static [&'static str],
    /// The unit; `None` where things are counted.
    pub unit: Option<Unit>,
    /// The meaning: a sentence.
    pub help: &'static str,
}

/// The type of a [`Metric`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MetricKind {
    /// A total since the start of the process.
    Counter,
    /// A value at the present instant.
    Gauge,
    /// A distribution. Give its buckets to the exporter.
    Histogram,
}

impl MetricKind {
    /// `counter`, `gauge` or `histogram`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// Upper bounds of buckets for `portcullis_store_call_duration_seconds`, in seconds: from 250 µs to 2.5 s.
pub const CALL_BUCKETS: [f64; 13] =
    [0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5];
/// Upper bounds of buckets for `portcullis_store_call_decisions`: powers of two, up to 1 024.
pub const DECISIONS_BUCKETS: [f64; 11] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1_024.0];
/// Upper bounds of buckets for `portcullis_wait_seconds`, in seconds: from 10 ms to one minute.
pub const WAIT_BUCKETS: [f64; 12] = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

pub(crate) const REQUESTS: &str = "portcullis_requests_total";
pub(crate) const SKIPPED: &str = "portcullis_skipped_total";
pub(crate) const PREFLIGHTS: &str = "portcullis_preflights_total";
pub(crate) const UNANSWERED: &str = "portcullis_unanswered_total";
pub(crate) const OUTAGES: &str = "portcullis_outages_total";
pub(crate) const RECOVERIES: &str = "portcullis_recoveries_total";
pub(crate) const OVERLOADS: &str = "portcullis_overloads_total";
pub(crate) const DROPPED_CORRECTIONS: &str = "portcullis_dropped_corrections_total";
pub(crate) const RULES_RELOADS: &str = "portcullis_rules_reloads_total";
pub(crate) const RULES_GENERATION: &str = "portcullis_rules_generation";
pub(crate) const WAITING_REQUESTS: &str = "portcullis_waiting_requests";
pub(crate) const LOOKUP_HITS: &str = "portcullis_lookup_hits_total";
pub(crate) const LOOKUPS: &str = "portcullis_lookups_total";
pub(crate) const LOOKUPS_JOINED: &str = "portcullis_lookups_joined_total";
pub(crate) const LOOKUPS_FAILED: &str = "portcullis_lookups_failed_total";
pub(crate) const LOOKUPS_TIMED_OUT: &str = "portcullis_lookups_timed_out_total";
pub(crate) const LOOKUP_ENTRIES: &str = "portcullis_lookup_entries";
pub(crate) const SHED: &str = "portcullis_shed_total";
pub(crate) const WOULD_SHED: &str = "portcullis_would_shed_total";
pub(crate) const SHED_LIMIT: &str = "portcullis_shed_limit";
pub(crate) const SHED_IN_FLIGHT: &str = "portcullis_shed_in_flight";
pub(crate) const DECISIONS: &str = "portcullis_decisions_total";
pub(crate) const CHARGED_UNITS: &str = "portcullis_charged_units_total";
pub(crate) const REFUNDED_UNITS: &str = "portcullis_refunded_units_total";
pub(crate) const DENIED_CHARGES: &str = "portcullis_denied_charges_total";
pub(crate) const UNCHARGED_UNITS: &str = "portcullis_uncharged_units_total";
pub(crate) const WOULD_REJECT: &str = "portcullis_would_reject_total";
pub(crate) const SOFT_LIMIT: &str = "portcullis_soft_limit_total";
pub(crate) const EXEMPT: &str = "portcullis_exempt_total";
pub(crate) const IDENTITY_ERRORS: &str = "portcullis_identity_errors_total";
pub(crate) const LOCK_OUTS: &str = "portcullis_lock_outs_total";
pub(crate) const PERMITS: &str = "portcullis_permits_total";
pub(crate) const SETTLEMENTS_LOST: &str = "portcullis_settlements_lost_total";
pub(crate) const SETTLEMENT_UNITS_LOST: &str = "portcullis_settlement_units_lost_total";
pub(crate) const WARNINGS: &str = "portcullis_warnings_total";
pub(crate) const WAITS: &str = "portcullis_wait_seconds";
pub(crate) const STORE_CALL_DURATION: &str = "portcullis_store_call_duration_seconds";
pub(crate) const STORE_CALL_DECISIONS: &str = "portcullis_store_call_decisions";
pub(crate) const STORE_CALL_ERRORS: &str = "portcullis_store_call_errors_total";

/// What the names of the figures of a store begin with.
pub(crate) const STORE_PREFIX: &str = "portcullis_store_";

const POLICY: &str = "policy";

/// All metrics of layers and of calls to a store's server. Beside them, the store's own figures have names that begin with
/// `portcullis_store_`.
pub const METRICS: &[Metric] = &[
    counter(
        REQUESTS,
        &[RequestOutcome::LABEL],
        "Requests to layers, and checks of handlers, by their outcome: admitted, or the reason of the rejection.",
    ),
    counter(DECISIONS, &[POLICY, DecisionOutcome::LABEL], "Decisions of enforced policies about requests."),
    counter(
        WOULD_REJECT,
        &[POLICY, WouldReject::LABEL],
        "Requests that a shadow policy would have rejected.",
    ),
    counter(CHARGED_UNITS, &[POLICY], "Units that were charged, including those that were refunded later."),
    counter(REFUNDED_UNITS, &[POLICY], "Units that were refunded."),
    counter(DENIED_CHARGES, &[POLICY], "Charges of handlers that a policy has denied."),
    counter(UNCHARGED_UNITS, &[POLICY], "Units of settlements beyond the debt that a policy allows."),
    counter(SOFT_LIMIT, &[POLICY], "Admitted requests with a warning that a limit is near."),
    counter(EXEMPT, &[POLICY], "Requests that a policy does not count, because its extractor exempts them."),
    counter(SKIPPED, &[], "Requests that the lists of a layer exempt."),
    counter(PREFLIGHTS, &[], "Requests that were treated as CORS preflights."),
    counter(
        IDENTITY_ERRORS,
        &[POLICY, IdentityError::LABEL],
        "Requests in which a policy did not find an identity or a quota, by the error.",
    ),
    counter(
        LOCK_OUTS,
        &[POLICY],
        "Lock-outs that have begun, as seen by the process whose report began them.",
    ),
    counter(
        PERMITS,
        &[POLICY, Permit::LABEL],
        "Permits of requests in flight. Acquired minus released and lapsed ones are those that this process holds.",
    ),
    histogram(WAITS, &[POLICY], Some(Unit::Seconds), "Time that requests have waited for their turn."),
    gauge(WAITING_REQUESTS, "Requests that wait now, for their turn or a look-up."),
    counter(LOOKUP_HITS, &[], "Results of look-ups that were taken from a cache."),
    counter(LOOKUPS, &[], "Look-ups that caches have started."),
    counter(LOOKUPS_JOINED, &[], "Requests that joined a look-up of another request."),
    counter(LOOKUPS_FAILED, &[], "Look-ups of caches that ended with an error of the server."),
    counter(LOOKUPS_TIMED_OUT, &[], "Waits for look-ups that the deadline of a layer has ended."),
    gauge(
        LOOKUP_ENTRIES,
        "Results that the caches of look-ups keep, including those that are too old to be used.",
    ),
    counter(
        OVERLOADS,
        &[Overload::LABEL],
        "Requests that were rejected because of an overload, by what is overloaded.",
    ),
    counter(SHED, &[ShedClass::LABEL], "Requests that were rejected because the service is overloaded."),
    counter(WOULD_SHED, &[ShedClass::LABEL], "Requests that a layer in shadow mode would have shed."),
    gauge(SHED_LIMIT, "Requests in flight that the layers against overload allow now."),
    gauge(SHED_IN_FLIGHT, "Requests in flight in the layers against overload."),
    counter(
        SETTLEMENTS_LOST,
        &[POLICY, Loss::LABEL],
        "Settlements and releases of permits that were given up.",
    ),
    counter(SETTLEMENT_UNITS_LOST, &[POLICY], "Units that lost settlements would have refunded or charged."),
    counter(
        DROPPED_CORRECTIONS,
        &[Dropped::LABEL],
        "Refunds and charges after a request that were not made, because there is no runtime or too many are in progress.",
    ),
    counter(
        WARNINGS,
        &[POLICY, Warning::LABEL],
        "Rare events that an operator should look at, by the event.",
    ),
    counter(
        UNANSWERED,
        &[StoreFailure::LABEL],
        "Calls of layers that the store did not answer, by the kind of its error.",
    ),
    counter(OUTAGES, &[], "Outages of the store that a layer has seen begin."),
    counter(RECOVERIES, &[], "Outages of the store that a layer has seen end."),
    histogram(
        STORE_CALL_DURATION,
        &[CallEnd::LABEL],
        Some(Unit::Seconds),
        "Duration of calls to the server of the store.",
    ),
    histogram(STORE_CALL_DECISIONS, &[], None, "Decisions in one call to the server of the store."),
    counter(
        STORE_CALL_ERRORS,
        &[StoreFailure::LABEL],
        "Calls to the server of the store that failed, by kind.",
    ),
    counter(RULES_RELOADS, &[Reload::LABEL], "Reloads of rules, by whether the new ones apply."),
    gauge(RULES_GENERATION, "The number of the rules that apply. 0 without rules."),
];

const fn counter(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind: MetricKind::Counter, labels, unit: None, help }
}

const fn gauge(name: &'static str, help: &'static str) -> Metric {
    Metric { name, kind: MetricKind::Gauge, labels: &[], unit: None, help }
}

const fn histogram(
    name: &'static str,
    labels: &'static [&'static str],
    unit: Option<Unit>,
    help: &'static str,
) -> Metric {
    Metric { name, kind: MetricKind::Histogram, labels, unit, help }
}

#[cfg(test)]
mod tests;
