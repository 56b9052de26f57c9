//! The fingerprint of a key, for lists that operators read.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use portcullis_core::Key;

/// The fingerprint of the key that a policy has found for a request. See [`Event::fingerprints`](crate::Event::fingerprints).
///
/// It identifies a client without revealing it, as long as the [secret](portcullis_core::Secret) of the limiter is not known, and
/// [`key`](Self::key) is the key to block (`Limiter::block`), to grant a quota or to look up.
///
/// It is displayed as the 32 hexadecimal digits of [`Key::fingerprint`] if the key has one part, which distinguishes clients. Where a key
/// stores its state also depends on its first part, so a key of several parts is displayed as these digits, those of the first part and
/// the number of parts that distinguish clients, with hyphens between them. [`FromStr`] reads both forms.
///
/// ```
/// use portcullis::Secret;
/// use portcullis::event::Fingerprint;
///
/// let mut hasher = Secret::published().hasher();
/// hasher.writer().part("user", b"ada");
/// let user = Fingerprint::from(hasher.clone().finish()?);
/// assert_eq!(user.to_string().len(), 32);
/// assert_eq!(user.to_string().parse(), Ok(user));
///
/// hasher.writer().shared_part("route", b"/search");
/// let on_route = Fingerprint::from(hasher.finish()?);
/// assert_eq!(on_route.to_string().parse(), Ok(on_route));
/// assert!(on_route.to_string().ends_with(&format!("-{user}-1")));
/// # Ok::<(), portcullis::key::KeyWriteError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(Key);

impl Fingerprint {
    /// Returns the key.
    pub const fn key(self) -> Key {
        self.0
    }

    fn parts(self) -> (u128, u128, u8) {
        (self.0.fingerprint(), self.0.slot(), self.0.own_parts())
    }
}

impl From<Key> for Fingerprint {
    fn from(key: Key) -> Self {
        Self(key)
    }
}

impl PartialOrd for Fingerprint {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Fingerprint {
    fn cmp(&self, other: &Self) -> Ordering {
        self.parts().cmp(&other.parts())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (all, first, own_parts) = self.parts();
        write!(f, "{all:032x}")?;
        if (first, own_parts) == (all, 1) { Ok(()) } else { write!(f, "-{first:032x}-{own_parts}") }
    }
}

impl fmt::Debug for Fingerprint {
    /// Prints the first 24 bits: enough to distinguish two keys in a log, too few to look one up.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({:06x}..)", self.0.fingerprint() >> 104)
    }
}

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    fn from_str(text: &str) -> Result<Self, FingerprintError> {
        let mut parts = text.split('-');
        let all = parts.next().and_then(digits).ok_or(FingerprintError)?;
        let (first, own_parts) = match (parts.next(), parts.next(), parts.next()) {
            (None, ..) => (all, 1),
            (Some(first), Some(own), None)
                if own.len() <= 3 && own.bytes().all(|byte| byte.is_ascii_digit()) =>
            {
                (digits(first).ok_or(FingerprintError)?, own.parse().map_err(|_| FingerprintError)?)
            }
            _ => return Err(FingerprintError),
        };
        Ok(Self(Key::from_fingerprints(all, first, own_parts)))
    }
}

/// Exactly 32 hexadecimal digits.
fn digits(text: &str) -> Option<u128> {
    let are_digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if are_digits { u128::from_str_radix(text, 16).ok() } else { None }
}

/// A text is not a [`Fingerprint`].
// The text may be an identity, pasted by mistake, so it is not repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a fingerprint has 32 hexadecimal digits, or for a key of several parts two times 32 and a number, with hyphens between them"
)]
pub struct FingerprintError;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read_back() {
        for key in [(7, 7, 1), (7, 7, 0), (7, 8, 1), (u128::MAX, 0, 255)] {
            let fingerprint = Fingerprint(Key::from_fingerprints(key.0, key.1, key.2));
            assert_eq!(fingerprint.to_string().parse(), Ok(fingerprint));
            assert_eq!(fingerprint.key().fingerprint(), key.0);
        }
        assert_eq!(Fingerprint(Key::from_fingerprints(7, 7, 1)).to_string(), format!("{:032}", 7));
    }

    #[test]
    fn other_texts_are_refused() {
        let (digits, long) = ("0".repeat(32), "0".repeat(33));
        let both = format!("{digits}-{digits}");
        let refused = [
            String::new(),
            "7".to_owned(),
            long,
            format!("+{}", "0".repeat(31)),
            both.clone(),
            format!("{both}-256"),
            format!("{both}-+1"),
            format!("{both}-"),
            format!("{both}-1-1"),
            "é".repeat(16),
        ];
        for text in refused {
            assert_eq!(text.parse::<Fingerprint>(), Err(FingerprintError), "{text}");
        }
    }

    #[test]
    fn fingerprints_are_ordered_by_their_number() {
        let of = |number| Fingerprint(Key::from_fingerprints(number, 0, 1));
        assert!(of(1) < of(2) && of(1) == of(1));
    }
}
