//! Tables for a terminal.

use std::fmt::Write as _;

use super::{Report, calendar, percent};

/// A table whose columns are aligned: the first to the left, the others to the right.
#[derive(Debug, Default)]
pub(crate) struct Table(Vec<Vec<String>>);

impl Table {
    pub(crate) fn new(head: &[&str]) -> Self {
        Self(vec![head.iter().map(|&cell| cell.to_owned()).collect()])
    }

    /// Adds a row. What a log contains is shown without control characters, which a terminal would obey.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.0.push(cells.into_iter().map(|cell| printable(&cell)).collect());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.len() < 2
    }

    pub(crate) fn write(&self, out: &mut String) {
        let columns = self.0.first().map_or(0, Vec::len);
        let width = |column: usize| {
            self.0
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<_> = (0..columns).map(width).collect();
        for row in &self.0 {
            let mut line = String::new();
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                let _ = if column == 0 {
                    write!(line, "{cell:width$}")
                } else {
                    write!(line, "  {cell:>width$}")
                };
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
    }
}

fn printable(text: &str) -> String {
    let mut shown = String::new();
    for (index, character) in text.chars().enumerate() {
        match character {
            _ if index >= MAX_CELL => return shown + "…",
            // Control characters, and those that change the direction of the text.
            '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                shown.extend(character.escape_unicode());
            }
            _ if character.is_control() => shown.extend(character.escape_unicode()),
            _ => shown.push(character),
        }
    }
    shown
}

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
const MAX_CELL: usize = 80;
