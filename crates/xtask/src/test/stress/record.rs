//! The results, in a file to which each run appends a line, so that an interrupted run resumes.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use super::super::programs::Program;
use super::round::{Outcome, Round};

/// The file of results.
#[derive(Debug)]
pub(super) struct Record(PathBuf);

/// A run that the file has, as a line.
#[derive(Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Known {
    program: String,
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
        let (number, tests) = (round.number, round.tests.len());
        let is_done = |known: &Known| known.number == number && known.tests >= tests;
        if self.of(program)?.iter().any(is_done) {
            return Ok(());
        }
        let known = Known { program: program.id()?, number, tests, outcome: run()? };
        let line = serde_json::to_string(&known)? + "\n";
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

/// Reads a line if it is complete, and of the program `id`.
fn parse(line: &str, id: &str) -> Option<Known> {
    serde_json::from_str(line).ok().filter(|known: &Known| known.program == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_of_program_is_read() {
        let failed = ["a::b", "c"].map(str::to_owned).to_vec();
        let outcome = Outcome { seconds: 12, stops: 4, failed };
        let known = Known { program: "it-7".to_owned(), number: 3, tests: 20, outcome };
        let line = serde_json::to_string(&known).unwrap();
        assert_eq!(parse(&line, "it-77"), None);
        assert_eq!(parse(&line[..line.len() - 1], "it-7"), None);
        assert_eq!(parse(&line, "it-7"), Some(known));
    }
}
