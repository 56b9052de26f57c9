//! Keys of clients that are named, not found in a request.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use portcullis_core::{Key, KeyWriter, Secret};

use super::KeyError;

/// A part of a key, as an operator names it: `header x-user`, with the value `ada`.
///
/// The extractors of this crate are the parts that they write. One of your own implements it to be named in the admin API, and returns it
/// from [`KeyExtractor::forms`](super::KeyExtractor::forms).
///
/// ```
/// use std::borrow::Cow;
///
/// use http::request::Parts;
/// use portcullis::key::{Identity, KeyError, KeyExtractor, KeyForms, KeyWriter, NamedPart};
///
/// #[derive(Clone)]
/// struct Tenant;
///
/// impl NamedPart for Tenant {
///     fn name(&self) -> Cow<'_, str> {
///         "tenant".into()
///     }
///
///     fn example(&self) -> Cow<'_, str> {
///         "acme".into()
///     }
///
///     fn tags(&self) -> Vec<&str> {
///         vec!["tenant"]
///     }
///
///     fn write(&self, value: &[u8], key: &mut KeyWriter<'_>) -> Result<(), KeyError> {
///         key.part("tenant", &value.to_ascii_lowercase());
///         Ok(())
///     }
/// }
///
/// impl KeyExtractor for Tenant {
///     fn extract(&self, parts: &Parts, key: &mut KeyWriter<'_>) -> Result<Identity, KeyError> {
///         let Some(tenant) = parts.extensions.get::<String>() else { return Ok(Identity::Missing) };
///         self.write(tenant.as_bytes(), key).map(|()| Identity::Found)
///     }
///
///     fn forms(&self) -> KeyForms {
///         KeyForms::of(self.clone())
///     }
/// }
/// assert_eq!(Tenant.forms().to_string(), "tenant=acme");
/// ```
pub trait NamedPart: Send + Sync + 'static {
    /// Returns its name: `header x-user`.
    fn name(&self) -> Cow<'_, str>;

    /// Returns a value that it may have, for people.
    fn example(&self) -> Cow<'_, str>;

    /// Returns the tags of what it writes, in their order. The value of the first one is the value of the part.
    fn tags(&self) -> Vec<&str>;

    /// Writes a value, in the form in which the extractor would write it: in the same case, network, reading.
    ///
    /// # Errors
    ///
    /// If no client has this value. The error does not repeat it.
    fn write(&self, value: &[u8], key: &mut KeyWriter<'_>) -> Result<(), KeyError>;

    /// Returns the value of which it writes this first tag with these bytes. By default it is the bytes.
    fn value_of<'v>(&self, tag: &str, bytes: &'v [u8]) -> Option<Cow<'v, [u8]>> {
        let tags = self.tags();
        (tags.first() == Some(&tag)).then_some(Cow::Borrowed(bytes))
    }

    /// Writes parts that are given by tags and bytes, as the extractor writes them, and returns how many of the first ones it has written.
    /// `None` if they are not this part.
    fn write_tagged(&self, given: &[TaggedPart<'_>], key: &mut KeyWriter<'_>) -> Option<usize> {
        let (tag, bytes) = given.first()?;
        let value = self.value_of(tag, bytes)?;
        let given = given.get(..self.tags().len())?;
        let written = fingerprint(|key| self.write(&value, key).ok())?;
        let tagged = fingerprint(|key| {
            for (tag, bytes) in given {
                key.part(tag, bytes);
            }
            Some(())
        });
        if tagged != Some(written) {
            return None;
        }
        self.write(&value, key).ok()?;
        Some(given.len())
    }
}

/// A tag, or a name, and what belongs to it.
pub type TaggedPart<'a> = (&'a str, &'a [u8]);

fn fingerprint(write: impl FnOnce(&mut KeyWriter<'_>) -> Option<()>) -> Option<u128> {
    let mut hasher = Secret::published().hasher();
    write(&mut hasher.writer())?;
    hasher.finish().ok().map(|key| key.fingerprint())
}

/// The forms that the keys of an extractor have, each the parts in their order. [`KeyExtractor::or`](super::KeyExtractor::or) has those of both
/// halves, and [`KeyExtractor::and`](super::KeyExtractor::and) joins each of one with each of the other.
///
/// ```
/// use portcullis::ClientIp;
/// use portcullis::key::{Header, Identity, KeyError, KeyExtractor, KeyWriter};
///
/// let forms = Header::named("x-user").or(ClientIp::peer()).forms();
/// assert_eq!(forms.to_string(), "header x-user=ada or ip=203.0.113.20");
/// assert!(forms.are_all());
///
/// // Only the closure knows what it writes.
/// let own = |_: &http::request::Parts, _: &mut KeyWriter<'_>| Ok::<_, KeyError>(Identity::Missing);
/// assert!(!own.or(ClientIp::peer()).forms().are_all());
/// ```
#[derive(Clone, Default)]
pub struct KeyForms {
    known: Vec<Vec<Arc<dyn NamedPart>>>,
    has_others: bool,
}

impl KeyForms {
    /// Keys of one part.
    pub fn of(part: impl NamedPart) -> Self {
        Self { known: vec![vec![Arc::new(part)]], has_others: false }
    }

    /// Keys of which only the service knows the parts.
    pub fn unknown() -> Self {
        Self { known: Vec::new(), has_others: true }
    }

    /// Returns whether the keys have no other forms.
    pub fn are_all(&self) -> bool {
        !self.has_others
    }

    /// Adds the forms of another extractor.
    #[must_use]
    pub fn or(mut self, other: Self) -> Self {
        self.known.extend(other.known);
        self.has_others |= other.has_others || self.known.len() > MAX_FORMS;
        self.known.truncate(MAX_FORMS);
        self
    }

    /// Joins each form with each of another extractor.
    #[must_use]
    pub fn and(self, other: &Self) -> Self {
        if self.known.len() * other.known.len() > MAX_FORMS {
            return Self::unknown();
        }
        let joined = |left: &Vec<_>| {
            let left = left.clone();
            other.known.iter().map(move |right| [&left[..], right].concat())
        };
        Self {
            known: self.known.iter().flat_map(joined).collect(),
            has_others: self.has_others || other.has_others,
        }
    }

    /// Returns the keys of a client with these parts, in the order of the key: each by its [name](NamedPart::name) and value, or as the
    /// extractor writes it, by tags and bytes. None if no key has these parts, and several if the forms charge different networks.
    ///
    /// With `begins`, what begins a key is enough, if it is one part to a store.
    ///
    /// # Errors
    ///
    /// If a part has a value that no client has.
    pub fn keys(
        &self,
        given: &[TaggedPart<'_>],
        begins: bool,
        secret: &Secret,
    ) -> Result<Vec<Key>, KeyError> {
        let (mut keys, mut error) = (Vec::new(), None);
        for form in &self.known {
            let mut hasher = secret.hasher();
            let key = match write_form(form, given, begins, &mut hasher.writer()) {
                Ok(true) => hasher.finish().map_err(KeyError::from),
                Ok(false) => continue,
                Err(failure) => Err(failure),
            };
            match key {
                Ok(key) if keys.contains(&key) => {}
                Ok(key) => keys.push(key),
                Err(failure) => error = Some(failure),
            }
        }
        error.filter(|_| keys.is_empty()).map_or(Ok(keys), Err)
    }
}

/// Returns whether the given parts are those of the form.
fn write_form(
    form: &[Arc<dyn NamedPart>],
    given: &[TaggedPart<'_>],
    begins: bool,
    key: &mut KeyWriter<'_>,
) -> Result<bool, KeyError> {
    let mut rest = given;
    for (at, part) in form.iter().enumerate() {
        let Some(((name, value), behind)) = rest.split_first() else {
            return Ok(begins && at == 1 && form.iter().take(1).all(|first| first.tags().len() == 1));
        };
        if part.name() == *name {
            part.write(value, key)?;
            rest = behind;
        } else if let Some(count) = part.write_tagged(rest, key) {
            rest = rest.get(count..).unwrap_or_default();
        } else if begins && given.len() == 1 && part.value_of(name, value).is_some() && part.tags().len() > 1
        {
            key.part(name, value);
            return Ok(true);
        } else {
            return Ok(false);
        }
    }
    if let [(PREFLIGHT, [])] = rest {
        key.shared_part(PREFLIGHT, b"");
        rest = &[];
    }
    Ok(rest.is_empty())
}

fn text(form: &[Arc<dyn NamedPart>]) -> String {
    let parts: Vec<_> = form.iter().map(|part| format!("{}={}", part.name(), part.example())).collect();
    parts.join(", ")
}

impl fmt::Display for KeyForms {
    /// Prints the forms with an example of each: `header x-user=ada or ip=203.0.113.20`. Of many, the first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut texts: Vec<_> = self.known.iter().map(|form| text(form)).collect();
        texts.dedup();
        f.write_str(&texts.iter().take(MAX_SHOWN).map(String::as_str).collect::<Vec<_>>().join(" or "))?;
        match texts.len().saturating_sub(MAX_SHOWN) {
            0 => Ok(()),
            more => write!(f, " or {more} others"),
        }
    }
}

impl fmt::Debug for KeyForms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyForms({self}, all: {})", self.are_all())
    }
}

/// A key by a value with a tag of its own, as of an extension.
pub(super) struct TaggedValue(pub(super) &'static str);

impl NamedPart for TaggedValue {
    fn name(&self) -> Cow<'_, str> {
        self.0.into()
    }

    fn example(&self) -> Cow<'_, str> {
        "ada".into()
    }

    fn tags(&self) -> Vec<&str> {
        vec![self.0]
    }

    fn write(&self, value: &[u8], key: &mut KeyWriter<'_>) -> Result<(), KeyError> {
        if value.is_empty() {
            return Err(KeyError::client("must not be empty"));
        }
        key.part(self.0, value);
        Ok(())
    }
}

/// What a preflight of CORS is charged to behind the parts of its key.
pub const PREFLIGHT: &str = "portcullis.preflight";

/// The forms that are kept. Nested alternatives have more.
const MAX_FORMS: usize = 64;

/// The forms that are printed.
const MAX_SHOWN: usize = 8;
