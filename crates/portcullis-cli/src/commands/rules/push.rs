//! `portcullis rules push`: changes all instances that follow a document.

use std::path::PathBuf;

use clap::Args;
use portcullis_config::remote::{SigningKey, push, resolve};

use super::Place;
use crate::findings::{self, OutputFormat};
use crate::load::LoadArguments;

/// Signs changes of policies, and writes them to the store under the next number.
///
/// The file has the policies that change, with the fields that change: by default `limit`, `burst` and `mode`. Includes and variables are
/// resolved here. Exits with 1 if the file has errors.
#[derive(Debug, Args)]
pub(crate) struct Push {
    /// The changes.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    load: LoadArguments,

    #[command(flatten)]
    place: Place,

    /// The file of the secret key, made by `portcullis rules keygen`.
    #[arg(long, value_name = "KEYFILE")]
    key: PathBuf,

    /// The least number of the document: one above the last, if the server has lost it.
    #[arg(long, value_name = "N", default_value_t = 0)]
    at_least: u64,
}

impl Push {
    /// Writes the document. Returns whether the file could be used.
    pub(crate) async fn run(self) -> anyhow::Result<bool> {
        let key = SigningKey::from_file(&self.key)?;
        let text = match resolve(&self.load.loader(&self.file)) {
            Ok(text) => text,
            Err(findings) => {
                findings::print(&findings, OutputFormat::Text)?;
                return Ok(false);
            }
        };
        let store = self.place.open().await?;
        let document = push(&store, &self.place.name, &key, &text, self.at_least).await?;
        println!("{} has number {}", self.place.name, document.number());
        Ok(true)
    }
}
