//! A page with plots, in one file, without scripts.

use std::fmt::Write as _;

use super::chart::{self, Curve};
use super::{Report, calendar, percent};
use crate::simulate::series::Bucket;

pub(super) fn report(report: &Report<'_>, rules: &str) -> anyhow::Result<String> {
    let counts = report.counts;
    let mut page = String::from(HEAD);
    let _ = writeln!(page, "<h1>Simulation of {}</h1>", escaped(rules));
    let _ = writeln!(
        page,
        "<p>{} requests, {} rejected ({}), at most {} per second",
        counts.requests,
        counts.rejected,
        percent(counts.rejected, counts.requests),
        counts.peak.highest
    );
    if let Some((first, last)) = counts.span {
        let at = |micros: u64| calendar::text(micros / 1_000_000);
        let _ = writeln!(page, "<br>from {} to {}", at(first), at(last));
    }
    page.push_str("</p>\n");
    page.push_str(&over_time(report)?);
    page.push_str(&by_rule(report)?);
    table(
        &mut page,
        "By rule",
        &["rule", "requests", "rejected", "share", "shadow", "peak per second"],
        counts.rules.iter().map(|rule| {
            let numbers = [rule.shadow, rule.peak.highest].map(|number| number.to_string());
            let [shadow, peak] = numbers;
            let share = percent(rule.rejected, rule.requests);
            vec![rule.name.clone(), rule.requests.to_string(), rule.rejected.to_string(), share, shadow, peak]
        }),
    );
    table(
        &mut page,
        "By caller",
        &["caller", "rule", "rejected"],
        counts.callers.top(report.top).into_iter().map(|(rule, caller, rejected)| {
            vec![caller.to_owned(), counts.rules[rule].name.clone(), rejected.to_string()]
        }),
    );
    if let Some((share, suggestions)) = report.suggestions {
        table(
            &mut page,
            &format!("The smallest quotas that reject at most {} %", 100.0 * share),
            &["policy", "now", "suggestion", "rejects"],
            suggestions.iter().map(|one| {
                let quota = one.quota.clone().unwrap_or_else(|| "none suffices".to_owned());
                let share = format!("{:.3} %", 100.0 * one.share);
                vec![one.policy.clone(), one.current.clone(), quota, share]
            }),
        );
    }
    page.push_str("</body>\n</html>\n");
    Ok(page)
}

fn over_time(report: &Report<'_>) -> anyhow::Result<String> {
    let series = &report.counts.series;
    let title = format!("Requests in {} s", series.seconds());
    let curves = [
        Curve { name: "requests", value: &|bucket| bucket.requests },
        Curve { name: "rejected", value: &|bucket| bucket.rejected },
    ];
    chart::draw(&title, series, &curves)
}

/// The rejections of the rules with the most of them.
fn by_rule(report: &Report<'_>) -> anyhow::Result<String> {
    let (rules, series) = (&report.counts.rules, &report.counts.series);
    let mut most: Vec<_> = (0..rules.len()).filter(|index| rules[*index].rejected > 0).collect();
    most.sort_by_key(|index| std::cmp::Reverse(rules[*index].rejected));
    most.truncate(MAX_CURVES);
    if most.is_empty() {
        return Ok(String::new());
    }
    let values: Vec<_> = most
        .iter()
        .map(|&rule| move |bucket: &Bucket| bucket.by_rule.get(rule).copied().unwrap_or(0))
        .collect();
    let curves: Vec<_> =
        most.iter().zip(&values).map(|(rule, value)| Curve { name: &rules[*rule].name, value }).collect();
    chart::draw(&format!("Rejections in {} s, by rule", series.seconds()), series, &curves)
}

fn table(page: &mut String, title: &str, head: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        return;
    }
    let _ = writeln!(page, "<h2>{}</h2>\n<table>\n<tr>", escaped(title));
    for cell in head {
        let _ = write!(page, "<th>{}</th>", escaped(cell));
    }
    page.push_str("</tr>\n");
    for row in rows {
        page.push_str("<tr>");
        for cell in row {
            let _ = write!(page, "<td>{}</td>", escaped(&cell));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n");
}

/// What a log contains is text, whatever it looks like.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ if character.is_control() => escaped.push('\u{fffd}'),
            _ => escaped.push(character),
        }
    }
    escaped
}

const MAX_CURVES: usize = 6;
const HEAD: &str = r#"<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Simulation</title>
<style>
body { font-family: sans-serif; margin: 2em auto; max-width: 60em; padding: 0 1em; }
svg { display: block; height: auto; margin: 1em 0; max-width: 100%; }
table { border-collapse: collapse; }
th, td { border-bottom: 1px solid #ddd; padding: 0.2em 0.8em; text-align: right; }
th:first-child, td:first-child { text-align: left; }
</style>
</head>
<body>
"#;
