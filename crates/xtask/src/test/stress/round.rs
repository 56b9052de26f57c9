//! One run of tests of a program, beside stops.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use super::super::programs::Program;
use super::super::report::{ended_test, failed_test};
use super::load::Stops;
use crate::cmd::Failed;

/// The tests of one run.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) number: u32,
    pub(super) tests: Vec<String>,
}

/// What one run has shown.
#[derive(Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Outcome {
    pub(super) seconds: u64,
    /// How often the program was stopped.
    pub(super) stops: u32,
    pub(super) failed: Vec<String>,
}

impl Round {
    /// Runs the tests. If one fails, the output is kept in a file.
    pub(super) fn run(&self, program: &Program, folder: &Path, threads: usize) -> Result<Outcome> {
        let command = program.command().env("RUST_TEST_THREADS", threads.to_string()).args("--exact");
        let command = self.tests.iter().fold(command, |command, test| command.word(test)).limited(LIMIT);
        let start = Instant::now();
        let (mut output, mut failed, mut stops, mut has_ended) = (String::new(), Vec::new(), None, false);
        let mut running: BTreeSet<_> = self.tests.iter().map(String::as_str).collect();
        let outcome = command.watch(
            program.folder(),
            |process| stops = Some(Stops::start(process, u64::from(self.number))),
            |line| {
                output.push_str(line);
                has_ended |= line.starts_with("test result: ");
                if let Some(test) = ended_test(line) {
                    running.remove(test);
                }
                failed.extend(failed_test(line).map(str::to_owned));
            },
        );
        let stops = stops.map_or(0, Stops::end);
        match outcome {
            Err(error) if !error.is::<Failed>() => return Err(error),
            // It was killed or has crashed, with the tests that have not ended.
            Err(error) if !has_ended => {
                output.push_str(&error.to_string());
                failed.extend(running.into_iter().map(str::to_owned));
            }
            _ => {}
        }
        if !failed.is_empty() {
            let file = folder.join(format!("{}-{}.txt", program.id()?, self.number));
            fs::write(&file, &output).with_context(|| format!("cannot write {}", file.display()))?;
            println!("run {}: {} failed, see {}", self.number, failed.join(", "), file.display());
        }
        Ok(Outcome { seconds: start.elapsed().as_secs(), stops, failed })
    }
}

/// Ten times as long as the longest program needs on a busy machine.
const LIMIT: Duration = Duration::from_secs(20 * 60);
