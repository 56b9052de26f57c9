//! What a file of limits is.

use std::path::Path;

use clap::{Args, ValueEnum};
use portcullis_config::envoy::Descriptors;

/// What files of limits are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Rules of Portcullis.
    Native,
    /// Descriptor files of Envoy's rate limit service.
    Envoy,
}

/// How kinds of files are distinguished.
#[derive(Clone, Copy, Debug, Args)]
pub struct KindArguments {
    /// What the files are. By default a folder is Envoy's, and so is a file with a `domain` or `descriptors` at its top.
    #[arg(long, value_enum, value_name = "KIND")]
    kind: Option<Kind>,
}

impl KindArguments {
    /// What a file or a folder is.
    #[must_use]
    pub fn of(&self, path: &Path) -> Kind {
        self.kind.unwrap_or_else(|| {
            if path.is_dir() || Descriptors::is_file(path) { Kind::Envoy } else { Kind::Native }
        })
    }
}
