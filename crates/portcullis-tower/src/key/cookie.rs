//! Callers by a cookie.

use http::header::COOKIE;
use http::request::Parts;
use portcullis_core::KeyWriter;

use super::{Identity, KeyError, KeyExtractor};

/// The value of a cookie, byte for byte but for whitespace around it: neither percent-decoded nor freed of quotes.
///
/// An absent or empty cookie is a missing identity. One that comes several times, in one line or in several, is the
/// client's error, because the next reader may go by another one; so are a `Cookie` header that is not UTF-8 and a value
/// that is longer than a key may be. What is not of the form `name=value` is no cookie of this name.
///
/// A cookie that nobody verifies is a name that the caller chooses: see [`Header`](super::Header). One that is verified
/// may still be spelled in many ways, `31d4` and `%33%31d4`, if whoever verifies it decodes it first, and each spelling is
/// a key of its own: then charge what the verification has left, by [`Extension`](super::Extension).
///
/// ```
/// use http::Request;
/// use portcullis_core::Secret;
/// use portcullis_tower::{Cookie, Identity, KeyExtractor};
///
/// let mut hasher = Secret::published().hasher();
/// let (parts, ()) = Request::builder().header("cookie", "theme=dark; sid=31d4").body(())?.into_parts();
/// assert_eq!(Cookie::named("sid").extract(&parts, &mut hasher.writer()), Ok(Identity::Found));
/// assert_eq!(Cookie::named("SID").extract(&parts, &mut hasher.writer()), Ok(Identity::Missing));
/// # Ok::<(), http::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Cookie {
    name: String,
}

impl Cookie {
    /// The cookie of exactly this name.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }
}

impl KeyExtractor for Cookie {
    fn extract(&self, parts: &Parts, key: &mut KeyWriter<'_>) -> Result<Identity, KeyError> {
        let mut found = None;
        for line in parts.headers.get_all(COOKIE) {
            let line = str::from_utf8(line.as_bytes())
                .map_err(|_| KeyError::client("the cookie header is not UTF-8"))?;
            for cookie in cookie::Cookie::split_parse(line).filter_map(Result::ok) {
                if cookie.name() != self.name {
                    continue;
                }
                let value = cookie.value_raw().ok_or_else(|| KeyError::client("the cookie is malformed"))?;
                if found.replace(value).is_some() {
                    return Err(KeyError::client(format!("cookie {} was sent more than once", self.name)));
                }
            }
        }
        match found {
            Some(value) if !value.is_empty() => {
                key.part("cookie", value.as_bytes());
                key.part("cookie name", self.name.as_bytes());
                Ok(Identity::Found)
            }
            _ => Ok(Identity::Missing),
        }
    }
}
