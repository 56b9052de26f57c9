//! The parts of an identity, and their fingerprints.

use super::sip::SipHash;

/// The parts that were written, each as a tag and a value with their lengths.
#[derive(Clone)]
pub(super) struct Input {
    hash: SipHash,
    /// The hash of the first part, if there are more. It is finished with that of all parts: a processor computes both at a time.
    first: Option<SipHash>,
}

impl Input {
    #[inline]
    pub(super) fn new(key: [u8; 16]) -> Self {
        Self { hash: SipHash::new(key), first: None }
    }

    /// Appends one part. The caller bounds the sum of all lengths.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "so that the length of a constant tag is a constant")]
    pub(super) fn append(&mut self, tag: &[u8], value: &[u8]) {
        if self.first.is_none() && !self.hash.is_empty() {
            self.first = Some(self.hash);
        }
        self.hash.write_part(tag, value);
    }

    /// The fingerprints of all parts and of the first part; `None` if nothing was written.
    #[inline]
    pub(super) fn hash(&self) -> Option<(u128, u128)> {
        if self.hash.is_empty() {
            return None;
        }
        let all = self.hash.finish();
        let slot = self.first.as_ref().map_or(all, SipHash::finish);
        Some((all, slot))
    }
}
