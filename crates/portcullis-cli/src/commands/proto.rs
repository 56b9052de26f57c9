//! `portcullis proto`: the files from which clients of Envoy's rate limit service are generated.

use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use clap::Args;
use portcullis_rls::PROTO_FILES;

/// Prints the `.proto` files of Envoy's rate limit service, or writes them to a folder.
///
/// They import each other by their paths below that folder, which is the `--proto_path` of protoc and the `-import-path` of grpcurl. With
/// reflection, grpcurl needs none of them.
#[derive(Debug, Args)]
pub(crate) struct Proto {
    /// The folder to write to, which is made if there is none. Files that differ are not replaced.
    #[arg(value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

impl Proto {
    /// Prints the texts, or the paths of what was written.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let mut printed = Vec::new();
        for (path, text) in PROTO_FILES {
            let Some(folder) = &self.folder else {
                printed.push(format!("// {path}\n{text}"));
                continue;
            };
            let file = folder.join(path);
            if let Ok(before) = fs::read(&file) {
                let file = file.display();
                ensure!(
                    before == text.as_bytes(),
                    "{file} has another text: remove it, or name another folder"
                );
            }
            let parent = file.parent().unwrap_or(folder);
            fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
            fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
            printed.push(file.display().to_string());
        }
        // The reader of a pipe may have closed it.
        let _ = writeln!(io::stdout(), "{}", printed.join("\n"));
        Ok(())
    }
}
