//! Callers by a parameter of the query string.

use std::borrow::Cow;

use http::request::Parts;
use portcullis_core::KeyWriter;

use super::{Identity, KeyError, KeyExtractor};

/// The value of a parameter in the query string, decoded as forms are (`%20` and `+` are a space).
///
/// An absent or empty parameter is a missing identity. One that comes several times is the client's error, because the
/// next reader may go by another one; so is a value that is not UTF-8 or holds the replacement character U+FFFD, which
/// decoders put where something was not, and one that is longer than a key may be.
///
/// A query string stands in access logs and in the history of browsers. It is no place for a secret.
///
/// ```
/// use http::Request;
/// use portcullis_core::Secret;
/// use portcullis_tower::{Identity, KeyExtractor, Query};
///
/// let mut hasher = Secret::published().hasher();
/// let (parts, ()) = Request::get("/search?q=a&tenant=acme%20inc").body(())?.into_parts();
/// assert_eq!(Query::named("tenant").extract(&parts, &mut hasher.writer()), Ok(Identity::Found));
/// assert_eq!(Query::named("user").extract(&parts, &mut hasher.writer()), Ok(Identity::Missing));
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Query {
    name: String,
}

impl Query {
    /// The parameter of exactly this name.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }
}

impl KeyExtractor for Query {
    fn extract(&self, parts: &Parts, key: &mut KeyWriter<'_>) -> Result<Identity, KeyError> {
        let query = parts.uri.query().unwrap_or_default();
        let mut values = form_urlencoded::parse(query.as_bytes())
            .filter_map(|(name, value)| (name == self.name.as_str()).then_some(value));
        let value = values.next().unwrap_or(Cow::Borrowed(""));
        if values.next().is_some() {
            return Err(KeyError::client(format!("parameter {} was sent more than once", self.name)));
        }
        if value.is_empty() {
            return Ok(Identity::Missing);
        }
        if value.contains(char::REPLACEMENT_CHARACTER) {
            return Err(KeyError::client(format!("parameter {} is not UTF-8", self.name)));
        }
        key.part("query", value.as_bytes());
        key.part("query name", self.name.as_bytes());
        Ok(Identity::Found)
    }
}
