//! The results of all packages, and the failures by name.

use std::collections::BTreeMap;
use std::fmt;

use super::super::programs::Program;
use super::list::List;
use super::record::Known;

#[derive(Debug, Default)]
pub(super) struct Table {
    rows: BTreeMap<String, Row>,
    /// How often a test has failed, by the command that repeats it: programs have tests of the same names.
    failures: BTreeMap<String, usize>,
}

#[derive(Debug, Default)]
struct Row {
    tests: usize,
    waiting: usize,
    runs: usize,
    stops: u32,
    failures: usize,
    seconds: u64,
}

impl Table {
    pub(super) fn add(&mut self, program: &Program, list: &List, runs: Vec<Known>) {
        let row = self.rows.entry(program.package.clone()).or_default();
        row.tests += list.all().len();
        row.waiting += list.waiting().len();
        row.runs = row.runs.max(runs.len());
        for outcome in runs.into_iter().map(|run| run.outcome) {
            row.seconds += outcome.seconds;
            row.stops += outcome.stops;
            row.failures += outcome.failed.len();
            for test in outcome.failed {
                let repeat = program.by_hand().args("-- --exact").word(&test).to_string();
                *self.failures.entry(repeat).or_default() += 1;
            }
        }
    }

    pub(super) fn has_failures(&self) -> bool {
        !self.failures.is_empty()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["tests", "wait", "runs", "stops", "failed", "seconds"];
        writeln!(f, "{:<28}{}", "package", head.map(|name| format!("{name:>9}")).concat())?;
        for (package, row) in &self.rows {
            let Row { tests, waiting, runs, stops, failures, seconds } = row;
            writeln!(f, "{package:<28}{tests:>9}{waiting:>9}{runs:>9}{stops:>9}{failures:>9}{seconds:>9}")?;
        }
        for (repeat, times) in &self.failures {
            writeln!(f, "\nfailed {times} times:\n    {repeat}")?;
        }
        Ok(())
    }
}
