//! Combinations of two extractors.

use std::borrow::Cow;

use http::HeaderValue;
use http::request::Parts;
use portcullis_core::{KeyWriter, Secret};

use super::{Identity, KeyError, KeyExtractor, KeyForms};

/// Two identities as one. Made by [`KeyExtractor::and`].
#[derive(Clone, Copy, Debug)]
pub struct And<L, R> {
    left: L,
    right: R,
}

impl<L, R> And<L, R> {
    pub(super) fn new(left: L, right: R) -> Self {
        Self { left, right }
    }
}

impl<L: KeyExtractor, R: KeyExtractor> KeyExtractor for And<L, R> {
    fn extract(&self, parts: &Parts, key: &mut KeyWriter<'_>) -> Result<Identity, KeyError> {
        let left = self.left.extract(parts, key)?;
        if left == Identity::Exempt {
            return Ok(Identity::Exempt);
        }
        match self.right.extract(parts, key)? {
            Identity::Found => Ok(left),
            right => Ok(right),
        }
    }

    /// The challenge of the left half, or of the right if the left one has none.
    fn challenge(&self) -> Option<HeaderValue> {
        self.left.challenge().or_else(|| self.right.challenge())
    }

    /// `true` if either half returns `true`: no other client has both.
    fn counts_rejections(&self) -> bool {
        self.left.counts_rejections() || self.right.counts_rejections()
    }

    /// Asks the left half, which writes the first part.
    fn is_chosen_by_client(&self) -> bool {
        self.left.is_chosen_by_client()
    }

    /// `true` if both return `true`: one part that distinguishes clients is enough.
    fn is_shared(&self) -> bool {
        self.left.is_shared() && self.right.is_shared()
    }

    /// That of the halves that are missing.
    fn expected(&self, parts: &Parts) -> Option<Cow<'static, str>> {
        let left = is_missing(&self.left, parts).then(|| self.left.expected(parts));
        let right = is_missing(&self.right, parts).then(|| self.right.expected(parts));
        match (left, right) {
            (Some(left), Some(right)) => Some(Cow::Owned(format!("{} and {}", left?, right?))),
            (left, right) => left.or(right)?,
        }
    }

    fn description(&self) -> Cow<'static, str> {
        Cow::Owned(format!("{} and {}", self.left.description(), self.right.description()))
    }

    fn forms(&self) -> KeyForms {
        self.left.forms().and(&self.right.forms())
    }
}

/// An identity, or another one where it is missing. Made by [`KeyExtractor::or`].
#[derive(Clone, Copy, Debug)]
pub struct Or<L, R> {
    left: L,
    right: R,
}

impl<L, R> Or<L, R> {
    pub(super) fn new(left: L, right: R) -> Self {
        Self { left, right }
    }
}

impl<L: KeyExtractor, R: KeyExtractor> KeyExtractor for Or<L, R> {
    fn extract(&self, parts: &Parts, key: &mut KeyWriter<'_>) -> Result<Identity, KeyError> {
        let before = key.checkpoint();
        match self.left.extract(parts, key)? {
            Identity::Missing => {
                key.rewind(before);
                self.right.extract(parts, key)
            }
            answer => Ok(answer),
        }
    }

    /// The challenge of the left half, or of the right if the left one has none.
    fn challenge(&self) -> Option<HeaderValue> {
        self.left.challenge().or_else(|| self.right.challenge())
    }

    /// `true` if both return `true`: the key may be either one.
    fn counts_rejections(&self) -> bool {
        self.left.counts_rejections() && self.right.counts_rejections()
    }

    /// `true` if either returns `true`: the key may be either one.
    fn is_chosen_by_client(&self) -> bool {
        self.left.is_chosen_by_client() || self.right.is_chosen_by_client()
    }

    /// `true` if both return `true`: a key that is shared in some requests only is left out when it is denied.
    fn is_shared(&self) -> bool {
        self.left.is_shared() && self.right.is_shared()
    }

    /// That of either half.
    fn expected(&self, parts: &Parts) -> Option<Cow<'static, str>> {
        match (self.left.expected(parts), self.right.expected(parts)) {
            (Some(left), Some(right)) => Some(Cow::Owned(format!("{left} or {right}"))),
            (left, right) => left.or(right),
        }
    }

    fn description(&self) -> Cow<'static, str> {
        Cow::Owned(format!("{} or {}", self.left.description(), self.right.description()))
    }

    fn forms(&self) -> KeyForms {
        self.left.forms().or(self.right.forms())
    }
}

/// Whether a request has no identity of an extractor. No key is made of what it writes.
pub(super) fn is_missing(extractor: &(impl KeyExtractor + ?Sized), parts: &Parts) -> bool {
    let identity = extractor.extract(parts, &mut Secret::published().hasher().writer());
    identity == Ok(Identity::Missing)
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;
    use crate::{Bearer, Cookie, Extension, Header, Query};

    #[test]
    fn missing_parts_are_expected() {
        let key = || Header::named("x-api-key");
        let tenant = || Query::named("tenant").or(Cookie::named("tenant"));
        let route = || Extension::<String>::new();
        let tenants = "the query parameter tenant or the cookie tenant";
        let key_and_tenant = format!("the header x-api-key and {tenants}");
        for (uri, with_key, extractor, expected) in [
            ("/", false, Box::new(key().and(tenant())) as Box<dyn KeyExtractor>, Some(&*key_and_tenant)),
            ("/", true, Box::new(key().and(tenant())), Some(tenants)),
            ("/?tenant=acme", false, Box::new(tenant().and(key())), Some("the header x-api-key")),
            ("/", true, Box::new(key().and(route())), None),
            ("/", false, Box::new(key().and(route())), None),
            ("/", false, Box::new(route().or(Bearer)), Some("a bearer token")),
        ] {
            let mut request = Request::get(uri);
            if with_key {
                request = request.header("x-api-key", "k-1");
            }
            let (parts, ()) = request.body(()).unwrap().into_parts();
            assert_eq!(extractor.expected(&parts).as_deref(), expected, "{}", extractor.description());
        }
    }
}
