//! Where the token of the admin API comes from.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use clap::Args;
use http::HeaderValue;

/// The source of the token.
#[derive(Debug, Args)]
pub(super) struct TokenArguments {
    /// The file of the token, in place of the environment variable `PORTCULLIS_ADMIN_TOKEN`.
    #[arg(long, value_name = "FILE", global = true)]
    token_file: Option<PathBuf>,
}

/// A token that no output contains.
pub(super) struct Token(HeaderValue);

impl TokenArguments {
    pub(super) fn read(&self) -> anyhow::Result<Token> {
        if let Some(file) = &self.token_file {
            return Token::from_file(file);
        }
        let token = std::env::var(VARIABLE);
        let token = token.with_context(|| format!("no token: set {VARIABLE}, or give --token-file FILE"))?;
        Token::new(&token).context(VARIABLE)
    }
}

/// The token of a server: that in the file, else that of the environment; `None` without both.
///
/// # Errors
///
/// If the file cannot be read, or the token has fewer than 16 characters, is longer than 8 KiB, or has characters beyond printable ASCII.
pub fn of_server(file: Option<&Path>) -> anyhow::Result<Option<String>> {
    let (text, name) = match (file, std::env::var(VARIABLE)) {
        (Some(file), _) => (read(file)?, file.display().to_string()),
        (None, Ok(text)) => (text, VARIABLE.to_owned()),
        (None, Err(_)) => return Ok(None),
    };
    let token = checked(&text).context(name.clone())?;
    let length = token.len();
    ensure!(
        length >= MIN,
        "{name}: the token has {length} characters, which can be guessed: make one of at least {MIN}, as by `openssl rand -hex 16`"
    );
    Ok(Some(token.to_owned()))
}

fn read(file: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let read = File::open(file).and_then(|file| file.take(MAX + 1).read_to_string(&mut text));
    read.with_context(|| file.display().to_string())?;
    Ok(text)
}

/// The token in a text. White space around it is ignored, as editors add it.
fn checked(text: &str) -> anyhow::Result<&str> {
    let token = text.trim();
    ensure!(!token.is_empty(), "the token is empty");
    ensure!(text.len() as u64 <= MAX, "the token is longer than {MAX} bytes");
    let is_plain = token.bytes().all(|byte| byte.is_ascii_graphic());
    ensure!(is_plain, "the token has a space or a character that is not printable ASCII");
    Ok(token)
}

impl Token {
    fn from_file(file: &Path) -> anyhow::Result<Self> {
        Self::new(&read(file)?).with_context(|| file.display().to_string())
    }

    fn new(text: &str) -> anyhow::Result<Self> {
        let token = checked(text)?;
        let mut value = HeaderValue::from_str(&format!("Bearer {token}"))?;
        value.set_sensitive(true);
        Ok(Self(value))
    }

    /// The value of `authorization`.
    pub(super) fn authorization(&self) -> HeaderValue {
        self.0.clone()
    }
}

/// The fewest characters of the token of a server.
const MIN: usize = 16;
const VARIABLE: &str = "PORTCULLIS_ADMIN_TOKEN";

/// The longest token, in bytes.
const MAX: u64 = 8 * 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_around_a_token_is_ignored() {
        let token = Token::new("  s3cret\r\n").unwrap();
        assert_eq!(token.authorization(), "Bearer s3cret");
        assert_eq!(format!("{:?}", token.authorization()), "Sensitive");
    }

    #[test]
    fn what_is_no_token_is_refused() {
        for text in ["", " \n", "two words", "a\nb", "schlüssel", "\u{7f}", &"a".repeat(9_000)] {
            assert!(Token::new(text).is_err(), "{text:?}");
        }
    }
}
