//! The lines and the tables that people read, and a report of them for a terminal.

use std::cmp::Reverse;
use std::fmt::Write as _;

use super::suggest::{self, Abuser};
use super::{Report, Suggestion, Table, Target, calendar, percent};

/// A table with its title.
pub(super) struct Section {
    pub(super) title: String,
    pub(super) table: Table,
    /// What bounds the figures.
    pub(super) notes: Vec<String>,
}

impl Report<'_> {
    pub(in crate::simulate) fn table(&self) -> String {
        let mut out = self.summary().join("\n") + "\n";
        for Section { title, table, notes } in self.sections() {
            let _ = writeln!(out, "\n{title}");
            table.write(&mut out);
            out.extend(notes.into_iter().map(|note| note + "\n"));
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
        sections.extend([self.quotas(), self.peaks(), self.abusers()].into_iter().flatten());
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
        Section { title: "By rule".to_owned(), table, notes: Vec::new() }
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
        Section { title, table, notes: note.into_iter().collect() }
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
        Section { title, table, notes: Vec::new() }
    }

    fn quotas(&self) -> Option<Section> {
        let (target, suggestions) = self.suggestions?;
        let mut table = Table::new(&[
            "policy",
            "now",
            "rejects",
            "callers",
            "suggestion",
            "rejects",
            "callers",
            "requests",
            "keys",
        ]);
        for one in suggestions {
            let percent = |share: f64| format!("{:.3} %", 100.0 * share);
            table.row([
                one.policy.clone(),
                one.current.clone(),
                percent(one.current_share),
                percent(one.current_callers_share),
                one.quota.clone().unwrap_or_else(|| "none suffices".to_owned()),
                percent(one.share),
                percent(one.callers_share),
                one.requests.to_string(),
                one.keys.to_string(),
            ]);
        }
        let title = match target {
            Target::Rejections(share) => {
                format!(
                    "The smallest quotas that reject at most {} % of the requests, each policy alone",
                    100.0 * share
                )
            }
            Target::Callers(share) => {
                format!(
                    "The smallest quotas that reject requests of at most {} % of the callers, each policy alone",
                    100.0 * share
                )
            }
        };
        let sampled = suggestions.iter().find(|one| one.one_in > 1);
        let sampled = sampled.map(|one| format!("from a sample: one of {} keys", one.one_in));
        let few = suggestions.iter().filter_map(|one| too_few(*target, one));
        Some(Section { title, table, notes: sampled.into_iter().chain(few).collect() })
    }

    fn peaks(&self) -> Option<Section> {
        let (_, suggestions) = self.suggestions?;
        let mut table = Table::new(&["policy", "per", "p50", "p95", "p99", "max"]);
        for Suggestion { policy, peaks, .. } in suggestions {
            let figures = [peaks.p50, peaks.p95, peaks.p99, peaks.max].map(|figure| figure.to_string());
            let [p50, p95, p99, max] = figures;
            table.row([policy.clone(), peaks.per.clone(), p50, p95, p99, max]);
        }
        let title = "The most that callers asked for within one period".to_owned();
        Some(Section { title, table, notes: Vec::new() })
    }

    fn abusers(&self) -> Option<Section> {
        let (_, suggestions) = self.suggestions?;
        let mut table = Table::new(&["caller", "policy", "requests", "peak", "rejected"]);
        for (policy, one) in self.top_abusers(suggestions) {
            table.row([
                one.caller.clone(),
                policy.to_owned(),
                one.requests.to_string(),
                one.peak.to_string(),
                one.rejected.to_string(),
            ]);
        }
        let title = "Callers that the suggested quotas reject".to_owned();
        Some(Section { title, table, notes: Vec::new() })
    }

    /// The callers that are shown, by policy.
    pub(super) fn top_abusers<'s>(
        &self,
        suggestions: &'s [Suggestion],
    ) -> impl Iterator<Item = (&'s str, &'s Abuser)> {
        let top = self.top;
        suggestions
            .iter()
            .flat_map(move |one| one.abusers.iter().take(top).map(|abuser| (&*one.policy, abuser)))
    }
}

/// A note if a share of the callers of a policy is none of them, so that the busiest one sets the quota.
fn too_few(target: Target, one: &Suggestion) -> Option<String> {
    let Target::Callers(share) = target else { return None };
    if share <= 0.0 || one.keys < 2 || suggest::part(share, one.keys) > 0 {
        return None;
    }
    let percent = 100_u64.div_ceil(one.keys);
    Some(format!(
        "{} % of the {} callers of {} is none, and the busiest one sets the quota: --target-callers {percent}% leaves it out",
        100.0 * share,
        one.keys,
        one.policy
    ))
}

const MAX_TIMES: usize = 10;
