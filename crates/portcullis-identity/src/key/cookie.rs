//! Keys by cookie.

use std::borrow::Cow;

use http::header::COOKIE;
use http::request::Parts;
use portcullis_core::KeyWriter;

use super::{Identity, KeyError, KeyExtractor, KeyForms, NamedPart};

/// The value of a cookie, byte for byte except for whitespace around it: it is not percent-decoded, and quotes are kept.
///
/// If the cookie is absent or empty, the identity is missing. If it occurs several times with different values, in one line or in
/// several, the first counts, or by [`last`](Self::last) the last: choose the one that your service reads, because browsers send
/// several where two paths or domains have set one. All other cookies are ignored, and so are pairs that are not of the form
/// `name=value`. A value that is longer than a key may be is an error of the client.
///
/// The client chooses a cookie that is not verified: see [`Header`](super::Header). A verified cookie may still have several
/// spellings, such as `31d4` and `%33%31d4`, if the verifier decodes it first, and each spelling is a separate key: in this case
/// charge the verified identity, by [`Extension`](super::Extension).
///
/// ```
/// use http::Request;
/// use portcullis::Secret;
/// use portcullis::key::{Cookie, Identity, KeyExtractor};
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
    is_last: bool,
}

impl Cookie {
    /// Uses the cookie of exactly this name.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), is_last: false }
    }

    /// Uses the first of several different values, as by default.
    #[must_use]
    pub fn first(self) -> Self {
        Self { is_last: false, ..self }
    }

    /// Uses the last of several different values.
    #[must_use]
    pub fn last(self) -> Self {
        Self { is_last: true, ..self }
    }

    fn write_value(&self, value: &[u8], key: &mut KeyWriter<'_>) {
        key.part("cookie", value);
        key.part("cookie name", self.name.as_bytes());
    }
}

impl KeyExtractor for Cookie {
    fn extract(&self, parts: &Parts, key: &mut KeyWriter<'_>) -> Result<Identity, KeyError> {
        let lines = parts.headers.get_all(COOKIE).iter();
        let pairs = lines.flat_map(|line| pairs(line.as_bytes()));
        let mut values = pairs.filter(|(name, _)| *name == self.name.as_bytes());
        let found = if self.is_last { values.last() } else { values.next() };
        match found {
            Some((_, value)) if !value.is_empty() => {
                self.write_value(value, key);
                Ok(Identity::Found)
            }
            _ => Ok(Identity::Missing),
        }
    }

    fn is_chosen_by_client(&self) -> bool {
        true
    }

    fn expected(&self, _: &Parts) -> Option<Cow<'static, str>> {
        Some(Cow::Owned(format!("the cookie {}", self.name)))
    }

    fn description(&self) -> Cow<'static, str> {
        Cow::Owned(format!("cookie {}", self.name))
    }

    fn forms(&self) -> KeyForms {
        KeyForms::of(self.clone())
    }
}

impl NamedPart for Cookie {
    fn name(&self) -> Cow<'_, str> {
        format!("cookie {}", self.name).into()
    }

    fn example(&self) -> Cow<'_, str> {
        "31d4".into()
    }

    fn tags(&self) -> Vec<&str> {
        vec!["cookie", "cookie name"]
    }

    fn write(&self, value: &[u8], key: &mut KeyWriter<'_>) -> Result<(), KeyError> {
        match value.trim_ascii() {
            [] => Err(KeyError::client("must not be empty")),
            value if value.contains(&b';') => Err(KeyError::client("must not contain a semicolon")),
            value => {
                self.write_value(value, key);
                Ok(())
            }
        }
    }
}

/// The names and values in one line, without the whitespace around them. Other parts of the line are skipped, as servers do.
///
/// Source: RFC 6265, section 4.2.1.
fn pairs(line: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let pairs = line.split(|byte| *byte == b';').filter_map(|pair| {
        let equals = pair.iter().position(|byte| *byte == b'=')?;
        Some((pair[..equals].trim_ascii(), pair[equals + 1..].trim_ascii()))
    });
    pairs.filter(|(name, _)| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_end_at_semicolons_and_begin_with_a_name() {
        let line = r#"a=1;b = "2;3" ; c=;=4; d;e==5=;;f=6"#;
        let expected = [("a", "1"), ("b", "\"2"), ("c", ""), ("e", "=5="), ("f", "6")];
        assert!(pairs(line.as_bytes()).eq(expected.map(|(name, value)| (name.as_bytes(), value.as_bytes()))));
        assert_eq!(pairs(b"").count() + pairs(b";=;").count(), 0);
    }
}
