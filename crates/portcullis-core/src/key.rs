//! Who is charged.

mod secret;
mod writer;

use core::fmt;

pub use secret::{Secret, SecretError};
pub use writer::{KeyHasher, KeyWriteError, KeyWriter};

/// Who is charged: a 128-bit fingerprint of everything an identity consists of, under a secret.
///
/// No identity can be read from a key, and without the secret none can be steered to a chosen one. The policy is not
/// part of it: one caller has the same key under every policy. A key also remembers the fingerprint of its first part,
/// its [`slot`](Key::slot), so that a store that is spread over servers can keep `user` and `user and route` together.
///
/// Source: `SipHash`-2-4 with 128 bits of output, Aumasson and Bernstein, "`SipHash`: a fast short-input PRF" (2012).
///
/// ```
/// use portcullis_core::Secret;
///
/// let secret = Secret::random_for_this_process([7; 16]);
/// let key = |parts: &[(&'static str, &str)]| {
///     let mut hasher = secret.hasher();
///     for (tag, value) in parts {
///         hasher.writer().part(tag, value.as_bytes());
///     }
///     hasher.finish()
/// };
/// let user = key(&[("user", "ada")])?;
/// let user_and_route = key(&[("user", "ada"), ("route", "/search")])?;
/// assert_ne!(user, user_and_route);
/// assert_eq!(user.slot(), user_and_route.slot());
/// # Ok::<(), portcullis_core::KeyWriteError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    fingerprint: u128,
    slot: u128,
    own_parts: u8,
}

impl Key {
    /// The fingerprint of all parts: what tells one caller from another.
    pub const fn fingerprint(&self) -> u128 {
        self.fingerprint
    }

    /// The fingerprint of the first part alone: what belongs together on one server. Equal to
    /// [`fingerprint`](Key::fingerprint) for a key of one part.
    pub const fn slot(&self) -> u128 {
        self.slot
    }

    /// The number of parts that tell callers apart: all but the [shared](KeyWriter::shared_part) ones, at most 255.
    ///
    /// Of two keys of one request the one with more such parts is the narrower: fewer requests have it.
    pub const fn own_parts(&self) -> u8 {
        self.own_parts
    }

    /// Whether callers who have nothing to do with each other have this key: it has no part of a caller's own.
    ///
    /// ```
    /// use portcullis_core::Secret;
    ///
    /// let key = |shared: &'static str, own: Option<&str>| {
    ///     let mut hasher = Secret::published().hasher();
    ///     hasher.writer().shared_part("route", shared.as_bytes());
    ///     if let Some(user) = own {
    ///         hasher.writer().part("user", user.as_bytes());
    ///     }
    ///     hasher.finish()
    /// };
    /// assert!(key("/search", None)?.is_shared());
    /// assert!(!key("/search", Some("ada"))?.is_shared());
    /// # Ok::<(), portcullis_core::KeyWriteError>(())
    /// ```
    pub const fn is_shared(&self) -> bool {
        self.own_parts == 0
    }
}

impl fmt::Debug for Key {
    /// Prints the first 24 bits, enough to tell two keys in a log apart and too few to look one up.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:06x}..)", self.fingerprint >> 104)
    }
}
