//! The bytes of an identity, and their fingerprints.

use core::hash::Hasher as _;

use siphasher::sip128::{Hasher128 as _, SipHasher24};

/// The parts that were written, each as a tag and a value with their lengths.
#[derive(Clone)]
pub(super) struct Input {
    key: [u8; 16],
    written: Written,
}

#[derive(Clone)]
enum Written {
    /// One pass over contiguous bytes is several times faster than a hash that is fed in pieces.
    Short {
        bytes: [u8; SHORT],
        length: usize,
        /// The length of the first part.
        first: usize,
    },
    /// Longer than the buffer: the hash so far, and the fingerprint of the first part.
    Long { hash: SipHasher24, slot: u128 },
}

impl Input {
    #[inline]
    pub(super) fn new(key: [u8; 16]) -> Self {
        Self { key, written: Written::Short { bytes: [0; SHORT], length: 0, first: 0 } }
    }

    /// Appends one part. The caller bounds the sum of all lengths.
    #[inline]
    pub(super) fn append(&mut self, tag: &[u8], value: &[u8]) {
        if let Written::Short { bytes, length, first } = &mut self.written {
            let part = PREFIXES.saturating_add(tag.len()).saturating_add(value.len());
            let end = length.saturating_add(part);
            if let Some(free) = bytes.get_mut(*length..end) {
                put(put(free, tag), value);
                *first = if *length == 0 { end } else { *first };
                *length = end;
                return;
            }
        }
        self.append_long(tag, value);
    }

    /// Feeds the hash in pieces.
    #[inline(never)]
    fn append_long(&mut self, tag: &[u8], value: &[u8]) {
        let (mut hash, slot) = match &self.written {
            Written::Short { bytes, length, .. } => {
                let mut hash = self.hasher();
                hash.write(&bytes[..*length]);
                (hash, self.hash().map(|(_, slot)| slot))
            }
            Written::Long { hash, slot } => (*hash, Some(*slot)),
        };
        for piece in [tag, value] {
            hash.write(&(piece.len() as u64).to_le_bytes());
            hash.write(piece);
        }
        let slot = slot.unwrap_or_else(|| hash.finish128().as_u128());
        self.written = Written::Long { hash, slot };
    }

    /// The fingerprints of all parts and of the first part; `None` if nothing was written.
    pub(super) fn hash(&self) -> Option<(u128, u128)> {
        match &self.written {
            Written::Short { length: 0, .. } => None,
            Written::Short { bytes, length, first } => {
                let hasher = self.hasher();
                let all = hasher.hash(&bytes[..*length]).as_u128();
                let slot = if first == length { all } else { hasher.hash(&bytes[..*first]).as_u128() };
                Some((all, slot))
            }
            Written::Long { hash, slot } => Some((hash.finish128().as_u128(), *slot)),
        }
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of the key")]
    fn hasher(&self) -> SipHasher24 {
        // `new_with_key` is not inlined.
        let key = u128::from_le_bytes(self.key);
        SipHasher24::new_with_keys(key as u64, (key >> 64) as u64)
    }
}

/// Writes a piece with its length to the beginning of `free`, and returns the rest.
#[inline]
fn put<'b>(free: &'b mut [u8], piece: &[u8]) -> &'b mut [u8] {
    let (length, rest) = free.split_at_mut(PREFIX);
    length.copy_from_slice(&(piece.len() as u64).to_le_bytes());
    let (own, rest) = rest.split_at_mut(piece.len());
    own.copy_from_slice(piece);
    rest
}

/// Enough for an address, a name or a UUID under two tags, and cheap to move.
const SHORT: usize = 128;
/// The bytes of a length.
const PREFIX: usize = size_of::<u64>();
/// The bytes of both lengths of a part.
const PREFIXES: usize = 2 * PREFIX;
