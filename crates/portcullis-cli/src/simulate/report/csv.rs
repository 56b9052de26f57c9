//! CSV: one table for everything, whose first column states what a row is.

use std::borrow::Cow;

use anyhow::Context as _;

use super::{Report, calendar};

pub(super) fn report(report: &Report<'_>) -> anyhow::Result<String> {
    let counts = report.counts;
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(["what", "rule", "caller", "time", "requests", "rejected", "shadow", "quota"])?;
    let (requests, rejected) = (counts.requests.to_string(), counts.rejected.to_string());
    writer.write_record(["total", "", "", "", &requests, &rejected, "", ""])?;
    for rule in &counts.rules {
        let [requests, rejected, shadow] =
            [rule.requests, rule.rejected, rule.shadow].map(|count| count.to_string());
        writer.write_record(["rule", &as_text(&rule.name), "", "", &requests, &rejected, &shadow, ""])?;
    }
    for (rule, caller, rejected) in counts.callers.top(report.top) {
        let name = &counts.rules[rule].name;
        writer.write_record([
            "caller",
            &as_text(name),
            &as_text(caller),
            "",
            "",
            &rejected.to_string(),
            "",
            "",
        ])?;
    }
    for bucket in counts.series.buckets() {
        let time = calendar::text(bucket.index * counts.series.seconds());
        let (requests, rejected) = (bucket.requests.to_string(), bucket.rejected.to_string());
        writer.write_record(["time", "", "", &time, &requests, &rejected, "", ""])?;
    }
    for one in report.suggestions.iter().flat_map(|(_, suggestions)| suggestions) {
        let quota = as_text(one.quota.as_deref().unwrap_or_default());
        let (policy, requests) = (as_text(&one.policy), one.requests.to_string());
        writer.write_record(["suggestion", &policy, "", "", &requests, "", "", &quota])?;
    }
    let bytes = writer.into_inner().context("cannot write CSV")?;
    Ok(String::from_utf8(bytes)?)
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
