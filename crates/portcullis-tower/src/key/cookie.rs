//! Keys by cookie.

use std::borrow::Cow;

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
            for (_, value) in pairs(line).filter(|(name, _)| *name == self.name) {
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

    fn is_chosen_by_client(&self) -> bool {
        true
    }

    fn description(&self) -> Cow<'static, str> {
        Cow::Owned(format!("cookie {}", self.name))
    }
}

/// The names and values in one line, without the whitespace around them. Other parts of the line are skipped, as servers do.
///
/// Source: RFC 6265, section 4.2.1.
fn pairs(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let pairs = line.split(';').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.trim(), value.trim())).filter(|(name, _)| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_end_at_semicolons_and_begin_with_a_name() {
        let line = r#"a=1;b = "2;3" ; c=;=4; d;e==5=;;f=6"#;
        let expected = [("a", "1"), ("b", "\"2"), ("c", ""), ("e", "=5="), ("f", "6")];
        assert!(pairs(line).eq(expected));
        assert_eq!(pairs("").count() + pairs(";=;").count(), 0);
    }
}
