//! What the tests have shown: how many ran, and which failed.

use std::fmt;
use std::path::Path;

use anyhow::Result;

use crate::cmd::{Cmd, Failed};

/// The tests of all programs.
#[derive(Debug, Default)]
pub(super) struct Report {
    counts: Counts,
    failures: Vec<Failure>,
}

/// The sums of the `test result:` lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
    ignored: u64,
}

/// A failed test, and the line that runs it again.
#[derive(Debug, PartialEq, Eq)]
struct Failure {
    test: String,
    repeat: String,
}

impl Report {
    /// Runs a command that runs tests, and notes which failed. `repeat` returns the line that runs a test again, by its name.
    ///
    /// A failed test is no error here, so that the next program still runs.
    pub(super) fn run(&mut self, tests: &Cmd, folder: &Path, repeat: impl Fn(&str) -> String) -> Result<()> {
        let known = self.failures.len();
        let outcome = tests.run_reading(folder, |line| self.read(line, &repeat));
        self.ended(tests, known, outcome)
    }

    /// Like [`run`](Self::run), and shows the output when the tests have ended.
    pub(super) fn run_quietly(
        &mut self,
        tests: &Cmd,
        folder: &Path,
        repeat: impl Fn(&str) -> String,
    ) -> Result<()> {
        let known = self.failures.len();
        let mut output = format!("$ {tests}\n");
        let read = |line: &str| {
            output.push_str(line);
            self.read(line, &repeat);
        };
        let outcome = tests.watch(folder, |_| {}, read);
        print!("{output}");
        self.ended(tests, known, outcome)
    }

    fn ended(&mut self, tests: &Cmd, known: usize, outcome: Result<()>) -> Result<()> {
        let Err(error) = outcome else { return Ok(()) };
        if !error.is::<Failed>() {
            return Err(error);
        }
        // It has named no test: it was killed, or could not be compiled.
        if self.failures.len() == known {
            self.failures.push(Failure { test: tests.to_string(), repeat: error.to_string() });
        }
        Ok(())
    }

    /// Adds what another report has.
    pub(super) fn add(&mut self, other: Self) {
        let Counts { passed, failed, ignored } = other.counts;
        self.counts.passed += passed;
        self.counts.failed += failed;
        self.counts.ignored += ignored;
        self.failures.extend(other.failures);
    }

    fn read(&mut self, line: &str, repeat: impl Fn(&str) -> String) {
        self.counts.read(line);
        if let Some(test) = failed_test(line) {
            self.failures.push(Failure { test: test.to_owned(), repeat: repeat(test) });
        }
    }

    pub(super) fn failures(&self) -> usize {
        self.failures.len()
    }

    /// Whether no test ran.
    pub(super) fn is_empty(&self) -> bool {
        self.counts.passed + self.counts.failed == 0
    }
}

impl Counts {
    /// Adds the counts of `line`, if it is a `test result:` line.
    fn read(&mut self, line: &str) {
        let Some(counts) = line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". ")) else {
            return;
        };
        for count in counts.1.split(';') {
            let Some((number, word)) = count.trim().split_once(' ') else { continue };
            let number = number.parse().unwrap_or(0);
            match word {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
    }
}

/// The test that `line` reports as failed.
pub(super) fn failed_test(line: &str) -> Option<&str> {
    ended_test(line).filter(|_| line.trim_end().ends_with(" ... FAILED"))
}

/// The test whose end `line` reports.
pub(super) fn ended_test(line: &str) -> Option<&str> {
    let (test, _) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    Some(test.strip_suffix(" - should panic").unwrap_or(test))
}

/// The failed tests, then the counts alone in the last line.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.failures.is_empty() {
            writeln!(f, "failed:")?;
        }
        for Failure { test, repeat } in &self.failures {
            writeln!(f, "    {test}\n        {}", repeat.trim().replace('\n', "\n        "))?;
        }
        write!(f, "{} passed, {} failed", self.counts.passed, self.counts.failed)?;
        if self.counts.ignored > 0 {
            write!(f, ", {} skipped", self.counts.ignored)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_are_added_up() {
        let mut report = Report::default();
        report.counts.read("test works ... ok");
        assert!(report.is_empty());
        report.counts.read("test result: ok. 17 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.00s\n");
        report.counts.read("test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 5 filtered out; finished in 1.10s");
        assert_eq!(report.to_string(), "20 passed, 1 failed, 2 skipped");
    }

    #[test]
    fn failed_tests_are_named_with_their_command() {
        let mut report = Report::default();
        for line in [
            "test a::works ... ok\n",
            "test a::breaks ... FAILED\n",
            "test panics - should panic ... FAILED\n",
            "test crates/a/src/b.rs - c (line 7) ... FAILED\n",
        ] {
            report.read(line, |test| format!("again {test}"));
        }
        let lost = Cmd::new("sh").args("-c").word("exit 7");
        report.run(&lost, Path::new("."), str::to_owned).unwrap();
        assert_eq!(report.failures(), 4);
        let shown = report.to_string();
        for expected in [
            "    a::breaks\n        again a::breaks\n",
            "    panics\n        again panics\n",
            "    crates/a/src/b.rs - c (line 7)\n        again crates/a/src/b.rs - c (line 7)\n",
            "    sh -c 'exit 7'\n        exit status: 7; repeat it",
        ] {
            assert!(shown.contains(expected), "{shown}");
        }
        assert!(report.run(&Cmd::new("no-program-has-this-name"), Path::new("."), str::to_owned).is_err());
    }
}
