//! How rules are read from files.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use clap::Args;
use portcullis_config::{Door, Loader, Rules};

use crate::findings;

/// How the variables of a file are resolved.
#[derive(Clone, Debug, Args)]
pub struct LoadArguments {
    /// A variable for `${NAME}` in the file, in place of the environment's. May be given several times.
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = parse_variable)]
    variables: Vec<(String, String)>,

    /// Ignores the variables of the environment: only those of `--env` and the defaults in the file count.
    #[arg(long)]
    no_env: bool,
}

impl LoadArguments {
    /// The rules in a file, with findings on standard error. `None` if they have errors.
    ///
    /// # Errors
    ///
    /// If the findings cannot be written.
    pub fn rules(&self, file: &Path) -> io::Result<Option<Rules>> {
        findings::usable(Rules::load(&self.loader(file)), Rules::warnings)
    }

    /// The source of rules in a file. Names that only a program has are accepted.
    pub fn loader(&self, file: &Path) -> Loader {
        self.file(file).accept_unknown_names()
    }

    /// The source of rules in a file of which a door can do everything. Around code there is a program, which has names of its own.
    pub fn loader_for(&self, file: &Path, door: Door) -> Loader {
        match door {
            Door::Code => self.loader(file),
            door => self.file(file).for_door(door),
        }
    }

    fn file(&self, file: &Path) -> Loader {
        let variables: HashMap<_, _> = self.variables.iter().cloned().collect();
        let no_env = self.no_env;
        Loader::file(file).environment(move |name| {
            let from_environment = || std::env::var(name).ok().filter(|_| !no_env);
            variables.get(name).cloned().or_else(from_environment)
        })
    }
}

fn parse_variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("a variable is written as NAME=VALUE".to_owned()),
    }
}
