//! `cargo xtask test`: all checks, in an order that fails early.

pub(crate) mod book;
mod clients;
mod compile_errors;
mod docs;
mod doctests;
mod no_std;
mod programs;
mod proxies;
pub(crate) mod release;
mod report;
pub(crate) mod rules;
mod run;
mod step;
mod stress;
mod toolchain;
mod valkey;

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Error, Result, ensure};
use clap::{Args, Subcommand, ValueEnum as _};

use self::report::Report;
use self::run::{Run, Size};
use self::step::Step;
use crate::cmd::Failed;
use crate::workspace::Workspace;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct TestOptions {
    /// Runs every check in full, also those that are slow or need more programs
    #[arg(long)]
    pub(crate) all: bool,
    /// Runs every kind of check once, at the size that each change has to pass
    #[arg(long, conflicts_with = "all")]
    pub(crate) gate: bool,
    /// Runs these steps only, in their usual order
    steps: Vec<Step>,
    #[command(subcommand)]
    instead: Option<Instead>,
}

/// What runs in place of the steps.
#[derive(Debug, Subcommand)]
enum Instead {
    /// Runs each test many times on a busy machine that stands still now and then: takes hours
    Stress(stress::StressOptions),
}

/// Runs the steps, and prints at the end how long each took and which tests failed. A failed step does not keep later ones from
/// running, unless they need it.
pub(crate) fn run(options: &TestOptions) -> Result<()> {
    if let Some(Instead::Stress(options)) = &options.instead {
        return stress::run(options);
    }
    let workspace = Workspace::load()?;
    let size = options.size();
    let is_wanted = |step: &Step| match options.steps.as_slice() {
        [] => step.is_part_of(size),
        named => named.contains(step),
    };
    let steps: Vec<_> = Step::value_variants().iter().copied().filter(is_wanted).collect();
    let mut report = Report::default();
    let mut done = Vec::new();
    let mut errors = Vec::new();
    for &step in &steps {
        println!("\n==> {step}");
        let (start, failures) = (Instant::now(), report.failures());
        let outcome = step.run(&mut Run { workspace: &workspace, size, report: &mut report });
        let is_ok = outcome.is_ok() && report.failures() == failures;
        let time = start.elapsed();
        println!("<== {step}: {} after {}", verdict(is_ok), Seconds(time));
        done.push(Done { time, is_ok });
        if let Err(error) = outcome {
            errors.push(repeatable(&error, step, size));
        }
        if !is_ok && step.is_needed_by_others() {
            break;
        }
    }
    for error in &errors {
        println!("\nerror: {error}");
    }
    print!("\n{}", summary(&steps, &done));
    if !report.is_empty() {
        println!("{report}");
    }
    ensure!(done.iter().all(|done| done.is_ok), "not all checks have passed, see above");
    Ok(())
}

impl TestOptions {
    fn size(&self) -> Size {
        match (self.all, self.gate) {
            (true, _) => Size::Full,
            (false, true) => Size::Gate,
            (false, false) => Size::Quick,
        }
    }
}

/// How a step ended.
#[derive(Debug)]
struct Done {
    time: Duration,
    is_ok: bool,
}

/// The error of `step` with its causes, and the command that runs the step again, unless it is of a command and states that itself.
fn repeatable(error: &Error, step: Step, size: Size) -> String {
    if error.is::<Failed>() {
        return format!("{error:#}");
    }
    format!(
        "{error:#}\n\nrepeat it from the workspace root with\n\n    cargo xtask test {}{step}\n",
        size.flag()
    )
}

/// A line for each step; the last ones may not have run.
fn summary(steps: &[Step], done: &[Done]) -> String {
    let mut table = String::new();
    for (i, step) in steps.iter().enumerate() {
        let line = match done.get(i) {
            Some(&Done { time, is_ok }) => format!("{step:<13} {:>9}  {}", Seconds(time), verdict(is_ok)),
            None => format!("{step:<13} {:>9}  not run", "-"),
        };
        table += &line;
        table.push('\n');
    }
    let total: Duration = done.iter().map(|done| done.time).sum();
    let is_ok = done.iter().all(|done| done.is_ok);
    table + &format!("{:<13} {:>9}  {}\n", "total", Seconds(total), verdict(is_ok))
}

fn verdict(ok: bool) -> &'static str {
    if ok { "ok" } else { "FAILED" }
}

#[derive(Debug)]
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:.1} s", self.0.as_secs_f64()))
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;
    use crate::cmd::Cmd;

    #[test]
    fn failure_names_command_that_repeats_it() {
        let error = repeatable(&anyhow!("a rule is broken"), Step::Rules, Size::Full);
        assert!(error.ends_with("\n    cargo xtask test --all rules\n"), "{error}");
        let failed = Cmd::new("false").run(std::path::Path::new(".")).unwrap_err();
        let error = repeatable(&failed.context("why"), Step::Lint, Size::Gate);
        assert!(error.starts_with("why: ") && error.ends_with("\n    false\n"), "{error}");
    }

    #[test]
    fn summary_shows_failed_and_missing_steps() {
        let steps = [Step::Tools, Step::NoStd, Step::Tests];
        let mut done = vec![
            Done { time: Duration::from_millis(80), is_ok: true },
            Done { time: Duration::from_millis(12_340), is_ok: false },
        ];
        let expected = "\
tools             0.1 s  ok
no-std           12.3 s  FAILED
tests                 -  not run
total            12.4 s  FAILED
";
        assert_eq!(summary(&steps, &done), expected);
        done[1].is_ok = true;
        assert!(!summary(&steps[..2], &done).contains("FAILED"));
    }
}
