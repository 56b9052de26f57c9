//! Records what was decided about a request in its span.

use portcullis_core::{Decision, PolicyName};
use tracing::Span;

use super::{Event, EventKind, Observer, Uncounted};
use crate::{Mode, OnMissing};

/// Records what is decided about a request in the current span of `tracing`, usually that of the request. An
/// [`Observer`] that `Limiter::observe` adds once.
///
/// It records the fields that the span declares, and no others:
///
/// | field | value |
/// |---|---|
/// | `rate_limit.outcome` | `admitted`, `degraded` (admitted or decided without the store), `rejected`, `would_reject`, `exempt` or `skipped` |
/// | `rate_limit.policy` | the name of the decisive policy: the denial with the longest wait, or the least remaining |
/// | `rate_limit.remaining` | the units that remain under it |
/// | `rate_limit.reason` | why the request is rejected, such as `limited`, `blocked` or `store_failed`; see [`Reason::name`](crate::Reason::name) |
/// | `rate_limit.would_reject` | the name of a shadow policy (`Limit::shadow`) that would have rejected the request |
///
/// The outcome is that of the enforced policies of the layer, or that of its shadow policies if it has no others: `admitted`,
/// `degraded` or `would_reject`. It is `exempt` if a policy does not count the request, and `skipped` if the layer does not limit
/// it, or its limiter or all its policies are off. Where none of these applies, as for a request in whose head shadow policies find
/// no key, nothing is recorded.
///
/// Each decision in a span is recorded, so the last one stays: that of the innermost of nested layers, or of a handler's
/// `Check`. No field contains an identity. Without a subscriber, without a span, or without these fields nothing
/// is recorded; a limiter without this observer does not look for a span.
///
/// ```
/// use portcullis::Limiter;
/// use portcullis::event::SpanFields;
///
/// let limiter = Limiter::memory().observe(SpanFields::new());
///
/// // The span of a request, as a layer such as `tower_http::trace::TraceLayer` makes it.
/// let span = tracing::info_span!(
///     "request",
///     rate_limit.outcome = tracing::field::Empty,
///     rate_limit.policy = tracing::field::Empty,
///     rate_limit.remaining = tracing::field::Empty,
/// );
/// # assert!(span.is_none(), "there is no subscriber");
/// # drop(limiter);
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct SpanFields;

/// What is recorded.
#[derive(Default)]
struct Record<'a> {
    outcome: Option<&'static str>,
    policy: Option<&'a PolicyName>,
    remaining: Option<u64>,
    reason: Option<&'static str>,
    would_reject: Option<&'a PolicyName>,
}

impl SpanFields {
    /// Makes the observer.
    pub const fn new() -> Self {
        Self
    }
}

impl Observer for SpanFields {
    fn on_event(&self, event: &Event<'_>) {
        if !tracing::dispatcher::has_been_set() {
            return;
        }
        if let Some(record) = Record::of(event) {
            record.write(&Span::current());
        }
    }
}

impl<'a> Record<'a> {
    /// Returns `None` for events that decide nothing about a request.
    fn of(event: &Event<'a>) -> Option<Self> {
        Some(match event.kind {
            EventKind::Admitted { decisions: [] } => Self::of_uncounted(event)?,
            EventKind::Admitted { decisions } => Self::of_admission(Decision::decisive(decisions)?),
            EventKind::Rejected { reason, decisions } => {
                let decided = Decision::decisive(decisions);
                let decided = decided.map(|decision| Self::of_decision("rejected", decision));
                Self { outcome: Some("rejected"), reason: Some(reason.name()), ..decided.unwrap_or_default() }
            }
            EventKind::ShadowWouldReject { decision } => {
                let is_shadow = event.policies.0.iter().all(|own| own.mode != Mode::Enforce);
                let own = is_shadow.then(|| Self::of_decision("would_reject", decision));
                Self { would_reject: Some(decision.policy()), ..own.unwrap_or_default() }
            }
            EventKind::Exempt { policy }
            | EventKind::IdentityMissing { policy, on_missing: OnMissing::Exempt } => {
                Self { outcome: Some("exempt"), policy: Some(policy), ..Self::default() }
            }
            EventKind::Skipped | EventKind::Preflight { is_counted: false } => Self::skipped(),
            _ => return None,
        })
    }

    /// The record of a request that no enforced policy counts. What is recorded for another reason stays: that it is exempt, or would be
    /// rejected.
    fn of_uncounted(event: &Event<'a>) -> Option<Self> {
        let policies = event.policies.0;
        match event.uncounted {
            Uncounted::Off => Some(Self::skipped()),
            Uncounted::Shadows(_) if policies.is_empty() => Some(Self::skipped()),
            Uncounted::Shadows(_) if policies.iter().any(|own| own.mode == Mode::Enforce) => None,
            Uncounted::Shadows(own) if own.iter().all(Decision::is_allowed) => {
                Decision::decisive(own).map(Self::of_admission)
            }
            Uncounted::None | Uncounted::Shadows(_) => None,
        }
    }

    fn skipped() -> Self {
        Self { outcome: Some("skipped"), ..Self::default() }
    }

    fn of_admission(decision: &'a Decision) -> Self {
        Self::of_decision(if decision.is_degraded() { "degraded" } else { "admitted" }, decision)
    }

    fn of_decision(outcome: &'static str, decision: &'a Decision) -> Self {
        let (policy, remaining) = (Some(decision.policy()), Some(decision.remaining()));
        Self { outcome: Some(outcome), policy, remaining, ..Self::default() }
    }

    /// Records the fields that the span has.
    fn write(&self, span: &Span) {
        let texts = [
            ("rate_limit.outcome", self.outcome),
            ("rate_limit.policy", self.policy.map(PolicyName::as_str)),
            ("rate_limit.reason", self.reason),
            ("rate_limit.would_reject", self.would_reject.map(PolicyName::as_str)),
        ];
        for (field, text) in texts {
            if let Some(text) = text {
                span.record(field, text);
            }
        }
        if let Some(remaining) = self.remaining {
            // Signed, because subscribers for OpenTelemetry have no unsigned numbers and record texts instead.
            span.record("rate_limit.remaining", i64::try_from(remaining).unwrap_or(i64::MAX));
        }
    }
}
