//! `portcullis check`: whether rules can be used.

use std::convert::identity;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use portcullis_config::{Diagnostics, Door, Rules, envoy};

use crate::findings::{self, OutputFormat};
use crate::kind::{Kind, KindArguments};
use crate::load::LoadArguments;

/// Checks rules files, and prints every mistake with its place and its fix.
///
/// Exits with 0 if the files can be used, with 1 if they have errors, and with 2 for invalid arguments.
#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Rules in TOML, YAML or JSON, a descriptor file of Envoy's rate limit service, or a folder of such files. Each file is a set of rules of
    /// its own; those that it includes are checked with it. Names that only a program registers are accepted, with a note.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    #[command(flatten)]
    kind: KindArguments,

    #[command(flatten)]
    load: LoadArguments,

    /// Also checks that one place supports all that the rules need: `portcullis proxy`, `portcullis serve`, a check that a proxy asks for,
    /// or the code of a program.
    #[arg(long = "for", value_enum, value_name = "DOOR")]
    door: Option<CheckedDoor>,

    /// Lets several of Envoy's files in a folder have the same domain.
    #[arg(long)]
    merge_domains: bool,

    /// Exits with 1 for warnings as well.
    #[arg(long)]
    deny_warnings: bool,

    /// How findings are printed.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    format: OutputFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CheckedDoor {
    /// `portcullis proxy`
    Proxy,
    /// Envoy's calls of `portcullis serve`
    Serve,
    /// The check endpoint of `portcullis serve`
    Check,
    /// A layer in a program
    Code,
}

impl From<CheckedDoor> for Door {
    fn from(door: CheckedDoor) -> Self {
        match door {
            CheckedDoor::Proxy => Self::Proxy,
            CheckedDoor::Serve => Self::Serve,
            CheckedDoor::Check => Self::Check,
            CheckedDoor::Code => Self::Code,
        }
    }
}

impl Check {
    /// Prints what is wrong with the files. Returns whether they can be used.
    pub(crate) fn run(self) -> anyhow::Result<bool> {
        let mut is_usable = true;
        for file in &self.files {
            let findings = self.findings_of(file);
            findings::print(&findings, self.format)?;
            let is_refused = findings.has_errors() || self.deny_warnings && findings.has_warnings();
            is_usable &= !is_refused;
        }
        Ok(is_usable)
    }

    fn findings_of(&self, file: &Path) -> Diagnostics {
        // Only `portcullis serve` reads such files.
        if self.kind.of(file) == Kind::Envoy && matches!(self.door, None | Some(CheckedDoor::Serve)) {
            let files = envoy::Files::at(file);
            let loaded = envoy::Loader::new().merge_domains(self.merge_domains).load_path(&files);
            return loaded.map_or_else(identity, |descriptors| descriptors.warnings().clone());
        }
        let loader = match self.door {
            None => self.load.loader(file),
            Some(door) => self.load.loader_for(file, door.into()),
        };
        Rules::load(&loader).map_or_else(identity, |rules| rules.warnings().clone())
    }
}
