//! `portcullis replay`: timelines from files against a store.

use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::Args;
use portcullis_testing::{Report, Scenario, run};

use crate::service::in_runtime;
use crate::service::store_name::StoreName;

/// Runs the timelines of scenario files against a store, and prints the first difference of each case that has one.
///
/// Exits with 0 if every case goes as its file expects, with 1 if one does not, and with 2 if a file cannot be read, is
/// malformed, or the store cannot be reached.
#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// Scenario files in TOML.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// The store: `memory`, `pure` (the algorithm alone), or the URL of a Redis, which runs on the time of the scenario under
    /// separate keys that are deleted afterwards.
    #[arg(long, value_name = "STORE", default_value = "memory")]
    store: StoreName,
}

impl Replay {
    /// Reads all files before anything runs.
    pub(crate) fn run(self) -> anyhow::Result<Report> {
        let scenarios = self.files.iter().map(Scenario::read).collect::<Result<Vec<_>, _>>()?;
        let mut report = Report::default();
        in_runtime(async {
            let mut subject = self.store.open().await?;
            for scenario in &scenarios {
                report.merge(run(scenario.cases(), &mut *subject).await);
            }
            anyhow::Ok(())
        })?;
        // The reader of a pipe may have closed it; the exit code still states the result.
        let _ = writeln!(io::stdout(), "{report} on {}", self.store);
        Ok(report)
    }
}
