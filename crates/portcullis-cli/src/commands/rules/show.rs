//! `portcullis rules show`: the document that instances follow.

use anyhow::{Context as _, ensure};
use clap::Args;
use portcullis_config::remote::{Document, VerifyingKey};
use portcullis_core::store::DocumentStore as _;

use super::Place;

/// Verifies the document in the store, and prints its number and its text.
#[derive(Debug, Args)]
pub(crate) struct Show {
    #[command(flatten)]
    place: Place,

    /// The public key that verifies its signature, as `portcullis rules keygen` printed it.
    #[arg(long, value_name = "KEY")]
    verify_key: VerifyingKey,
}

impl Show {
    /// Prints the document.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let name = &self.place.name;
        let read = self.place.open().await?.read(name, 2 * Document::MAX).await;
        let bytes = read.with_context(|| name.clone())?;
        ensure!(!bytes.is_empty(), "{name} does not exist");
        let document = Document::verify(&bytes, name, &self.verify_key)?;
        println!("number {}\n{}", document.number(), document.text());
        Ok(())
    }
}
