//! Keys by a value that another layer inserted.

use std::any::type_name;
use std::borrow::Cow;
use std::fmt;

use http::request::Parts;
use portcullis_core::KeyWriter;

use super::named::TaggedValue;
use super::{Identity, KeyError, KeyExtractor, KeyForms};

/// A value that another layer inserted into the request's extensions: the user, the tenant or the device, the subject of the
/// peer's certificate or the id of a calling service.
///
/// If the value is absent, the identity is missing. The layer that inserts it belongs outside of this layer.
///
/// ```
/// use http::Request;
/// use portcullis::Secret;
/// use portcullis::key::{Extension, Identity, KeyExtractor};
///
/// #[derive(Clone)]
/// struct User {
///     id: u64,
/// }
///
/// let by_user = Extension::<User>::with(|user, key| key.part("user", &user.id.to_be_bytes()));
///
/// let mut hasher = Secret::published().hasher();
/// let (mut parts, ()) = Request::new(()).into_parts();
/// assert_eq!(by_user.extract(&parts, &mut hasher.writer()), Ok(Identity::Missing));
/// parts.extensions.insert(User { id: 17 });
/// assert_eq!(by_user.extract(&parts, &mut hasher.writer()), Ok(Identity::Found));
/// ```
pub struct Extension<T> {
    write: Box<Write<T>>,
    /// The tag, if it writes the bytes of the value.
    tag: Option<&'static str>,
}

type Write<T> = dyn Fn(&T, &mut KeyWriter<'_>) -> Identity + Send + Sync;

impl<T: Send + Sync + 'static> Extension<T> {
    /// Uses the bytes of a `T`. If there are none, the identity is missing.
    ///
    /// The full name of the type is part of the key, so that a user and a tenant of one name have different keys.
    pub fn new() -> Self
    where
        T: KeyBytes,
    {
        let write = |value: &T, key: &mut KeyWriter<'_>| {
            let bytes = value.as_ref();
            if bytes.is_empty() {
                return Identity::Missing;
            }
            key.part(type_name::<T>(), bytes);
            Identity::Found
        };
        Self { write: Box::new(write), tag: Some(type_name::<T>()) }
    }

    /// Uses the parts that `write` writes for a `T`: at least one, with tags that distinguish it from other identities.
    pub fn with(write: impl Fn(&T, &mut KeyWriter<'_>) + Send + Sync + 'static) -> Self {
        let write = move |value: &T, key: &mut KeyWriter<'_>| {
            write(value, key);
            Identity::Found
        };
        Self { write: Box::new(write), tag: None }
    }
}

/// What [`Extension::new`] takes: a type with bytes, such as a `String` or a type that implements `AsRef<[u8]>`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no bytes that a key could be made of",
    label = "not `AsRef<[u8]>`",
    note = "say what its key is: `Extension::<{Self}>::with(|value, key| key.part(\"user\", value.name.as_bytes()))`",
    note = "or implement `AsRef<[u8]>` for `{Self}`"
)]
pub trait KeyBytes: AsRef<[u8]> {}

// Without the attribute the compiler describes `AsRef` in place of this trait.
#[diagnostic::do_not_recommend]
impl<T: AsRef<[u8]>> KeyBytes for T {}

impl<T: KeyBytes + Send + Sync + 'static> Default for Extension<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Send + Sync + 'static> KeyExtractor for Extension<T> {
    fn extract(&self, parts: &Parts, key: &mut KeyWriter<'_>) -> Result<Identity, KeyError> {
        Ok(parts.extensions.get::<T>().map_or(Identity::Missing, |value| (self.write)(value, key)))
    }

    fn description(&self) -> Cow<'static, str> {
        Cow::Owned(format!("extension {}", type_name::<T>()))
    }

    fn forms(&self) -> KeyForms {
        self.tag.map_or_else(KeyForms::unknown, |tag| KeyForms::of(TaggedValue(tag)))
    }
}

impl<T> fmt::Debug for Extension<T> {
    /// Prints the name of the type.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Extension").field(&format_args!("{}", type_name::<T>())).finish()
    }
}
