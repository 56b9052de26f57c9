//! Keys by a parameter of the query string.

use std::borrow::Cow;

use http::request::Parts;
use portcullis_core::KeyWriter;

use super::{Identity, KeyError, KeyExtractor, KeyForms, NamedPart};

/// The value of a parameter in the query string, form-decoded (`%20` and `+` are a space).
///
/// If the parameter is absent or empty, the identity is missing. A parameter that occurs several times is an error of the
/// client, because the inner service may use another one; so are a value that is not UTF-8 or contains the replacement character
/// U+FFFD, which decoders insert for invalid bytes, and one that is longer than a key may be.
///
/// Query strings are recorded in access logs and in the history of browsers. Do not put secrets into them.
///
/// ```
/// use http::Request;
/// use portcullis::Secret;
/// use portcullis::key::{Identity, KeyExtractor, Query};
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
    /// Uses the parameter of exactly this name.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }

    fn write_value(&self, value: &str, key: &mut KeyWriter<'_>) {
        key.part("query", value.as_bytes());
        key.part("query name", self.name.as_bytes());
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
        self.write_value(&value, key);
        Ok(Identity::Found)
    }

    fn is_chosen_by_client(&self) -> bool {
        true
    }

    fn expected(&self, _: &Parts) -> Option<Cow<'static, str>> {
        Some(Cow::Owned(format!("the query parameter {}", self.name)))
    }

    fn description(&self) -> Cow<'static, str> {
        Cow::Owned(format!("query {}", self.name))
    }

    fn forms(&self) -> KeyForms {
        KeyForms::of(self.clone())
    }
}

impl NamedPart for Query {
    fn name(&self) -> Cow<'_, str> {
        format!("query {}", self.name).into()
    }

    fn example(&self) -> Cow<'_, str> {
        "ada".into()
    }

    fn tags(&self) -> Vec<&str> {
        vec!["query", "query name"]
    }

    fn write(&self, value: &[u8], key: &mut KeyWriter<'_>) -> Result<(), KeyError> {
        match str::from_utf8(value) {
            Ok(value) if !value.is_empty() && !value.contains(char::REPLACEMENT_CHARACTER) => {
                self.write_value(value, key);
                Ok(())
            }
            _ => Err(KeyError::client("must be a text that is not empty, as it is decoded")),
        }
    }
}
