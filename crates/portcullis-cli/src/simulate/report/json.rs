//! JSON.

use serde_json::{Value, json};

use super::{Report, calendar};

impl Report<'_> {
    pub(in crate::simulate) fn json(&self) -> Value {
        let counts = self.counts;
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
        let callers = counts.callers.top(self.top).into_iter().map(
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
        let suggestions = self.suggestions.map_or(&[][..], |(_, suggestions)| suggestions);
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
            "suggestions": suggestions,
        })
    }
}
