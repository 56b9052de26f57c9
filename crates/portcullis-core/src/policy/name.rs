//! The name of a policy.

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::ptr;
use core::str::FromStr;

use crate::Strategy;

/// The name of a policy: 1 to 64 printable ASCII characters, cheap to clone.
///
/// ```
/// use portcullis::PolicyName;
///
/// assert_eq!(PolicyName::new("search")?.as_str(), "search");
/// assert!("".parse::<PolicyName>().is_err());
/// # Ok::<(), portcullis::PolicyNameError>(())
/// ```
#[derive(Clone)]
pub struct PolicyName(Text);

#[derive(Clone)]
enum Text {
    Static(&'static str),
    /// A thin pointer, so that a name takes 16 bytes.
    Shared(Arc<String>),
}

/// Why a policy cannot have a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyNameError {
    /// It is empty.
    #[error(
        "the name of a policy is empty: it must be 1 to {} printable ASCII characters",
        PolicyName::MAX_LEN
    )]
    Empty,
    /// It is too long.
    #[error("the name of a policy has {length} characters: at most {} are permitted", PolicyName::MAX_LEN)]
    Long {
        /// The number of bytes.
        length: usize,
    },
    /// It has a character that is not printable ASCII.
    #[error("the name of a policy, {name:?}, has a character that is not printable ASCII")]
    Unprintable {
        /// The name.
        name: String,
    },
}

impl PolicyName {
    /// The highest number of characters in a name.
    pub const MAX_LEN: usize = 64;

    /// A name that is not a constant.
    ///
    /// # Errors
    ///
    /// If `name` is empty, longer than 64 characters or not printable ASCII.
    pub fn new(name: &str) -> Result<Self, PolicyNameError> {
        if name.is_empty() {
            return Err(PolicyNameError::Empty);
        }
        if name.len() > Self::MAX_LEN {
            return Err(PolicyNameError::Long { length: name.len() });
        }
        if !is_printable(name) {
            return Err(PolicyNameError::Unprintable { name: name.into() });
        }
        Ok(Self(Text::Shared(Arc::new(name.into()))))
    }

    /// A name written in the source.
    ///
    /// # Panics
    ///
    /// If `name` is invalid for [`PolicyName::new`].
    #[track_caller]
    pub const fn literal(name: &'static str /* no literal: `new` */) -> Self {
        assert!(
            !name.is_empty() && name.len() <= Self::MAX_LEN && is_printable(name),
            "the name of a policy must be 1 to 64 printable ASCII characters"
        );
        Self(Text::Static(name))
    }

    /// The name as text.
    #[inline]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Text::Static(name) => name,
            Text::Shared(name) => name,
        }
    }
}

impl FromStr for PolicyName {
    type Err = PolicyNameError;

    fn from_str(name: &str) -> Result<Self, PolicyNameError> {
        Self::new(name)
    }
}

impl AsRef<str> for PolicyName {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq for PolicyName {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        let (left, right) = (self.as_str(), other.as_str());
        // Most names that are compared are clones, which have one text.
        ptr::eq(left, right) || left == right
    }
}

impl Eq for PolicyName {}

impl Hash for PolicyName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Debug for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

const fn is_printable(name: &str) -> bool {
    let mut rest = name.as_bytes();
    while let [first, others @ ..] = rest {
        if !matches!(first, b' '..=b'~') {
            return false;
        }
        rest = others;
    }
    true
}

/// FNV-1a over the name, a byte that cannot occur in a name, and the tag of the strategy.
///
/// Source: Fowler, Noll, Vo, Eastlake, RFC 9923.
pub(super) const fn digest(name: &str, strategy: &Strategy) -> u128 {
    let hash = fnv1a(FNV_OFFSET_BASIS, name.as_bytes());
    fnv1a(fnv1a(hash, &[0]), strategy.tag().as_bytes())
}

/// Like [`digest`], but over the structure of the strategy as well, if it has one.
pub(super) const fn digest_of_states(name: &str, strategy: &Strategy) -> u128 {
    let (hash, structure) = (digest(name, strategy), strategy.structure());
    if structure.is_empty() { hash } else { fnv1a(fnv1a(hash, &[0]), structure.bytes()) }
}

const fn fnv1a(mut hash: u128, mut bytes: &[u8]) -> u128 {
    while let [first, rest @ ..] = bytes {
        hash = (hash ^ *first as u128).wrapping_mul(FNV_PRIME);
        bytes = rest;
    }
    hash
}

const FNV_OFFSET_BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const FNV_PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
