//! Keys by cookie.

use http::header::COOKIE;
use http::request::Parts;
use portcullis_core::KeyWriter;

use super::{Identity, KeyError, KeyExtractor};

/// The value of a cookie, byte for byte except for whitespace around it: it is not percent-decoded, and quotes are kept.
///
/// If the cookie is absent or empty, the identity is missing. A cookie that occurs several times, in one line or in several, is
/// an error of the client, because the inner service may use another one; so are a `Cookie` header that is not UTF-8 and a value
/// that is longer than a key may be. Pairs that are not of the form `name=value` are ignored.
///
/// The client chooses a cookie that is not verified: see [`Header`](super::Header). A verified cookie may still have several
/// spellings, such as `31d4` and `%33%31d4`, if the verifier decodes it first, and each spelling is a separate key: in this case
/// charge the verified identity, by [`Extension`](super::Extension).
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
    /// Uses the cookie of exactly this name.
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
