//! CSV: one table for everything, whose first column states what a row is.

use std::borrow::Cow;

use anyhow::Context as _;

use super::{Report, calendar};

impl Report<'_> {
    pub(in crate::simulate) fn csv(&self) -> anyhow::Result<String> {
        let counts = self.counts;
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(["what", "rule", "caller", "time", "requests", "rejected", "shadow", "quota"])?;
        writer.serialize(("total", "", "", "", counts.requests, counts.rejected, "", ""))?;
        for rule in &counts.rules {
            let name = as_text(&rule.name);
            writer.serialize(("rule", name, "", "", rule.requests, rule.rejected, rule.shadow, ""))?;
        }
        for (rule, caller, rejected) in counts.callers.top(self.top) {
            let name = as_text(&counts.rules[rule].name);
            writer.serialize(("caller", name, as_text(caller), "", "", rejected, "", ""))?;
        }
        for bucket in counts.series.buckets() {
            let time = calendar::text(bucket.index * counts.series.seconds());
            writer.serialize(("time", "", "", time, bucket.requests, bucket.rejected, "", ""))?;
        }
        for one in self.suggestions.iter().flat_map(|(_, suggestions)| suggestions) {
            let quota = as_text(one.quota.as_deref().unwrap_or_default());
            let policy = as_text(&one.policy);
            writer.serialize(("suggestion", &policy, "", "", one.requests, "", "", quota))?;
            for (what, peak) in [
                ("peak p50", one.peaks.p50),
                ("peak p95", one.peaks.p95),
                ("peak p99", one.peaks.p99),
                ("peak max", one.peaks.max),
            ] {
                writer.serialize((what, &policy, "", "", peak, "", "", ""))?;
            }
            for abuser in one.abusers.iter().take(self.top) {
                let caller = as_text(&abuser.caller);
                writer.serialize((
                    "abuser",
                    &policy,
                    caller,
                    "",
                    abuser.requests,
                    abuser.rejected,
                    "",
                    "",
                ))?;
            }
        }
        let bytes = writer.into_inner().context("cannot write CSV")?;
        Ok(String::from_utf8(bytes)?)
    }
}

/// A cell that spreadsheets show as text. Clients choose what a log contains, and these beginnings make a formula of it.
///
/// Source: OWASP, "CSV Injection".
fn as_text(cell: &str) -> Cow<'_, str> {
    if cell.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']) {
        Cow::Owned(format!("'{cell}"))
    } else {
        Cow::Borrowed(cell)
    }
}
