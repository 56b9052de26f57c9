//! The secret of the fingerprints.

use alloc::string::{String, ToString as _};
use core::fmt;
use core::str::FromStr;

use super::KeyHasher;

/// A secret of 128 bits with an id.
///
/// All nodes that share a store must share the secret, or each of them counts separately. The id is part of the store's
/// keys, so that a secret can be changed: keys under the new id start empty, and those under the old one expire.
///
/// In text, as in an environment variable, a secret is `<id>:<32 hexadecimal digits>`.
///
/// ```
/// use portcullis::Secret;
///
/// let secret: Secret = "2026:000102030405060708090a0b0c0d0e0f".parse()?;
/// assert_eq!(secret.id(), "2026");
/// assert_eq!(format!("{secret:?}"), "Secret(2026)");
/// # Ok::<(), portcullis::SecretError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    id: String,
    key: [u8; 16],
}

impl Secret {
    /// The highest number of characters of an id.
    pub const MAX_ID: usize = 16;

    /// A secret of 16 bytes under an id of 1 to 16 characters from `A-Z a-z 0-9 . _ -`.
    ///
    /// # Errors
    ///
    /// If the id is empty, too long or has another character; if `bytes` is not 16 bytes long, or all bytes are the same.
    pub fn new(id: &str, bytes: &[u8]) -> Result<Self, SecretError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        if id.is_empty() || id.len() > Self::MAX_ID || !id.bytes().all(plain) {
            return Err(SecretError::Id);
        }
        let key: [u8; 16] = bytes.try_into().map_err(|_| SecretError::Length { bytes: bytes.len() })?;
        if key.iter().all(|byte| *byte == key[0]) {
            return Err(SecretError::Constant);
        }
        Ok(Self { id: id.to_string(), key })
    }

    /// A secret for one process, from 16 random bytes. Its id is `local`.
    pub fn random_for_this_process(entropy: [u8; 16]) -> Self {
        Self { id: "local".to_string(), key: entropy }
    }

    /// The published secret, the same everywhere, under the id `0`. With it, a reader of the store can find by trial which
    /// fingerprint belongs to which address. Suitable for a store that has no other readers.
    pub fn published() -> Self {
        Self { id: "0".to_string(), key: *b"portcullis:v1:ok" }
    }

    /// The id. It is part of the store's keys and not secret.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Starts a new key.
    #[inline]
    pub fn hasher(&self) -> KeyHasher {
        KeyHasher::new(self.key)
    }
}

impl FromStr for Secret {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Self, SecretError> {
        let (id, digits) = text.split_once(':').ok_or(SecretError::Text)?;
        if digits.len() != 32 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(SecretError::Text);
        }
        let number = u128::from_str_radix(digits, 16).map_err(|_| SecretError::Text)?;
        Self::new(id, &number.to_be_bytes())
    }
}

impl fmt::Debug for Secret {
    /// Prints the id, never the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({})", self.id)
    }
}

/// Why a secret is invalid. The error never contains the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// The id is empty, too long, or has a character that is not permitted.
    #[error("the id of a secret must be 1 to {} characters from A-Z a-z 0-9 . _ -", Secret::MAX_ID)]
    Id,
    /// The secret is not 16 bytes long.
    #[error("a secret must be 16 bytes, not {bytes}")]
    Length {
        /// The number of bytes.
        bytes: usize,
    },
    /// All bytes are the same.
    #[error("a secret must not repeat one byte: use 16 bytes from a random source")]
    Constant,
    /// The text does not have the form `<id>:<32 hexadecimal digits>`.
    #[error(
        "a secret must have the form `<id>:<32 hexadecimal digits>`; `openssl rand -hex 16` prints the digits"
    )]
    Text,
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec::Vec;
    use core::hash::Hasher as _;

    use proptest::prelude::*;
    use siphasher::sip128::{Hasher128 as _, SipHasher13};

    use super::*;
    use crate::key::writer::append_part;
    use crate::{Key, KeyWriteError};

    const TAGS: [&str; 5] = ["", "a", "ab", "user", "longer-than-a-word"];

    fn key(parts: &[(usize, Vec<u8>)]) -> Result<Key, KeyWriteError> {
        let mut hasher = Secret::published().hasher();
        for (tag, value) in parts {
            hasher.writer().part(TAGS[*tag], value);
        }
        hasher.finish()
    }

    #[test]
    fn errors_name_the_problem_but_never_print_the_secret() {
        assert_eq!(Secret::new("", &[1; 16]), Err(SecretError::Id));
        assert_eq!(Secret::new("seventeen-letters", b"0123456789abcdef"), Err(SecretError::Id));
        assert_eq!(Secret::new("a:b", b"0123456789abcdef"), Err(SecretError::Id));
        assert_eq!(Secret::new("a", b"short"), Err(SecretError::Length { bytes: 5 }));
        assert_eq!(Secret::new("a", &[0; 16]), Err(SecretError::Constant));
        for text in [
            "",
            "a",
            "a:",
            "a:xyz",
            "a:+00102030405060708090a0b0c0d0e0f",
            ":000102030405060708090a0b0c0d0e0f",
        ] {
            let error = text.parse::<Secret>().unwrap_err();
            assert!(matches!(error, SecretError::Text | SecretError::Id), "{text}");
        }
    }

    #[test]
    fn debug_shows_no_secret_and_no_identity() {
        let secret = Secret::new("a", b"0123456789abcdef").unwrap();
        let mut hasher = secret.hasher();
        hasher.writer().part("user", b"ada");
        assert_eq!(format!("{secret:?} {hasher:?}"), "Secret(a) KeyHasher { bytes: 7, .. }");
        assert_eq!(format!("{:?}", hasher.finish().unwrap()).len(), "Key(000000..)".len());
    }

    #[test]
    fn empty_and_too_long_identities_make_no_key() {
        assert_eq!(key(&[]), Err(KeyWriteError::Empty));
        let most = KeyHasher::MAX_BYTES - "user".len();
        assert!(key(&[(3, alloc::vec![b'x'; most])]).is_ok());
        let bytes = KeyHasher::MAX_BYTES + 1;
        assert_eq!(key(&[(3, alloc::vec![b'x'; most + 1])]), Err(KeyWriteError::TooLong { bytes }));
    }

    #[test]
    fn the_fingerprint_is_the_same_on_every_machine() {
        let key = key(&[(3, b"ada".to_vec())]).unwrap();
        assert_eq!(format!("{:032x}", key.fingerprint()), PINNED);
    }

    proptest! {
        #[test]
        fn different_parts_make_different_keys(
            left in proptest::collection::vec((0usize..TAGS.len(), proptest::collection::vec(0u8..3, 0..4)), 1..4),
            right in proptest::collection::vec((0usize..TAGS.len(), proptest::collection::vec(0u8..3, 0..4)), 1..4),
        ) {
            prop_assert_eq!(left == right, key(&left) == key(&right));
            prop_assert_eq!(left[0] == right[0], key(&left).unwrap().slot() == key(&right).unwrap().slot());
        }

        #[test]
        fn fingerprints_are_hashes_of_the_documented_bytes(
            parts in proptest::collection::vec((0usize..TAGS.len(), proptest::collection::vec(any::<u8>(), 0..120)), 1..5),
        ) {
            let key = key(&parts).unwrap();
            prop_assert_eq!((key.fingerprint(), key.slot()), of_bytes(&parts));
        }

        #[test]
        fn a_rewound_key_is_as_if_never_written(
            before in proptest::collection::vec((0usize..TAGS.len(), proptest::collection::vec(any::<u8>(), 0..60)), 1..4),
            undone in proptest::collection::vec(any::<u8>(), 0..200),
            after in proptest::collection::vec(any::<u8>(), 0..60),
        ) {
            let mut hasher = Secret::published().hasher();
            let mut writer = hasher.writer();
            for (tag, value) in &before {
                writer.part(TAGS[*tag], value);
            }
            let checkpoint = writer.checkpoint();
            writer.part("undone", &undone);
            writer.rewind(checkpoint);
            writer.part(TAGS[0], &after);
            let mut expected = before;
            expected.push((0, after));
            prop_assert_eq!(hasher.finish(), key(&expected));
        }
    }

    /// The fingerprints of all parts and of the first one, by another implementation that is fed with all bytes.
    fn of_bytes(parts: &[(usize, Vec<u8>)]) -> (u128, u128) {
        let mut bytes = Vec::new();
        let mut prefixes = Vec::new();
        for (tag, value) in parts {
            append_part(&mut bytes, TAGS[*tag].as_bytes(), value);
            let mut hash = SipHasher13::new_with_key(b"portcullis:v1:ok");
            hash.write(&bytes);
            prefixes.push(hash.finish128().as_u128());
        }
        (*prefixes.last().unwrap(), prefixes[0])
    }

    /// Computed by an independent implementation of SipHash-1-3-128, written from the paper.
    const PINNED: &str = "273cd58cdb10bdc4ee988d13b5450c7d";
}
