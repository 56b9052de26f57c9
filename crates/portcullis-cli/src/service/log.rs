//! What a service writes.

use std::io::{self, IsTerminal as _};

use clap::Args;
use portcullis_cli::findings;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

/// What is logged.
#[derive(Clone, Debug, Args)]
pub(crate) struct LogArguments {
    /// What is logged: `error`, `warn`, `info`, `debug`, or these per target as in `warn,portcullis=info`.
    #[arg(long, value_name = "FILTER", default_value = "warn,portcullis=info")]
    log: Targets,
}

impl LogArguments {
    /// Writes the log to standard error from now on.
    pub(super) fn start(self) -> anyhow::Result<()> {
        let colours = io::stderr().is_terminal() && findings::has_colours();
        let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(colours);
        Ok(tracing_subscriber::registry().with(lines.with_filter(self.log)).try_init()?)
    }
}
