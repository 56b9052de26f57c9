//! The hash of the fingerprints.

/// `SipHash`-1-3 with 128 bits of output, which is fed part by part.
///
/// A client is shown no fingerprint, at most a wait that depends on some bits of one. So one round per word is enough, as it is for hash
/// maps.
///
/// A part is a header of eight bytes (the length of the tag, that of the value, and the first four bytes of the tag), the other bytes
/// of the tag up to a multiple of eight, and the value. A part after another begins at a multiple of eight. So two lists of parts
/// never have the same bytes, and nearly all bytes are read as whole words.
#[derive(Clone, Copy)]
pub(super) struct SipHash {
    v0: u64,
    v1: u64,
    v2: u64,
    v3: u64,
    /// The last bytes of the last value, less than a word.
    tail: u64,
    /// The number of all bytes.
    length: u64,
}

#[expect(
    clippy::inline_always,
    reason = "no loop is left of a constant tag, and a hash in memory takes longer to read than a round"
)]
impl SipHash {
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of the key")]
    pub(super) const fn new(key: [u8; 16]) -> Self {
        let key = u128::from_le_bytes(key);
        let (k0, k1) = (key as u64, (key >> 64) as u64);
        Self {
            v0: k0 ^ 0x736f_6d65_7073_6575,
            // 0xee selects the output of 128 bits.
            v1: k1 ^ 0x646f_7261_6e64_6f6d ^ 0xee,
            v2: k0 ^ 0x6c79_6765_6e65_7261,
            v3: k1 ^ 0x7465_6462_7974_6573,
            tail: 0,
            length: 0,
        }
    }

    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Adds a part, whose tag and value have less than 2^16 bytes each.
    #[inline(always)]
    pub(super) fn write_part(&mut self, tag: &[u8], value: &[u8]) {
        if !self.length.is_multiple_of(WORD) {
            self.compress(self.tail);
            self.length = self.length.next_multiple_of(WORD);
        }
        let (first, rest) = tag.split_at(tag.len().min(4));
        let lengths = tag.len() as u64 | (value.len() as u64).wrapping_shl(16);
        self.write_word(lengths | little_endian(first).wrapping_shl(32));
        for word in rest.chunks(8) {
            self.write_word(little_endian(word));
        }
        let (words, rest) = value.as_chunks::<8>();
        for word in words {
            self.compress(u64::from_le_bytes(*word));
        }
        self.tail = match value.last_chunk() {
            // Read with the bytes before them, which are shifted out; in two steps, because there may be none.
            Some(last) => {
                (u64::from_le_bytes(*last) >> 1).wrapping_shr(63_u32.wrapping_sub(bits(rest.len())))
            }
            None => little_endian(rest),
        };
        self.length = self.length.wrapping_add(value.len() as u64);
    }

    #[inline(always)]
    const fn write_word(&mut self, word: u64) {
        self.compress(word);
        self.length = self.length.wrapping_add(WORD);
    }

    #[inline(always)]
    pub(super) const fn finish(&self) -> u128 {
        let mut last = *self;
        last.compress((self.length << 56) | self.tail);
        last.v2 ^= 0xee;
        last.rounds_of_output();
        let low = last.output();
        last.v1 ^= 0xdd;
        last.rounds_of_output();
        (low as u128) | ((last.output() as u128) << 64)
    }

    #[inline(always)]
    const fn compress(&mut self, word: u64) {
        self.v3 ^= word;
        self.round();
        self.v0 ^= word;
    }

    #[inline(always)]
    const fn rounds_of_output(&mut self) {
        self.round();
        self.round();
        self.round();
    }

    #[inline(always)]
    const fn round(&mut self) {
        self.v0 = self.v0.wrapping_add(self.v1);
        self.v2 = self.v2.wrapping_add(self.v3);
        self.v1 = self.v1.rotate_left(13) ^ self.v0;
        self.v3 = self.v3.rotate_left(16) ^ self.v2;
        self.v0 = self.v0.rotate_left(32).wrapping_add(self.v3);
        self.v2 = self.v2.wrapping_add(self.v1);
        self.v1 = self.v1.rotate_left(17) ^ self.v2;
        self.v3 = self.v3.rotate_left(21) ^ self.v0;
        self.v2 = self.v2.rotate_left(32);
    }

    #[inline(always)]
    const fn output(&self) -> u64 {
        self.v0 ^ self.v1 ^ self.v2 ^ self.v3
    }
}

/// The number with these lowest bytes, at most eight.
#[inline(always)]
#[expect(clippy::inline_always, reason = "the bytes of a tag are a constant")]
fn little_endian(bytes: &[u8]) -> u64 {
    if let Ok(word) = bytes.try_into() {
        return u64::from_le_bytes(word);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        // Where the two overlap, they have the same bits.
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        return u64::from(first) | u64::from(last).wrapping_shl(bits(bytes.len()).wrapping_sub(u32::BITS));
    }
    let byte = |index: usize| bytes.get(index).map_or(0, |byte| u64::from(*byte).wrapping_shl(bits(index)));
    byte(0) | byte(1) | byte(2)
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "at most eight bytes")]
const fn bits(bytes: usize) -> u32 {
    (bytes as u32).wrapping_mul(8)
}

/// The bytes that are hashed together.
const WORD: u64 = 8;

#[cfg(test)]
pub(super) mod tests {
    use alloc::vec::Vec;
    use core::hash::Hasher as _;

    use proptest::prelude::*;
    use siphasher::sip128::{Hasher128 as _, SipHasher13};

    use super::*;

    /// The key and the input are the bytes from 0 on. Computed by an independent implementation of `SipHash`-c-d-128, written from the
    /// paper, which computes the published vectors of `SipHash`-2-4-128.
    #[test]
    fn the_hash_is_that_of_the_paper() {
        let mut hash = SipHash::new(core::array::from_fn(|index| u8::try_from(index).unwrap()));
        assert_eq!(hash.finish().to_le_bytes(), EMPTY);
        (hash.tail, hash.length) = (0, 1);
        assert_eq!(hash.finish().to_le_bytes(), ONE_BYTE);
    }

    #[test]
    fn a_number_has_the_bytes_of_a_text_of_any_length() {
        for length in 0..=8 {
            let text = &b"\xf1\x02\xf3\x04\xf5\x06\xf7\x08"[..length];
            let mut word = [0; 8];
            word[..length].copy_from_slice(text);
            assert_eq!(little_endian(text), u64::from_le_bytes(word));
        }
    }

    proptest! {
        #[test]
        fn parts_hash_as_their_bytes_by_another_implementation(
            key in any::<[u8; 16]>(),
            parts in proptest::collection::vec(
                (proptest::collection::vec(any::<u8>(), 0..20), proptest::collection::vec(any::<u8>(), 0..40)),
                0..5,
            ),
        ) {
            let (mut hash, mut bytes) = (SipHash::new(key), Vec::new());
            for (tag, value) in &parts {
                hash.write_part(tag, value);
                append_part(&mut bytes, tag, value);
            }
            let mut other = SipHasher13::new_with_key(&key);
            other.write(&bytes);
            prop_assert_eq!(hash.finish(), other.finish128().as_u128());
            prop_assert_eq!(hash.is_empty(), parts.is_empty());
        }
    }

    /// Appends the bytes of a part, as the documentation describes them.
    pub(in crate::key) fn append_part(bytes: &mut Vec<u8>, tag: &[u8], value: &[u8]) {
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes.extend(u16::try_from(tag.len()).unwrap().to_le_bytes());
        bytes.extend(u16::try_from(value.len()).unwrap().to_le_bytes());
        bytes.extend(tag);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes.extend(value);
    }

    const EMPTY: [u8; 16] =
        [0xe7, 0x7e, 0xbc, 0xb2, 0x27, 0x88, 0xa5, 0xbe, 0xfd, 0x62, 0xdb, 0x6a, 0xdd, 0x30, 0x30, 0x01];
    const ONE_BYTE: [u8; 16] =
        [0xfc, 0x6f, 0x37, 0x04, 0x60, 0xd3, 0xed, 0xa8, 0x5e, 0x05, 0x73, 0xcc, 0x2b, 0x2f, 0xf0, 0x63];
}
