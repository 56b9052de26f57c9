//! Hashes of the keys of small maps.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Makes hashers with random numbers of their own: a client that chooses keys cannot make them collide. For maps that calls look into
/// more than once, whose keys are a few words.
#[derive(Clone, Debug)]
pub(crate) struct KeyHash([u64; 2]);

impl Default for KeyHash {
    fn default() -> Self {
        let random = RandomState::new();
        Self([random.hash_one(0_u8), random.hash_one(1_u8) | 1])
    }
}

impl BuildHasher for KeyHash {
    type Hasher = KeyHasher;

    fn build_hasher(&self) -> KeyHasher {
        let [hash, factor] = self.0;
        KeyHasher { hash, factor }
    }
}

/// Folds each word into the hash by a multiplication in 128 bits, so that each bit of the hash depends on all bits of the words.
#[derive(Debug)]
pub(crate) struct KeyHasher {
    hash: u64,
    factor: u64,
}

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.hash
    }

    fn write(&mut self, bytes: &[u8]) {
        for bytes in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            self.write_u64(u64::from_le_bytes(word));
        }
        self.write_usize(bytes.len());
    }

    #[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.hash ^ word) * u128::from(self.factor);
        self.hash = (product as u64) ^ ((product >> 64) as u64).rotate_left(32);
    }

    #[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
    fn write_u128(&mut self, number: u128) {
        self.write_u64(number as u64);
        self.write_u64((number >> 64) as u64);
    }

    fn write_u16(&mut self, number: u16) {
        self.write_u64(number.into());
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    /// The discriminant of an enum.
    fn write_isize(&mut self, number: isize) {
        self.write_u64(number.cast_unsigned() as u64);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn hashes_of_near_keys_differ_in_all_bits() {
        let hash = KeyHash::default();
        let hashes: Vec<u64> = (0..4_096_u128).map(|key| hash.hash_one(Some(key))).collect();
        assert_eq!(hashes.iter().collect::<HashSet<_>>().len(), hashes.len());
        for bit in 0..64 {
            let set = hashes.iter().filter(|hash| *hash >> bit & 1 == 1).count();
            assert!((1_024..3_072).contains(&set), "bit {bit} is set in {set} of 4096");
        }
    }

    #[test]
    fn bytes_of_different_lengths_differ() {
        let hash = KeyHash::default();
        let zeros = [0; 20];
        let hashes: HashSet<u64> = (0..20).map(|length| hash.hash_one(&zeros[..length])).collect();
        assert_eq!(hashes.len(), 20);
    }
}
