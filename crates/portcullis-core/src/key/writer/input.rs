//! The parts of an identity, and their fingerprints.

use super::sip::SipHash;

/// The parts that were written, each as a tag and a value with their lengths.
#[derive(Clone)]
pub(super) struct Input {
    hash: SipHash,
    /// The fingerprint of the first part, if there are more.
    slot: Option<u128>,
}

impl Input {
    #[inline]
    pub(super) fn new(key: [u8; 16]) -> Self {
        Self { hash: SipHash::new(key), slot: None }
    }

    /// Appends one part. The caller bounds the sum of all lengths.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "so that the length of a constant tag is a constant")]
    pub(super) fn append(&mut self, tag: &[u8], value: &[u8]) {
        if self.slot.is_none() && !self.hash.is_empty() {
            self.slot = Some(self.hash_so_far());
        }
        self.hash.write_part(tag, value);
    }

    // Not inlined into each part that is written.
    #[inline(never)]
    fn hash_so_far(&self) -> u128 {
        self.hash.finish()
    }

    /// The fingerprints of all parts and of the first part; `None` if nothing was written.
    #[inline]
    pub(super) fn hash(&self) -> Option<(u128, u128)> {
        if self.hash.is_empty() {
            return None;
        }
        let all = self.hash.finish();
        Some((all, self.slot.unwrap_or(all)))
    }
}
