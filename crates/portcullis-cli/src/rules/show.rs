//! `portcullis rules show`: the document that instances follow.

use anyhow::ensure;
use clap::Args;
use portcullis_config::remote::{Document, VerifyingKey};

use super::Place;

/// Verifies the document in the store, and prints its number and its text.
#[derive(Debug, Args)]
pub(crate) struct Show {
    #[command(flatten)]
    place: Place,

    /// The public key that has to have signed it, as `portcullis rules keygen` printed it.
    #[arg(long, value_name = "KEY")]
    verify_key: VerifyingKey,
}

impl Show {
    /// Prints the document.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let bytes = self.place.bytes().await?;
        ensure!(!bytes.is_empty(), "{} does not exist", self.place.name);
        let document = Document::verify(&bytes, &self.place.name, &self.verify_key)?;
        println!("number {}\n{}", document.number(), document.text());
        Ok(())
    }
}
