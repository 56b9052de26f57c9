//! What a service writes.

use std::io::{self, IsTerminal as _, Write as _};

use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

/// Writes the log to standard error from now on.
pub(crate) fn start(filter: Targets) -> anyhow::Result<()> {
    let colours =
        io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(colours);
    Ok(tracing_subscriber::registry().with(lines.with_filter(filter)).try_init()?)
}

/// Writes a line to standard output at once.
pub(crate) fn print_line(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
