//! JSON.

use serde_json::{Value, json};

use super::{Report, calendar};

pub(super) fn report(report: &Report<'_>) -> Value {
    let counts = report.counts;
    let at = |micros: u64| calendar::text(micros / 1_000_000);
    let rules = counts.rules.iter().enumerate().map(|(index, rule)| {
        json!({
            "rule": rule.name,
            "requests": rule.requests,
            "rejected": rule.rejected,
            "shadow": rule.shadow,
            "callers": counts.callers.len(index),
            "peak_per_second": rule.peak.highest,
            "peak_rejected_per_second": rule.peak_rejected.highest,
        })
    });
    let callers = counts.callers.top(report.top).into_iter().map(
        |(rule, caller, rejected)| json!({ "rule": counts.rules[rule].name, "caller": caller, "rejected": rejected }),
    );
    let seconds = counts.series.seconds();
    let times = counts.series.buckets().iter().map(|bucket| {
        json!({
            "time": calendar::text(bucket.index * seconds),
            "requests": bucket.requests,
            "rejected": bucket.rejected,
        })
    });
    let suggestions = report.suggestions.iter().flat_map(|(_, suggestions)| suggestions).map(|one| {
        json!({
            "policy": one.policy,
            "now": one.current,
            "now_share": one.current_share,
            "suggestion": one.quota,
            "share": one.share,
            "requests": one.requests,
            "keys": one.keys,
            "one_in": one.one_in,
        })
    });
    json!({
        "requests": counts.requests,
        "rejected": counts.rejected,
        "waited": counts.waited,
        "unusable": counts.unusable,
        "first": counts.span.map(|(first, _)| at(first)),
        "last": counts.span.map(|(_, last)| at(last)),
        "peak_per_second": counts.peak.highest,
        "rules": rules.collect::<Vec<_>>(),
        "callers": callers.collect::<Vec<_>>(),
        "callers_error": counts.callers.error(),
        "seconds_per_time": seconds,
        "times": times.collect::<Vec<_>>(),
        "suggestions": suggestions.collect::<Vec<_>>(),
    })
}
