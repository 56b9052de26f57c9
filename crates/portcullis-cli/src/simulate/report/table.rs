//! The lines and the tables that people read, and a report of them for a terminal.

use std::cmp::Reverse;
use std::fmt::Write as _;

use super::{Report, Table, calendar, percent};

/// A table with its title.
pub(super) struct Section {
    pub(super) title: String,
    pub(super) table: Table,
    /// What bounds the figures.
    pub(super) note: Option<String>,
}

impl Report<'_> {
    pub(in crate::simulate) fn table(&self) -> String {
        let mut out = self.summary().join("\n") + "\n";
        for Section { title, table, note } in self.sections() {
            let _ = writeln!(out, "\n{title}");
            table.write(&mut out);
            out.extend(note.map(|note| note + "\n"));
        }
        out
    }

    /// What happened on the whole, in lines.
    pub(super) fn summary(&self) -> Vec<String> {
        let counts = self.counts;
        let mut lines = vec![format!(
            "{} requests, {} rejected ({}), at most {} per second",
            counts.requests,
            counts.rejected,
            percent(counts.rejected, counts.requests),
            counts.peak.highest
        )];
        if let Some((first, last)) = counts.span {
            let at = |micros: u64| calendar::text(micros / 1_000_000);
            lines.push(format!("from {} to {}", at(first), at(last)));
        }
        for (count, what) in
            [(counts.waited, "requests had to wait"), (counts.unusable, "lines are no HTTP request")]
        {
            if count > 0 {
                lines.push(format!("{count} {what}"));
            }
        }
        lines
    }

    /// The tables that have rows.
    pub(super) fn sections(&self) -> Vec<Section> {
        let mut sections = vec![self.rules(), self.callers(), self.busiest()];
        sections.extend(self.quotas());
        sections.retain(|section| !section.table.is_empty());
        sections
    }

    fn rules(&self) -> Section {
        let mut table = Table::new(&["rule", "requests", "rejected", "share", "shadow", "callers", "peak/s"]);
        for (index, rule) in self.counts.rules.iter().enumerate() {
            table.row([
                rule.name.clone(),
                rule.requests.to_string(),
                rule.rejected.to_string(),
                percent(rule.rejected, rule.requests),
                rule.shadow.to_string(),
                self.counts.callers.len(index).to_string(),
                rule.peak.highest.to_string(),
            ]);
        }
        Section { title: "By rule".to_owned(), table, note: None }
    }

    fn callers(&self) -> Section {
        let counts = self.counts;
        let mut table = Table::new(&["caller", "rule", "rejected"]);
        for (rule, caller, rejected) in counts.callers.top(self.top) {
            table.row([caller.to_owned(), counts.rules[rule].name.clone(), rejected.to_string()]);
        }
        let title = "Callers that were rejected most, or would have been in shadow mode".to_owned();
        let error = counts.callers.error();
        let note = (error > 0).then(|| format!("each count may be too low by up to {error}"));
        Section { title, table, note }
    }

    fn busiest(&self) -> Section {
        let series = &self.counts.series;
        let mut buckets: Vec<_> = series.buckets().iter().filter(|bucket| bucket.rejected > 0).collect();
        buckets.sort_by_key(|bucket| (Reverse(bucket.rejected), bucket.index));
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
        let title = format!("Times with the most rejections, in steps of {} s", series.seconds());
        Section { title, table, note: None }
    }

    fn quotas(&self) -> Option<Section> {
        let (share, suggestions) = self.suggestions?;
        let mut table =
            Table::new(&["policy", "now", "rejects", "suggestion", "rejects", "requests", "keys"]);
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
        let title = format!("The smallest quotas that reject at most {} %", 100.0 * share);
        let sampled = suggestions.iter().find(|one| one.one_in > 1);
        let note = sampled.map(|one| format!("from a sample: one of {} keys", one.one_in));
        Some(Section { title, table, note })
    }
}

const MAX_TIMES: usize = 10;
