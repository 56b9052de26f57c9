//! Keys that sign rules, and verify them.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use ed25519_dalek::Signer as _;

use super::hex;

/// The key that signs rules: 32 bytes, secret. It belongs to those who push rules, never to a service that follows them.
///
/// `Debug` does not show it.
///
/// ```
/// use portcullis::rules::remote::SigningKey;
///
/// let key = SigningKey::from_seed([7; 32]);
/// let again: SigningKey = key.to_secret_text().parse()?;
/// assert_eq!(again.verifying_key(), key.verifying_key());
/// assert_eq!(format!("{key:?}"), "SigningKey(..)");
/// # Ok::<(), portcullis::rules::remote::KeyError>(())
/// ```
#[derive(Clone)]
pub struct SigningKey(ed25519_dalek::SigningKey);

/// The key that verifies who signed rules: 32 bytes, public, in text 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct VerifyingKey(ed25519_dalek::VerifyingKey);

impl SigningKey {
    /// Makes a key from 32 bytes, which must be random and secret.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self(ed25519_dalek::SigningKey::from_bytes(&seed))
    }

    /// Makes a new key from the random numbers of the system.
    ///
    /// # Errors
    ///
    /// If the system has none.
    pub fn generate() -> Result<Self, KeyError> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(|error| KeyError::Random(error.to_string()))?;
        Ok(Self::from_seed(seed))
    }

    /// Reads the key from a file with its text.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or on Unix if others than its owner may read it; the error names the file and never shows its
    /// contents.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, KeyError> {
        let path = path.as_ref();
        let unreadable =
            |error: std::io::Error| KeyError::Unreadable(path.display().to_string(), error.to_string());
        let file = std::fs::File::open(path).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = metadata.permissions().mode() & 0o777;
            if mode & 0o077 != 0 {
                return Err(KeyError::Exposed(path.display().to_string(), mode));
            }
        }
        if metadata.len() > MAX_FILE {
            return Err(KeyError::Form("secret"));
        }
        let mut text = String::new();
        std::io::Read::read_to_string(&mut std::io::Read::take(file, MAX_FILE), &mut text)
            .map_err(unreadable)?;
        text.parse()
    }

    /// The key as 64 hexadecimal digits, for a file that only its owner may read.
    pub fn to_secret_text(&self) -> String {
        hex::encode(self.0.as_bytes())
    }

    /// The key that verifies what this one signs.
    pub fn verifying_key(&self) -> VerifyingKey {
        VerifyingKey(self.0.verifying_key())
    }

    pub(super) fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.0.sign(message).to_bytes()
    }
}

impl FromStr for SigningKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        hex::decode(text.trim()).map(Self::from_seed).ok_or(KeyError::Form("secret"))
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(..)")
    }
}

impl VerifyingKey {
    /// Whether a message was signed by the key that belongs to this one.
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        let signature = ed25519_dalek::Signature::from_bytes(signature);
        self.0.verify_strict(message, &signature).is_ok()
    }
}

impl FromStr for VerifyingKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let bytes = hex::decode(text.trim()).ok_or(KeyError::Form("public"))?;
        let key = ed25519_dalek::VerifyingKey::from_bytes(&bytes).map_err(|_| KeyError::Form("public"))?;
        if key.is_weak() { Err(KeyError::Weak) } else { Ok(Self(key)) }
    }
}

impl fmt::Display for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0.as_bytes()))
    }
}

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerifyingKey({self})")
    }
}

/// Why a key cannot be used. Never shows the key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The text is not that of a key.
    #[error("this is no {0} key: it has 64 hexadecimal digits")]
    Form(&'static str),
    /// Anybody can sign for the public key.
    #[error(
        "this public key is weak, and would accept signatures that nobody made: make one by `portcullis rules keygen` (in code `SigningKey`)"
    )]
    Weak,
    /// The file cannot be read.
    #[error("the key file {0} cannot be read: {1}")]
    Unreadable(String, String),
    /// Others than the owner of the file may read it.
    #[error(
        "the key file {0} has the mode {1:03o}, so that others than its owner may read it: `chmod 600` it"
    )]
    Exposed(String, u32),
    /// The system has no random numbers.
    #[error("there are no random numbers for a key: {0}")]
    Random(String),
}

/// More than a key and the white space around it.
const MAX_FILE: u64 = 1_024;
