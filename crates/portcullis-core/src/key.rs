//! Keys: the identities that are charged.

mod secret;
mod writer;

use core::fmt;

use crate::compact::Wide;

pub use secret::{Secret, SecretError};
pub use writer::{KeyHasher, KeyWriteError, KeyWriter};

/// The identity that is charged: a 128-bit fingerprint of all its parts, under a secret.
///
/// A key does not reveal the identity, and without the secret an identity cannot be chosen to have a certain key. The policy
/// is not part of it: an identity has the same key under every policy. A key also holds the fingerprint of its first part,
/// its [`slot`](Key::slot), so that a store with several servers can keep `user` and `user and route` on one of them.
///
/// Source: `SipHash` with 128 bits of output, Aumasson and Bernstein, "`SipHash`: a fast short-input PRF" (2012), with one round
/// for each word and three for each half of the output, as the hash maps of the standard library have them.
///
/// ```
/// use portcullis::Secret;
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
/// # Ok::<(), portcullis::key::KeyWriteError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    fingerprint: Wide,
    slot: Wide,
    own_parts: u8,
}

impl Key {
    /// A key that was taken apart, as to show it to an operator: the fingerprint of all parts, that of the first part, and the number of
    /// parts that distinguish clients. Keys of requests are made by [`Secret::hasher`].
    ///
    /// ```
    /// use portcullis::Secret;
    /// use portcullis::key::Key;
    ///
    /// let mut hasher = Secret::published().hasher();
    /// hasher.writer().part("user", b"ada");
    /// let ada = hasher.finish()?;
    /// assert_eq!(Key::from_fingerprints(ada.fingerprint(), ada.slot(), ada.own_parts()), ada);
    /// # Ok::<(), portcullis::key::KeyWriteError>(())
    /// ```
    pub const fn from_fingerprints(fingerprint: u128, slot: u128, own_parts: u8) -> Self {
        Self { fingerprint: Wide::new(fingerprint), slot: Wide::new(slot), own_parts }
    }

    /// The fingerprint of all parts, which identifies the key.
    #[inline]
    pub const fn fingerprint(&self) -> u128 {
        self.fingerprint.get()
    }

    /// The fingerprint of the first part alone: keys with the same slot are kept on one server. Equal to
    /// [`fingerprint`](Key::fingerprint) for a key of one part.
    #[inline]
    pub const fn slot(&self) -> u128 {
        self.slot.get()
    }

    /// The number of parts that distinguish clients: all but the [shared](KeyWriter::shared_part) ones, at most 255.
    ///
    /// The key with more such parts is narrower: fewer requests have it.
    pub const fn own_parts(&self) -> u8 {
        self.own_parts
    }

    /// Whether unrelated clients share this key: it has no part that distinguishes clients.
    ///
    /// ```
    /// use portcullis::Secret;
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
    /// # Ok::<(), portcullis::key::KeyWriteError>(())
    /// ```
    pub const fn is_shared(&self) -> bool {
        self.own_parts == 0
    }
}

impl fmt::Debug for Key {
    /// Prints the first 24 bits: enough to distinguish two keys in a log, too few to look one up.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:06x}..)", self.fingerprint() >> 104)
    }
}
