//! How a limit finds the key of a request.

use std::borrow::Cow;
use std::sync::Arc;

use http::HeaderValue;
use http::request::Parts;
use portcullis_core::{Key, KeyHasher, KeyWriter, Secret};

use super::Limit;
use crate::{AsyncKeyExtractor, Identity, KeyError, KeyExtractor, KeyForms, Lookup, NamedPart, OnMissing};

/// How the key of a request is determined.
#[derive(Clone)]
pub(crate) enum KeySource {
    /// By the source of the limit before. A limit in a layer has its own.
    Before,
    Sync(Arc<dyn KeyExtractor>),
    Async(Arc<dyn AsyncKeyExtractor>),
}

impl Limit {
    /// Gives the limit the key of the limit before, unless it has one.
    pub(crate) fn by_default(mut self, before: Option<&Self>) -> Self {
        if let (KeySource::Before, Some(before)) = (&self.key, before) {
            self.key = before.key.clone();
            self.key_name = self.key_name.or_else(|| before.key_name.clone());
        }
        self
    }

    /// The error of a request whose identity is missing.
    pub(crate) fn missing_identity(&self, parts: &Parts) -> KeyError {
        let expected = if self.hides_key { None } else { self.key.expected(parts) };
        let message = missing_message(expected);
        match self.key.challenge() {
            Some(challenge) => KeyError::unauthenticated(message, challenge),
            None => KeyError::client(message),
        }
    }

    /// What the key is, for people.
    pub(crate) fn key_description(&self) -> Cow<'static, str> {
        self.key_name.clone().unwrap_or_else(|| self.key.description())
    }
}

impl Limit {
    /// The forms of its keys. What look-ups find is known to the service only.
    pub(crate) fn key_forms(&self) -> KeyForms {
        let own = match &self.key {
            KeySource::Sync(key) => key.forms(),
            KeySource::Async(_) | KeySource::Before => KeyForms::unknown(),
        };
        if self.on_missing == OnMissing::Shared { own.or(KeyForms::of(SharedKey)) } else { own }
    }
}

/// The key of all requests without an identity, where they share one.
pub(super) struct SharedKey;

impl NamedPart for SharedKey {
    fn name(&self) -> Cow<'_, str> {
        Cow::Borrowed("portcullis.missing")
    }

    fn example(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn tags(&self) -> Vec<&str> {
        vec!["portcullis.missing"]
    }

    fn write(&self, value: &[u8], key: &mut KeyWriter<'_>) -> Result<(), KeyError> {
        if !value.is_empty() {
            return Err(KeyError::client("has no value"));
        }
        key.shared_part("portcullis.missing", b"");
        Ok(())
    }
}

impl KeySource {
    /// Whether both are the same extractor, so that they find the same key.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Sync(one), Self::Sync(other)) => Arc::ptr_eq(one, other),
            (Self::Async(one), Self::Async(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// Whether clients choose the key at will. What a look-up has found is verified.
    pub(crate) fn is_chosen_by_client(&self) -> bool {
        match self {
            Self::Sync(key) => key.is_chosen_by_client(),
            Self::Async(_) | Self::Before => false,
        }
    }

    /// Whether clients share every key. What a look-up has found is known only then.
    pub(crate) fn is_shared(&self) -> bool {
        match self {
            Self::Sync(key) => key.is_shared(),
            Self::Async(_) | Self::Before => false,
        }
    }

    pub(crate) fn challenge(&self) -> Option<HeaderValue> {
        match self {
            Self::Sync(key) => key.challenge(),
            Self::Async(key) => key.challenge(),
            Self::Before => None,
        }
    }

    fn expected(&self, parts: &Parts) -> Option<Cow<'static, str>> {
        match self {
            Self::Sync(key) => key.expected(parts),
            Self::Async(key) => key.expected(parts),
            Self::Before => None,
        }
    }

    /// What the key is, for people.
    fn description(&self) -> Cow<'static, str> {
        match self {
            Self::Sync(key) => key.description(),
            Self::Async(key) => key.description(),
            Self::Before => Cow::Borrowed("the key before"),
        }
    }
}

/// Says that the identity is missing, and what the client has to send.
pub(crate) fn missing_message(expected: Option<Cow<'static, str>>) -> Cow<'static, str> {
    match expected {
        Some(expected) => Cow::Owned(format!("the request has no identity: it needs {expected}")),
        None => Cow::Borrowed("the request has no identity"),
    }
}

/// The result of an extractor, with the key.
#[derive(Clone, Copy)]
pub(crate) enum ResolvedKey {
    Known(Key),
    Missing,
    Exempt,
}

impl ResolvedKey {
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "a key that is returned through memory takes longer to read than to make"
    )]
    pub(crate) fn find(
        extractor: &dyn KeyExtractor,
        secret: &Secret,
        parts: &Parts,
    ) -> Result<Self, KeyError> {
        let mut hasher = secret.hasher();
        let identity = extractor.extract(parts, &mut hasher.writer())?;
        Self::new(identity, hasher)
    }

    pub(crate) fn looked_up(found: &Lookup, secret: &Secret) -> Result<Self, KeyError> {
        let mut hasher = secret.hasher();
        let identity = found.write(&mut hasher.writer());
        Self::new(identity, hasher)
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as above")]
    fn new(identity: Identity, hasher: KeyHasher) -> Result<Self, KeyError> {
        match identity {
            Identity::Found => Ok(Self::Known(hasher.finish()?)),
            Identity::Missing => Ok(Self::Missing),
            Identity::Exempt => Ok(Self::Exempt),
        }
    }
}

/// What makes a layer: a [`Limit`], whose key is named. A [`Policy`](portcullis_core::Policy) becomes one by its key,
/// [`PolicyExt::by`](crate::PolicyExt::by), so that this does not compile:
///
/// ```compile_fail,E0277
/// use portcullis::{Limiter, Policy, Quota};
///
/// let _ = Limiter::memory().layer(Policy::gcra("search", Quota::per_second(10)));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no key that requests are charged to",
    label = "write `.by(..)` behind it",
    note = "name its key: `policy.by(ClientIp::peer())`, `policy.by(Header::named(\"x-api-key\"))` or, for one budget of all \
            clients, `policy.by(Global)`, with `use portcullis::PolicyExt as _`",
    note = "a policy with the key of the limit before it goes to `.and(..)` of the layer"
)]
pub trait KeyedLimit: Into<Limit> {}

impl KeyedLimit for Limit {}
