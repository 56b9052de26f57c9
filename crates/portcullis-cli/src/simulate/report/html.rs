//! A page with plots, in one file, without scripts.

use std::cmp::Reverse;
use std::fmt::Write as _;

use super::Report;
use super::chart::{self, Curve};
use super::table::Section;
use crate::simulate::series::Bucket;

impl Report<'_> {
    pub(in crate::simulate) fn html(&self, rules: &str) -> anyhow::Result<String> {
        let mut page = String::from(HEAD);
        let _ = writeln!(page, "<h1>Simulation of {}</h1>", escaped(rules));
        let _ = writeln!(page, "<p>{}</p>", self.summary().join("\n<br>"));
        page.push_str(&self.over_time()?);
        page.push_str(&self.rejections_over_time()?);
        for section in self.sections() {
            write_section(&mut page, &section);
        }
        page.push_str("</body>\n</html>\n");
        Ok(page)
    }

    fn over_time(&self) -> anyhow::Result<String> {
        let series = &self.counts.series;
        let title = format!("Requests in {} s", series.seconds());
        let curves = [
            Curve { name: "requests", value: &|bucket| bucket.requests },
            Curve { name: "rejected", value: &|bucket| bucket.rejected },
        ];
        chart::draw(&title, series, &curves)
    }

    /// The rejections of the rules with the most of them.
    fn rejections_over_time(&self) -> anyhow::Result<String> {
        let (rules, series) = (&self.counts.rules, &self.counts.series);
        let mut most: Vec<_> = (0..rules.len()).filter(|index| rules[*index].rejected > 0).collect();
        most.sort_by_key(|index| Reverse(rules[*index].rejected));
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
}

fn write_section(page: &mut String, Section { title, table, notes }: &Section) {
    let _ = writeln!(page, "<h2>{}</h2>\n<table>", escaped(title));
    for (index, row) in table.rows().iter().enumerate() {
        let tag = if index == 0 { "th" } else { "td" };
        page.push_str("<tr>");
        for cell in row {
            let _ = write!(page, "<{tag}>{}</{tag}>", escaped(cell));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n");
    for note in notes {
        let _ = writeln!(page, "<p>{}</p>", escaped(note));
    }
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
