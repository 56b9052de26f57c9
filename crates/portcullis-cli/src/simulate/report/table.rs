//! A report for a terminal.

use std::fmt::Write as _;

use super::{Report, Table, calendar, percent};

pub(super) fn report(report: &Report<'_>) -> String {
    let counts = report.counts;
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{} requests, {} rejected ({}), at most {} per second",
        counts.requests,
        counts.rejected,
        percent(counts.rejected, counts.requests),
        counts.peak.highest
    );
    if let Some((first, last)) = counts.span {
        let at = |micros: u64| calendar::text(micros / 1_000_000);
        let _ = writeln!(out, "from {} to {}", at(first), at(last));
    }
    for (count, what) in
        [(counts.waited, "requests had to wait"), (counts.unusable, "lines are no HTTP request")]
    {
        if count > 0 {
            let _ = writeln!(out, "{count} {what}");
        }
    }
    rules(report, &mut out);
    callers(report, &mut out);
    busiest(report, &mut out);
    suggestions(report, &mut out);
    out
}

fn rules(report: &Report<'_>, out: &mut String) {
    let mut table = Table::new(&["rule", "requests", "rejected", "share", "shadow", "callers", "peak/s"]);
    for (index, rule) in report.counts.rules.iter().enumerate() {
        table.row([
            rule.name.clone(),
            rule.requests.to_string(),
            rule.rejected.to_string(),
            percent(rule.rejected, rule.requests),
            rule.shadow.to_string(),
            report.counts.callers.len(index).to_string(),
            rule.peak.highest.to_string(),
        ]);
    }
    section(out, "By rule", &table);
}

fn callers(report: &Report<'_>, out: &mut String) {
    let counts = report.counts;
    let mut table = Table::new(&["caller", "rule", "rejected"]);
    for (rule, caller, rejected) in counts.callers.top(report.top) {
        table.row([caller.to_owned(), counts.rules[rule].name.clone(), rejected.to_string()]);
    }
    section(out, "Callers that were rejected most, or would have been in shadow mode", &table);
    if counts.callers.error() > 0 {
        let _ = writeln!(out, "each count may be too low by up to {}", counts.callers.error());
    }
}

fn busiest(report: &Report<'_>, out: &mut String) {
    let series = &report.counts.series;
    let mut buckets: Vec<_> = series.buckets().iter().filter(|bucket| bucket.rejected > 0).collect();
    buckets.sort_by_key(|bucket| (std::cmp::Reverse(bucket.rejected), bucket.index));
    buckets.truncate(MAX_TIMES);
    buckets.sort_by_key(|bucket| bucket.index);
    let mut table = Table::new(&["time", "requests", "rejected", "share"]);
    for bucket in buckets {
        table.row([
            calendar::text(bucket.index * series.seconds()),
            bucket.requests.to_string(),
            bucket.rejected.to_string(),
            percent(bucket.rejected, bucket.requests),
        ]);
    }
    section(out, &format!("Times with the most rejections, in steps of {} s", series.seconds()), &table);
}

fn suggestions(report: &Report<'_>, out: &mut String) {
    let Some((share, suggestions)) = report.suggestions else { return };
    let mut table = Table::new(&["policy", "now", "rejects", "suggestion", "rejects", "requests", "keys"]);
    for one in suggestions {
        let percent = |share: f64| format!("{:.3} %", 100.0 * share);
        table.row([
            one.policy.clone(),
            one.current.clone(),
            percent(one.current_share),
            one.quota.clone().unwrap_or_else(|| "none suffices".to_owned()),
            percent(one.share),
            one.requests.to_string(),
            one.keys.to_string(),
        ]);
    }
    section(out, &format!("The smallest quotas that reject at most {} %", 100.0 * share), &table);
    if let Some(one) = suggestions.iter().find(|one| one.one_in > 1) {
        let _ = writeln!(out, "from a sample: one of {} keys", one.one_in);
    }
}

fn section(out: &mut String, title: &str, table: &Table) {
    if !table.is_empty() {
        let _ = writeln!(out, "\n{title}");
        table.write(out);
    }
}

const MAX_TIMES: usize = 10;
