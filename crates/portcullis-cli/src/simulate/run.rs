//! `portcullis simulate`: what rules would have done to the requests of a log.

use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;

use super::input::{self, Input};
use super::report::Report;
use crate::load::LoadArguments;

/// Shows which requests of an access log rules would have rejected: by rule, by caller and over time.
///
/// Each line is a request at its instant, which the layers of a server decide about, in memory. Exits with 0, with 1 if the
/// rules have errors, and with 2 if the log cannot be read. A rule whose key only the program has limits nothing, which a note says. Bodies, matched routes and the time that a response took are not in a log: requests in flight end at once.
#[derive(Debug, Args)]
pub struct Simulate {
    /// The rules.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    load: LoadArguments,

    #[command(flatten)]
    input: Input,

    /// Suggests for each policy the smallest quota that would have rejected at most this share of its requests, such as `0.1%`.
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    target_rejections: Option<f64>,

    /// Prints CSV in place of the tables.
    #[arg(long, conflicts_with = "json")]
    csv: bool,

    /// Prints JSON in place of the tables.
    #[arg(long)]
    json: bool,

    /// Also writes a page with plots, in one file without scripts.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Simulate {
    /// Reads the log, and prints the report. Returns whether the rules could be used.
    ///
    /// # Errors
    ///
    /// If the rules cannot be layers, the log cannot be read, or a report cannot be written.
    pub fn run(self) -> anyhow::Result<bool> {
        let Some(rules) = self.load.rules(&self.file)? else { return Ok(false) };
        let headers = input::headers_of([&rules]);
        let kept_checks = if self.target_rejections.is_some() { KEPT_CHECKS } else { 0 };
        let mut engine = input::engine_of_rules(rules, self.input.options(kept_checks))?;
        let reading = self.input.read(headers, |line| {
            engine.handle(line);
        })?;
        let counts = engine.finish();
        reading.print();
        let suggestions = self.target_rejections.map(|share| (share, engine.suggestions(share)));
        let report = Report { counts: &counts, suggestions: suggestions.as_ref(), top: self.input.top };
        let overflowed = engine.store_stats().overflowed_checks;
        if overflowed > 0 {
            eprintln!("portcullis: {overflowed} checks had no room for their keys, and shared states");
        }
        if let Some(file) = &self.html {
            let page = report.html(&self.file.display().to_string())?;
            fs::write(file, page).with_context(|| file.display().to_string())?;
        }
        let text = match (self.csv, self.json) {
            (true, _) => report.csv()?,
            (_, true) => format!("{:#}\n", report.json()),
            _ => report.table(),
        };
        // The reader of a pipe may have closed it.
        let _ = io::stdout().write_all(text.as_bytes());
        Ok(true)
    }
}

/// Reads `0.1%`, `0.1 %` or `0.001`. Without `%` a 1 would be all requests, and is probably meant as a percentage.
fn parse_share(text: &str) -> Result<f64, String> {
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.trim_end().parse().map(|percent: f64| percent / 100.0),
        None => text.parse().map(|share: f64| if share < 1.0 { share } else { f64::NAN }),
    };
    let share = share.ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "a share is 0% to 100%, such as 0.1%".to_owned())
}

/// 24 bytes each.
const KEPT_CHECKS: usize = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_percent_or_fractions() {
        assert_eq!(parse_share("50%"), Ok(0.5));
        assert_eq!(parse_share("0.25"), Ok(0.25));
        assert_eq!(parse_share("100%"), Ok(1.0));
        for text in ["", "%", "101%", "-1", "NaN", "x", "1", "5"] {
            assert!(parse_share(text).is_err(), "{text}");
        }
    }
}
