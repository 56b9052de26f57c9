//! The results, in a file to which each run appends a line, so that an interrupted run resumes.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::super::programs::Program;
use super::round::{Outcome, Round};

/// The file of results.
#[derive(Debug)]
pub(super) struct Record(PathBuf);

/// A run that the file has.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Known {
    number: u32,
    tests: usize,
    pub(super) outcome: Outcome,
}

impl Record {
    /// Opens the file in `folder`, which is made if it does not exist.
    pub(super) fn open(folder: &Path, fresh: bool) -> Result<Self> {
        if fresh && folder.exists() {
            fs::remove_dir_all(folder).with_context(|| format!("cannot empty {}", folder.display()))?;
        }
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(Self(folder.join("results")))
    }

    /// Calls `run` and appends its outcome, unless the file has one of this round with as many tests.
    pub(super) fn once(
        &self,
        program: &Program,
        round: &Round,
        run: impl FnOnce() -> Result<Outcome>,
    ) -> Result<()> {
        let (number, tests) = (round.number(), round.len());
        let is_done = |known: &Known| known.number == number && known.tests >= tests;
        if self.of(program)?.iter().any(is_done) {
            return Ok(());
        }
        let Outcome { seconds, stops, failed } = run()?;
        let failed = failed.join(",");
        let line = format!("{}\t{number}\t{tests}\t{seconds}\t{stops}\t{failed}\n", program.id()?);
        let mut file = File::options().create(true).append(true).open(&self.0)?;
        file.write_all(line.as_bytes()).with_context(|| format!("cannot write {}", self.0.display()))
    }

    /// The runs of a program since it was built.
    pub(super) fn of(&self, program: &Program) -> Result<Vec<Known>> {
        let id = program.id()?;
        let text = fs::read_to_string(&self.0).unwrap_or_default();
        Ok(text.lines().filter_map(|line| parse(line, &id)).collect())
    }
}

/// Reads a line if it is of the program `id`.
fn parse(line: &str, id: &str) -> Option<Known> {
    let mut fields = line.strip_prefix(id)?.strip_prefix('\t')?.split('\t');
    let number = fields.next()?.parse().ok()?;
    let tests = fields.next()?.parse().ok()?;
    let seconds = fields.next()?.parse().ok()?;
    let stops = fields.next()?.parse().ok()?;
    let failed = fields.next()?.split(',').filter(|test| !test.is_empty()).map(str::to_owned).collect();
    Some(Known { number, tests, outcome: Outcome { seconds, stops, failed } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_of_program_is_read() {
        let known = |number, tests, seconds, stops, failed: &[&str]| {
            let failed = failed.iter().map(|test| (*test).to_owned()).collect();
            Some(Known { number, tests, outcome: Outcome { seconds, stops, failed } })
        };
        assert_eq!(parse("it-7\t3\t20\t12\t4\ta::b,c", "it-7"), known(3, 20, 12, 4, &["a::b", "c"]));
        assert_eq!(parse("it-7\t4\t9\t1\t0\t", "it-7"), known(4, 9, 1, 0, &[]));
        assert_eq!(parse("it-77\t3\t20\t12\t4\t", "it-7"), None);
        assert_eq!(parse("it-7\t3", "it-7"), None);
    }
}
