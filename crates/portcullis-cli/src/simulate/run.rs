//! `portcullis simulate`: what rules would have done to the requests of a log.

use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;

use super::input::{self, Input};
use super::report::Report;
use super::suggest::Target;
use crate::load::LoadArguments;

/// Shows which requests of an access log rules would have rejected: by rule, by caller and over time.
///
/// Each line is a request at its instant, about which the layers of a server decide, in memory. Exits with 0, with 1 if the
/// rules have errors, and with 2 if the log cannot be read. A rule whose key only a program can find limits nothing, and a note names it.
/// A log has no bodies, no matched routes and no durations of responses: requests in flight end at once.
#[derive(Debug, Args)]
pub struct Simulate {
    /// The rules.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    load: LoadArguments,

    #[command(flatten)]
    input: Input,

    /// Suggests for each policy the smallest quota that would have rejected a request of at most this share of its callers, such as `1%`,
    /// and names the callers that it would have rejected. A caller is a key of the policy.
    #[arg(long, value_name = "SHARE", value_parser = parse_share, conflicts_with = "target_rejections")]
    target_callers: Option<f64>,

    /// Suggests for each policy the smallest quota that would have rejected at most this share of its requests, such as `0.1%`. With it,
    /// one caller with most of the requests sets the quota for all; with `--target-callers` it cannot.
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    target_rejections: Option<f64>,

    /// Prints CSV in place of the tables.
    #[arg(long, conflicts_with = "json")]
    csv: bool,

    /// Prints JSON in place of the tables.
    #[arg(long)]
    json: bool,

    /// Also writes a page with plots, in one file without scripts. Its quotas are those for 1% of the callers, if no other target is given.
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
        let target = self.target_callers.map(Target::Callers);
        let target = target.or(self.target_rejections.map(Target::Rejections));
        let page_target = self.html.is_some().then_some(Target::Callers(0.01));
        let kept_checks = if target.or(page_target).is_some() { KEPT_CHECKS } else { 0 };
        let mut engine = input::engine_of_rules(rules, self.input.options(kept_checks))?;
        let reading = self.input.read(headers, |line| {
            engine.handle(line);
        })?;
        let counts = engine.finish();
        reading.print();
        let suggestions = target.or(page_target).map(|target| (target, engine.suggestions(target)));
        let page = Report { counts: &counts, suggestions: suggestions.as_ref(), top: self.input.top };
        let report = Report { suggestions: page.suggestions.filter(|_| target.is_some()), ..page };
        let overflowed = engine.store_stats().overflowed_checks;
        if overflowed > 0 {
            eprintln!("portcullis: {overflowed} checks had no room for their keys, and shared states");
        }
        if let Some(file) = &self.html {
            let page = page.html(&self.file.display().to_string())?;
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
