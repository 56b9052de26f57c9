//! The results of a run.

use std::fmt;

use crate::scenario::Case;

/// The result of each case.
#[derive(Clone, Debug, Default)]
#[must_use = "failures are only in the report"]
pub struct Report {
    passed: usize,
    skipped: Vec<Skipped>,
    failures: Vec<Failure>,
}

/// The first difference of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
// Exhaustive: runners of other systems build it.
pub struct Failure {
    /// The file of the case.
    pub file: String,
    /// The line of the step, counted from 1.
    pub line: usize,
    /// The name of the case.
    pub case: String,
    /// The step, counted from 1.
    pub step: usize,
    /// The field that differs, by its name in the file. Also `at` and `degraded`, which are compared at every decision,
    /// `receipts`, and `answer` if the call failed.
    pub field: &'static str,
    /// The value in the file.
    pub expected: String,
    /// The value of the system under test.
    pub got: String,
}

/// A case that was not run.
#[derive(Clone, Debug, PartialEq, Eq)]
// Exhaustive: runners of other systems build it.
pub struct Skipped {
    /// The name of the case.
    pub case: String,
    /// Why it was not run.
    pub reason: &'static str,
}

impl Report {
    /// Whether no case differed. Skipped cases are not considered.
    pub fn is_success(&self) -> bool {
        self.failures.is_empty()
    }

    /// The number of cases that passed.
    pub fn passed(&self) -> usize {
        self.passed
    }

    /// The cases that the system under test does not support.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// The first difference of each case that has one, in the order of the cases.
    pub fn failures(&self) -> &[Failure] {
        &self.failures
    }

    /// Adds the results of another run.
    pub fn merge(&mut self, other: Self) {
        self.passed += other.passed;
        self.skipped.extend(other.skipped);
        self.failures.extend(other.failures);
    }

    pub(super) fn add(&mut self, failure: Option<Failure>) {
        match failure {
            Some(failure) => self.failures.push(failure),
            None => self.passed += 1,
        }
    }

    pub(super) fn skip(&mut self, case: &Case, reason: &'static str) {
        self.skipped.push(Skipped { case: case.name().to_owned(), reason });
    }
}

impl fmt::Display for Report {
    /// Prints each failure, each skipped case and a summary line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for failure in &self.failures {
            writeln!(f, "{failure}\n")?;
        }
        for Skipped { case, reason } in &self.skipped {
            writeln!(f, "skipped {case:?}: {reason}")?;
        }
        write!(f, "{} passed, {} failed", self.passed, self.failures.len())?;
        if self.skipped.is_empty() { Ok(()) } else { write!(f, ", {} skipped", self.skipped.len()) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, case, step, field, expected, got } = self;
        writeln!(f, "{file}:{line}: case {case:?}, step {step}")?;
        writeln!(f, "  field:    {field}")?;
        writeln!(f, "  expected: {expected}")?;
        write!(f, "  got:      {got}")
    }
}
