//! Makes keys from the parts of an identity.

mod input;
mod sip;

use core::fmt;

use input::Input;

use super::Key;
use crate::compact::Wide;

#[cfg(test)]
pub(super) use sip::tests::append_part;

/// Makes one [`Key`] from the parts that are written to it. Created by [`Secret::hasher`](super::Secret::hasher).
#[derive(Clone)]
pub struct KeyHasher {
    input: Input,
    own_parts: u8,
    bytes: usize,
}

impl KeyHasher {
    /// The highest number of bytes in the tags and values of one key together, 8 KiB. More is an error, so that a client
    /// cannot make the server hash megabytes.
    pub const MAX_BYTES: usize = 8 * 1024;

    #[inline]
    pub(super) fn new(key: [u8; 16]) -> Self {
        Self { input: Input::new(key), own_parts: 0, bytes: 0 }
    }

    /// The writer for the parts of the identity.
    #[inline]
    pub fn writer(&mut self) -> KeyWriter<'_> {
        KeyWriter { hasher: self }
    }

    /// The key of all parts that were written.
    ///
    /// # Errors
    ///
    /// If nothing was written, which would put all clients under one key, or more than
    /// [`MAX_BYTES`](KeyHasher::MAX_BYTES).
    // Always inlined: a key that is passed through memory is written in words and read in pairs of them, which waits for the writes.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as above")]
    pub fn finish(self) -> Result<Key, KeyWriteError> {
        if self.bytes > Self::MAX_BYTES {
            return Err(KeyWriteError::TooLong { bytes: self.bytes });
        }
        let (fingerprint, slot) = self.input.hash().ok_or(KeyWriteError::Empty)?;
        let (fingerprint, slot) = (Wide::new(fingerprint), Wide::new(slot));
        Ok(Key { fingerprint, slot, own_parts: self.own_parts })
    }
}

impl fmt::Debug for KeyHasher {
    /// Prints the number of bytes written, never their values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyHasher").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// Accepts the parts of an identity, each with a tag that names its kind.
///
/// Parts are length-prefixed, so that different sequences of parts are hashed differently: `("a", "bc")` differs from
/// `("ab", "c")`, and both from `("a", "b"), ("", "c")`.
///
/// ```
/// use portcullis::Secret;
///
/// let mut hasher = Secret::random_for_this_process([7; 16]).hasher();
/// let mut key = hasher.writer();
/// key.part("tenant", b"acme");
/// let before = key.checkpoint();
/// key.part("user", b"half an identity");
/// key.rewind(before);
/// ```
#[derive(Debug)]
pub struct KeyWriter<'a> {
    hasher: &'a mut KeyHasher,
}

impl KeyWriter<'_> {
    /// Adds one part: a tag that names its kind, and its value.
    ///
    /// Once the sum exceeds 8 192 bytes, nothing more is hashed and no key is made.
    // Always inlined, with what it calls: the tag is nearly always a constant, whose bytes then need no loop.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "the compiler takes it for too large, because it does not see the constant"
    )]
    pub fn part(&mut self, tag: &str, value: &[u8]) {
        self.hasher.own_parts = self.hasher.own_parts.saturating_add(1);
        self.shared_part(tag, value);
    }

    /// Adds a part that does not distinguish clients, such as a route or a constant. In all other respects it is like any
    /// other part.
    ///
    /// A key with only such parts is [shared](Key::is_shared): it is not used to limit how many of the waiting requests may
    /// belong to one client.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as above")]
    pub fn shared_part(&mut self, tag: &str, value: &[u8]) {
        let hasher = &mut *self.hasher;
        hasher.bytes = hasher.bytes.saturating_add(tag.len()).saturating_add(value.len());
        if hasher.bytes > KeyHasher::MAX_BYTES {
            return;
        }
        hasher.input.append(tag.as_bytes(), value);
    }

    /// Saves what is written so far.
    pub fn checkpoint(&self) -> KeyHasher {
        self.hasher.clone()
    }

    /// Restores what was written at a [`checkpoint`](KeyWriter::checkpoint).
    pub fn rewind(&mut self, checkpoint: KeyHasher) {
        *self.hasher = checkpoint;
    }
}

/// Why an identity makes no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyWriteError {
    /// Nothing was written.
    #[error("an identity was found, but no part of it was written to the key")]
    Empty,
    /// More than 8 192 bytes were written.
    #[error("the identity has {bytes} bytes, more than the {} that a key may have", KeyHasher::MAX_BYTES)]
    TooLong {
        /// The number of bytes in all tags and values.
        bytes: usize,
    },
}
