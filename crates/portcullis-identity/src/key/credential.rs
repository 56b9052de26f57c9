//! Identities that are credentials.

use std::borrow::Cow;

use http::HeaderValue;
use http::request::Parts;
use portcullis_core::KeyWriter;

use super::{Identity, KeyError, KeyExtractor, KeyForms};

/// An identity whose absence is rejected with 401. Made by [`KeyExtractor::credential`].
#[derive(Clone, Debug)]
pub struct Credential<K> {
    extractor: K,
    challenge: HeaderValue,
}

impl<K> Credential<K> {
    pub(super) fn new(extractor: K, challenge: HeaderValue) -> Self {
        Self { extractor, challenge }
    }
}

impl<K: KeyExtractor> KeyExtractor for Credential<K> {
    fn extract(&self, parts: &Parts, key: &mut KeyWriter<'_>) -> Result<Identity, KeyError> {
        self.extractor.extract(parts, key).map_err(|error| error.or_challenge(&self.challenge))
    }

    fn challenge(&self) -> Option<HeaderValue> {
        Some(self.challenge.clone())
    }

    fn counts_rejections(&self) -> bool {
        self.extractor.counts_rejections()
    }

    fn is_chosen_by_client(&self) -> bool {
        self.extractor.is_chosen_by_client()
    }

    fn is_shared(&self) -> bool {
        self.extractor.is_shared()
    }

    fn expected(&self, parts: &Parts) -> Option<Cow<'static, str>> {
        self.extractor.expected(parts)
    }

    fn description(&self) -> Cow<'static, str> {
        self.extractor.description()
    }

    fn forms(&self) -> KeyForms {
        self.extractor.forms()
    }
}
