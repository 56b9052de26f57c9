//! Callers by a header.

use http::HeaderName;
use http::header::InvalidHeaderName;
use http::request::Parts;
use portcullis_core::KeyWriter;

use super::{Identity, KeyError, KeyExtractor, without_whitespace};

/// The value of a header, byte for byte but for the spaces and tabs around it.
///
/// An absent or empty header, or one of whitespace alone, is a missing identity. One that comes several times is the client's error, because the
/// next reader may go by another line; so is a value that is longer than a key may be
/// ([`KeyHasher::MAX_BYTES`](portcullis_core::KeyHasher::MAX_BYTES)).
///
/// A header that nobody verifies is a name that the caller chooses: whoever invents a new value has a fresh budget. Put
/// it behind what verifies it, or add a policy by [`ClientIp`](super::ClientIp).
///
/// One that is verified may have several spellings that the verifier takes for one, such as with and without the padding
/// of base64, in upper and lower case, or percent-encoded. Each is a key of its own here. Charge what the verifier has
/// found instead, by [`Extension`](super::Extension), or have it refuse all spellings but one.
///
/// ```
/// use http::Request;
/// use portcullis_core::Secret;
/// use portcullis_tower::{Header, Identity, KeyExtractor};
///
/// let mut hasher = Secret::published().hasher();
/// let (parts, ()) = Request::builder().header("x-api-key", "k-17").body(())?.into_parts();
/// assert_eq!(Header::named("X-Api-Key").extract(&parts, &mut hasher.writer()), Ok(Identity::Found));
/// assert_eq!(Header::named("x-other").extract(&parts, &mut hasher.writer()), Ok(Identity::Missing));
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Header {
    name: HeaderName,
}

impl Header {
    /// The header of this name, in upper or lower case.
    ///
    /// # Panics
    ///
    /// If `name` cannot be the name of a header.
    #[track_caller]
    pub fn named(name: &str) -> Self {
        match Self::try_named(name) {
            Ok(header) => header,
            Err(error) => panic!("{error}: {name:?}"),
        }
    }

    /// Like [`Header::named`], for names that come from elsewhere.
    ///
    /// # Errors
    ///
    /// If `name` cannot be the name of a header.
    pub fn try_named(name: &str) -> Result<Self, InvalidHeaderName> {
        Ok(Self { name: name.parse()? })
    }
}

impl KeyExtractor for Header {
    fn extract(&self, parts: &Parts, key: &mut KeyWriter<'_>) -> Result<Identity, KeyError> {
        let mut values = parts.headers.get_all(&self.name).iter();
        let Some(value) = values.next() else { return Ok(Identity::Missing) };
        if values.next().is_some() {
            return Err(KeyError::client(format!("header {} was sent more than once", self.name)));
        }
        let value = without_whitespace(value);
        if value.is_empty() {
            return Ok(Identity::Missing);
        }
        // The value first: the first part says where a store keeps the key, and names are all the same.
        key.part("header", value);
        key.part("header name", self.name.as_str().as_bytes());
        Ok(Identity::Found)
    }
}
