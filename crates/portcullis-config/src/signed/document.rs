//! A signed document: a header of one line with its number and its signature, then the rules.

use super::hex;
use super::keys::{SigningKey, VerifyingKey};

/// The length of the header in bytes. It identifies a document: its number, and the signature of all of it.
pub(crate) const HEADER: usize = MAGIC.len() + DIGITS + 1 + 128 + 1;

/// Rules with a number and a signature, as a store keeps them.
///
/// ```
/// use portcullis::rules::remote::{Document, DocumentError, SigningKey};
///
/// let key = SigningKey::from_seed([7; 32]);
/// let document = Document::sign(&key, "shop", 1, r#"{"policy":{"search":{"limit":50}}}"#)?;
/// let bytes = document.to_bytes();
/// assert_eq!(Document::verify(&bytes, "shop", &key.verifying_key())?, document);
///
/// let other = SigningKey::from_seed([8; 32]).verifying_key();
/// assert_eq!(Document::verify(&bytes, "shop", &other), Err(DocumentError::Signature { number: 1 }));
/// # Ok::<(), DocumentError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    number: u64,
    text: String,
    signature: [u8; 64],
}

impl Document {
    /// The most bytes of the rules in a document: 256 KiB.
    pub const MAX: usize = 256 * 1_024;

    /// Signs rules under a number. `name` is that of the store's key: a document does not verify under another name.
    ///
    /// # Errors
    ///
    /// If the text has more than [`MAX`](Self::MAX) bytes.
    pub fn sign(
        key: &SigningKey,
        name: &str,
        number: u64,
        text: impl Into<String>,
    ) -> Result<Self, DocumentError> {
        let text = text.into();
        if text.len() > Self::MAX {
            return Err(DocumentError::TooLarge { bytes: text.len() });
        }
        let signature = key.sign(&message(name, number, &text));
        Ok(Self { number, text, signature })
    }

    /// Reads the bytes of a document, and verifies who signed it.
    ///
    /// # Errors
    ///
    /// If the bytes are no document, or too large, or not signed by the key under this name.
    pub fn verify(bytes: &[u8], name: &str, key: &VerifyingKey) -> Result<Self, DocumentError> {
        let (number, signature) = parse_header(bytes)?;
        let text = &bytes[HEADER..];
        if text.len() > Self::MAX {
            return Err(DocumentError::TooLarge { bytes: text.len() });
        }
        let text = std::str::from_utf8(text).map_err(|_| DocumentError::Form)?;
        if !key.verifies(&message(name, number, text), &signature) {
            return Err(DocumentError::Signature { number });
        }
        Ok(Self { number, text: text.to_owned(), signature })
    }

    /// The number that a document with this header claims, which is not verified.
    ///
    /// # Errors
    ///
    /// [`DocumentError::Form`] if the bytes do not begin with a header.
    pub fn claimed_number(bytes: &[u8]) -> Result<u64, DocumentError> {
        parse_header(bytes).map(|(number, _)| number)
    }

    /// The bytes that a store keeps: the header, then the text.
    pub fn to_bytes(&self) -> Vec<u8> {
        let Self { number, text, signature } = self;
        format!("{MAGIC}{number:0DIGITS$} {}\n{text}", hex::encode(signature)).into()
    }

    /// The number, which is higher than that of all documents before.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The rules, in JSON.
    pub fn text(&self) -> &str {
        &self.text
    }
}

fn parse_header(bytes: &[u8]) -> Result<(u64, [u8; 64]), DocumentError> {
    let parse = || {
        let header = std::str::from_utf8(bytes.get(..HEADER)?).ok()?;
        let (number, signature) = header.strip_prefix(MAGIC)?.strip_suffix('\n')?.split_once(' ')?;
        let is_number = number.len() == DIGITS && number.bytes().all(|byte| byte.is_ascii_digit());
        let number = if is_number { number.parse().ok()? } else { return None };
        // In one form, so that no two headers are of one document.
        let bytes = hex::decode(signature).filter(|bytes| hex::encode(bytes) == signature)?;
        Some((number, bytes))
    };
    parse().ok_or(DocumentError::Form)
}

/// What is signed. Lengths precede what has no fixed length, so that no two documents have one message.
fn message(name: &str, number: u64, text: &str) -> Vec<u8> {
    let mut message = Vec::with_capacity(DOMAIN.len() + 24 + name.len() + text.len());
    message.extend_from_slice(DOMAIN);
    message.extend_from_slice(&number.to_be_bytes());
    for part in [name, text] {
        message.extend_from_slice(&(part.len() as u64).to_be_bytes());
        message.extend_from_slice(part.as_bytes());
    }
    message
}

/// Why a document is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentError {
    /// The bytes do not begin with the header of a signed document.
    #[error("this is no signed document of rules: it lacks the header with a number and a signature")]
    Form,
    /// The rules are too large.
    #[error("the rules have {bytes} bytes, which is more than {max}", max = Document::MAX)]
    TooLarge {
        /// The bytes that were read, or of the text to sign.
        bytes: usize,
    },
    /// The document was not signed by the expected key, for this name, with this content.
    #[error(
        "document {number} is not signed by the key that the local file trusts, or was changed or cut off: push it with the secret key of \
         `verify_key`"
    )]
    Signature {
        /// The number that it claims.
        number: u64,
    },
    /// The document is older than one that was seen, or than the local file accepts.
    #[error(
        "document {number} is stale: the lowest number that is accepted is {lowest}, which `rules push --at-least {lowest}` gives it"
    )]
    Stale {
        /// Its number.
        number: u64,
        /// The lowest number that would be accepted.
        lowest: u64,
    },
}

const MAGIC: &str = "portcullis-rules 1 ";
const DIGITS: usize = 20;
/// The version of the form is a part of it.
const DOMAIN: &[u8] = b"portcullis rules document 1\0";

#[cfg(test)]
mod tests {
    use super::*;

    fn signed(number: u64) -> (Vec<u8>, VerifyingKey) {
        let key = SigningKey::from_seed([1; 32]);
        (Document::sign(&key, "shop", number, "{}").unwrap().to_bytes(), key.verifying_key())
    }

    #[test]
    fn a_document_cut_off_at_any_byte_is_refused() {
        let (bytes, key) = signed(u64::MAX);
        assert_eq!(Document::verify(&bytes, "shop", &key).unwrap().number(), u64::MAX);
        for length in 0..bytes.len() {
            assert!(Document::verify(&bytes[..length], "shop", &key).is_err(), "{length}");
        }
    }

    #[test]
    fn a_document_with_any_byte_changed_is_refused() {
        let (bytes, key) = signed(7);
        for index in 0..bytes.len() {
            for bit in [1, 0x20, 0x80] {
                let mut changed = bytes.clone();
                changed[index] ^= bit;
                assert!(Document::verify(&changed, "shop", &key).is_err(), "{index}");
            }
        }
    }

    #[test]
    fn a_document_is_valid_under_its_name_and_key_only() {
        let (bytes, key) = signed(7);
        let other = SigningKey::from_seed([2; 32]).verifying_key();
        for (name, key) in [("shop", other), ("other", key), ("", key)] {
            assert_eq!(Document::verify(&bytes, name, &key), Err(DocumentError::Signature { number: 7 }));
        }
    }

    #[test]
    fn a_document_beyond_the_bound_is_refused() {
        let key = SigningKey::from_seed([1; 32]);
        let text = " ".repeat(Document::MAX);
        let most = Document::sign(&key, "shop", 1, text.clone()).unwrap();
        let mut bytes = most.to_bytes();
        assert!(Document::verify(&bytes, "shop", &key.verifying_key()).is_ok());
        bytes.push(b' ');
        let refused = DocumentError::TooLarge { bytes: Document::MAX + 1 };
        assert_eq!(Document::verify(&bytes, "shop", &key.verifying_key()), Err(refused.clone()));
        assert_eq!(Document::sign(&key, "shop", 1, text + " "), Err(refused));
    }
}
