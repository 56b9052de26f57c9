//! The results of all packages, and the failures by name.

use std::collections::BTreeMap;
use std::fmt;

use super::super::programs::Program;
use super::list::List;
use super::round::Outcome;

#[derive(Debug, Default)]
pub(super) struct Table {
    rows: BTreeMap<String, Row>,
    /// How often a test has failed, and the command that repeats it.
    failures: BTreeMap<String, (usize, String)>,
}

#[derive(Debug, Default)]
struct Row {
    tests: usize,
    waiting: usize,
    runs: usize,
    failures: usize,
    seconds: u64,
}

impl Table {
    pub(super) fn add(&mut self, program: &Program, list: &List, outcomes: Vec<(u32, Outcome)>) {
        let row = self.rows.entry(program.package.clone()).or_default();
        row.tests += list.all().len();
        row.waiting += list.waiting().len();
        row.runs = row.runs.max(outcomes.len());
        for (_, outcome) in outcomes {
            row.seconds += outcome.seconds;
            row.failures += outcome.failed.len();
            for test in outcome.failed {
                let repeat = program.by_hand().args("-- --exact").word(&test).to_string();
                self.failures.entry(test).or_insert((0, repeat)).0 += 1;
            }
        }
    }

    pub(super) fn has_failures(&self) -> bool {
        !self.failures.is_empty()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<28} {:>6} {:>6} {:>5} {:>7} {:>8}",
            "package", "tests", "wait", "runs", "failed", "time"
        )?;
        for (package, row) in &self.rows {
            let Row { tests, waiting, runs, failures, seconds } = row;
            writeln!(f, "{package:<28} {tests:>6} {waiting:>6} {runs:>5} {failures:>7} {seconds:>6} s")?;
        }
        for (test, (times, repeat)) in &self.failures {
            writeln!(f, "\n{test}: failed {times} times\n    {repeat}")?;
        }
        Ok(())
    }
}
