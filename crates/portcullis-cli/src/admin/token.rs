//! Where the token of the admin API comes from.

use std::env::{self, VarError};
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
        let (text, name) = given(self.token_file.as_deref())?;
        let text = text.with_context(|| format!("no token: set {VARIABLE}, or give --token-file FILE"))?;
        Token::new(&text).context(name)
    }
}

/// The token of a server: that in the file, else that of the environment; `None` without both.
///
/// # Errors
///
/// If the file cannot be read, or the token has fewer than 16 characters, is longer than 8 KiB, or has characters beyond printable ASCII.
pub fn of_server(file: Option<&Path>) -> anyhow::Result<Option<String>> {
    let (Ok(text), name) = given(file)? else { return Ok(None) };
    let token = checked(&text).context(name.clone())?;
    let length = token.len();
    ensure!(
        length >= MIN,
        "{name}: the token has {length} characters, which can be guessed: make one of at least {MIN}, as by `openssl rand -hex 16`"
    );
    Ok(Some(token.to_owned()))
}

/// The text of the file, else that of the environment, with the name of its source.
fn given(file: Option<&Path>) -> anyhow::Result<(Result<String, VarError>, String)> {
    let Some(file) = file else { return Ok((env::var(VARIABLE), VARIABLE.to_owned())) };
    let (mut text, name) = (String::new(), file.display().to_string());
    let read = File::open(file).and_then(|file| file.take(MAX + 1).read_to_string(&mut text));
    read.with_context(|| name.clone())?;
    Ok((Ok(text), name))
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
