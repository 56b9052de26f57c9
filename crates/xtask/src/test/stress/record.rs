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

impl Record {
    /// Opens the file in `folder`, which is made if it does not exist.
    pub(super) fn open(folder: &Path, fresh: bool) -> Result<Self> {
        let record = Self(folder.join("results"));
        if fresh && folder.exists() {
            fs::remove_dir_all(folder).with_context(|| format!("cannot empty {}", folder.display()))?;
        }
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(record)
    }

    /// Calls `run` and appends its outcome, unless the file has one of this round.
    pub(super) fn once(
        &self,
        program: &Program,
        round: &Round,
        run: impl FnOnce() -> Result<Outcome>,
    ) -> Result<()> {
        let number = round.number();
        if self.of(program)?.iter().any(|(known, _)| *known == number) {
            return Ok(());
        }
        let outcome = run()?;
        let line =
            format!("{}\t{number}\t{}\t{}\n", program.id()?, outcome.seconds, outcome.failed.join(","));
        let mut file = File::options().create(true).append(true).open(&self.0)?;
        file.write_all(line.as_bytes()).with_context(|| format!("cannot write {}", self.0.display()))
    }

    /// The outcomes of a program since it was built.
    pub(super) fn of(&self, program: &Program) -> Result<Vec<(u32, Outcome)>> {
        let id = program.id()?;
        let text = fs::read_to_string(&self.0).unwrap_or_default();
        Ok(text.lines().filter_map(|line| parse(line, &id)).collect())
    }
}

/// Reads a line if it is of the program `id`.
fn parse(line: &str, id: &str) -> Option<(u32, Outcome)> {
    let mut fields = line.strip_prefix(id)?.strip_prefix('\t')?.split('\t');
    let number = fields.next()?.parse().ok()?;
    let seconds = fields.next()?.parse().ok()?;
    let failed = fields.next()?.split(',').filter(|test| !test.is_empty()).map(str::to_owned).collect();
    Some((number, Outcome { seconds, failed }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_of_program_is_read() {
        let outcome = Outcome { seconds: 12, failed: vec!["a::b".to_owned(), "c".to_owned()] };
        assert_eq!(parse("it-7\t3\t12\ta::b,c", "it-7"), Some((3, outcome)));
        assert_eq!(parse("it-7\t4\t1\t", "it-7"), Some((4, Outcome { seconds: 1, failed: Vec::new() })));
        assert_eq!(parse("it-77\t3\t12\t", "it-7"), None);
        assert_eq!(parse("it-7\t3", "it-7"), None);
    }
}
