//! The hash of the fingerprints.

/// `SipHash`-2-4 with 128 bits of output, for short inputs in few pieces, most of them words.
///
/// Its state is seven numbers, which stay in registers: nothing is copied to a buffer. A piece is read in whole words wherever it
/// begins. A general implementation takes several times as long for pieces of a few bytes.
///
/// Source: Aumasson and Bernstein, "`SipHash`: a fast short-input PRF" (2012), and the authors' reference implementation for
/// the output of 128 bits.
#[derive(Clone, Copy)]
pub(super) struct SipHash {
    v0: u64,
    v1: u64,
    v2: u64,
    v3: u64,
    /// The bytes after the last whole word, in its lower part.
    tail: u64,
    /// The number of bits in the tail: whole bytes, less than 64.
    tail_bits: u32,
    /// The number of bytes written.
    length: u64,
}

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
            tail_bits: 0,
            length: 0,
        }
    }

    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Writes the eight bytes of a number, the lowest first.
    #[inline]
    pub(super) const fn write_word(&mut self, word: u64) {
        self.compress(self.tail | word.wrapping_shl(self.tail_bits));
        // A shift by 64 in two steps: if there is no tail, none is left.
        self.tail = (word >> 1).wrapping_shr(63_u32.wrapping_sub(self.tail_bits));
        self.length = self.length.wrapping_add(8);
    }

    /// Writes the length of `bytes` as a word, then the bytes.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the length of a constant is a constant")]
    pub(super) fn write_piece(&mut self, bytes: &[u8]) {
        self.write_word(bytes.len() as u64);
        self.write(bytes);
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as above")]
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.write_word(u64::from_le_bytes(*word));
        }
        let (word, bits) = little_endian(rest);
        self.write_less_than_a_word(word, bits);
    }

    /// Writes the lowest bits of a number that has no others: whole bytes, less than 64.
    #[inline]
    const fn write_less_than_a_word(&mut self, word: u64, bits: u32) {
        let filled = self.tail | word.wrapping_shl(self.tail_bits);
        let filled_bits = self.tail_bits.wrapping_add(bits);
        self.tail = if filled_bits < 64 {
            filled
        } else {
            self.compress(filled);
            // Less than a word fills one only together with a tail, so the shift is by less than 64.
            word.wrapping_shr(64_u32.wrapping_sub(self.tail_bits))
        };
        self.tail_bits = filled_bits & 63;
        self.length = self.length.wrapping_add((bits >> 3) as u64);
    }

    /// The hash of what was written.
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

    #[inline]
    const fn compress(&mut self, word: u64) {
        self.v3 ^= word;
        self.round();
        self.round();
        self.v0 ^= word;
    }

    #[inline]
    const fn rounds_of_output(&mut self) {
        self.round();
        self.round();
        self.round();
        self.round();
    }

    #[inline]
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

    #[inline]
    const fn output(&self) -> u64 {
        self.v0 ^ self.v1 ^ self.v2 ^ self.v3
    }
}

/// The number with these lowest bytes, less than eight, and the number of their bits.
#[inline]
fn little_endian(bytes: &[u8]) -> (u64, u32) {
    let (mut number, mut bits, mut rest) = (0, 0_u32, bytes);
    if let Some((four, others)) = rest.split_first_chunk() {
        (number, bits, rest) = (u64::from(u32::from_le_bytes(*four)), 32, others);
    }
    if let Some((two, others)) = rest.split_first_chunk() {
        number |= u64::from(u16::from_le_bytes(*two)).wrapping_shl(bits);
        (bits, rest) = (bits.wrapping_add(16), others);
    }
    match rest {
        [one] => (number | u64::from(*one).wrapping_shl(bits), bits.wrapping_add(8)),
        _ => (number, bits),
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;
    use core::hash::Hasher as _;

    use proptest::prelude::*;
    use siphasher::sip128::{Hasher128 as _, SipHasher24};

    use super::*;

    /// A vector of the reference implementation: the key and the input are the bytes from 0 on.
    #[test]
    fn the_hash_is_that_of_the_reference() {
        let mut hash = SipHash::new(core::array::from_fn(|index| u8::try_from(index).unwrap()));
        assert_eq!(hash.finish().to_le_bytes(), EMPTY);
        hash.write(&[0]);
        assert_eq!(hash.finish().to_le_bytes(), ONE_BYTE);
    }

    proptest! {
        #[test]
        fn pieces_of_any_length_hash_as_by_another_implementation(
            key in any::<[u8; 16]>(),
            pieces in proptest::collection::vec(
                prop_oneof![
                    any::<u64>().prop_map(Ok::<u64, Vec<u8>>),
                    proptest::collection::vec(any::<u8>(), 0..40).prop_map(Err::<u64, Vec<u8>>),
                ],
                0..8,
            ),
        ) {
            let (mut hash, mut other) = (SipHash::new(key), SipHasher24::new_with_key(&key));
            for piece in pieces {
                let bytes: Vec<u8> = match piece {
                    Ok(word) => {
                        hash.write_word(word);
                        word.to_le_bytes().into()
                    }
                    Err(bytes) => {
                        hash.write(&bytes);
                        bytes
                    }
                };
                other.write(&bytes);
                prop_assert_eq!(hash.finish(), other.finish128().as_u128());
            }
        }
    }

    const EMPTY: [u8; 16] =
        [0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93];
    const ONE_BYTE: [u8; 16] =
        [0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc, 0x45];
}
