//! `portcullis schema`: the JSON Schema of rules, for editors.

use std::io::{self, Write as _};

use clap::Args;

/// Prints the JSON Schema of rules files, by which editors complete and check them.
#[derive(Debug, Args)]
pub(crate) struct Schema {}

impl Schema {
    /// Prints the schema.
    pub(crate) fn run() {
        // The reader of a pipe may have closed it.
        let _ = writeln!(io::stdout(), "{:#}", portcullis_config::schema());
    }
}
