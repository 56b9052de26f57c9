//! Combinations of two extractors.

use std::borrow::Cow;

use http::HeaderValue;
use http::request::Parts;
use portcullis_core::KeyWriter;

use super::{Identity, KeyError, KeyExtractor};

/// Two identities as one. Made by [`KeyExtractor::and`].
#[derive(Clone, Copy, Debug)]
pub struct And<L, R> {
    left: L,
    right: R,
}

impl<L, R> And<L, R> {
    pub(super) fn new(left: L, right: R) -> Self {
        Self { left, right }
    }
}

impl<L: KeyExtractor, R: KeyExtractor> KeyExtractor for And<L, R> {
    fn extract(&self, parts: &Parts, key: &mut KeyWriter<'_>) -> Result<Identity, KeyError> {
        let left = self.left.extract(parts, key)?;
        if left == Identity::Exempt {
            return Ok(Identity::Exempt);
        }
        match self.right.extract(parts, key)? {
            Identity::Found => Ok(left),
            right => Ok(right),
        }
    }

    /// The challenge of the left half, or of the right if the left one has none.
    fn challenge(&self) -> Option<HeaderValue> {
        self.left.challenge().or_else(|| self.right.challenge())
    }

    /// `true` if either half returns `true`: no other client has both.
    fn counts_rejections(&self) -> bool {
        self.left.counts_rejections() || self.right.counts_rejections()
    }

    /// Asks the left half, which writes the first part.
    fn is_chosen_by_client(&self) -> bool {
        self.left.is_chosen_by_client()
    }

    /// `true` if both return `true`: one part that distinguishes clients is enough.
    fn is_shared(&self) -> bool {
        self.left.is_shared() && self.right.is_shared()
    }

    fn description(&self) -> Cow<'static, str> {
        Cow::Owned(format!("{} and {}", self.left.description(), self.right.description()))
    }
}

/// An identity, or another one where it is missing. Made by [`KeyExtractor::or`].
#[derive(Clone, Copy, Debug)]
pub struct Or<L, R> {
    left: L,
    right: R,
}

impl<L, R> Or<L, R> {
    pub(super) fn new(left: L, right: R) -> Self {
        Self { left, right }
    }
}

impl<L: KeyExtractor, R: KeyExtractor> KeyExtractor for Or<L, R> {
    fn extract(&self, parts: &Parts, key: &mut KeyWriter<'_>) -> Result<Identity, KeyError> {
        let before = key.checkpoint();
        match self.left.extract(parts, key)? {
            Identity::Missing => {
                key.rewind(before);
                self.right.extract(parts, key)
            }
            answer => Ok(answer),
        }
    }

    /// The challenge of the left half, or of the right if the left one has none.
    fn challenge(&self) -> Option<HeaderValue> {
        self.left.challenge().or_else(|| self.right.challenge())
    }

    /// `true` if both return `true`: the key may be either one.
    fn counts_rejections(&self) -> bool {
        self.left.counts_rejections() && self.right.counts_rejections()
    }

    /// `true` if either returns `true`: the key may be either one.
    fn is_chosen_by_client(&self) -> bool {
        self.left.is_chosen_by_client() || self.right.is_chosen_by_client()
    }

    /// `true` if both return `true`: a key that is shared in some requests only is left out when it is denied.
    fn is_shared(&self) -> bool {
        self.left.is_shared() && self.right.is_shared()
    }

    fn description(&self) -> Cow<'static, str> {
        Cow::Owned(format!("{} or {}", self.left.description(), self.right.description()))
    }
}
