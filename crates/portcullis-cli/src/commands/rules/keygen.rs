//! `portcullis rules keygen`: a key that signs rules.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use portcullis_config::remote::SigningKey;

/// Makes a key that signs rules, writes it to a file that only its owner may read, and prints the public key that verifies signatures.
///
/// An existing file is not replaced.
#[derive(Debug, Args)]
pub(crate) struct Keygen {
    /// The file of the secret key.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

impl Keygen {
    /// Writes the key.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let key = SigningKey::generate()?;
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file =
            options.open(&self.file).with_context(|| format!("cannot create {}", self.file.display()))?;
        writeln!(file, "{}", key.to_secret_text())?;
        println!("{}", key.verifying_key());
        Ok(())
    }
}
