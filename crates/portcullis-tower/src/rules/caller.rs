//! Who is calling, as a key.

use std::pin::Pin;
use std::sync::Arc;

use http::HeaderValue;
use http::request::Parts;
use portcullis_core::{Key, KeyHasher, Secret};

use super::Rules;
use crate::{AsyncKeyExtractor, Identity, KeyError, KeyExtractor};

/// How a caller is found.
#[derive(Clone)]
pub(crate) enum KeySource {
    Now(Arc<dyn KeyExtractor>),
    Later(Arc<dyn AsyncKeyExtractor>),
}

impl KeySource {
    /// Whether the two are one, so that what one finds the other would find as well.
    pub(super) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Now(one), Self::Now(other)) => Arc::ptr_eq(one, other),
            (Self::Later(one), Self::Later(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    pub(super) fn challenge(&self) -> Option<HeaderValue> {
        match self {
            Self::Now(key) => key.challenge(),
            Self::Later(key) => key.challenge(),
        }
    }
}

/// What an extractor found.
#[derive(Clone, Copy)]
pub(crate) enum Caller {
    Known(Key),
    Missing,
    Exempt,
}

impl Caller {
    pub(super) fn find(
        extractor: &dyn KeyExtractor,
        secret: &Secret,
        parts: &Parts,
    ) -> Result<Self, KeyError> {
        let mut hasher = secret.hasher();
        let identity = extractor.extract(parts, &mut hasher.writer())?;
        Self::new(identity, hasher)
    }

    fn new(identity: Identity, hasher: KeyHasher) -> Result<Self, KeyError> {
        match identity {
            Identity::Found => Ok(Self::Known(hasher.finish()?)),
            Identity::Missing => Ok(Self::Missing),
            Identity::Exempt => Ok(Self::Exempt),
        }
    }
}

/// What came of looking up the caller of a rule; `None` for a rule that does not, or that asks as the one before.
pub(crate) type Looked = Option<Result<Caller, KeyError>>;

/// Looks up the callers of all rules that need it. An error ends it, but for that of a rule which only watches.
pub(crate) type Lookups = Pin<Box<dyn Future<Output = Result<Vec<Looked>, KeyError>> + Send>>;

impl Rules {
    /// What there is to wait for before the [`question`](Rules::question) can be asked, if anything.
    pub(crate) fn look_up(self: &Arc<Self>, parts: &Parts) -> Option<Lookups> {
        if !self.iter().any(|rule| matches!(rule.key, KeySource::Later(_))) {
            return None;
        }
        let mut previous: Option<&KeySource> = None;
        let started: Vec<_> = self
            .iter()
            .map(|rule| match &rule.key {
                _ if previous.replace(&rule.key).is_some_and(|before| before.is(&rule.key)) => None,
                KeySource::Later(key) => Some(key.look_up(parts)),
                KeySource::Now(_) => None,
            })
            .collect();
        let rules = Arc::clone(self);
        Some(Box::pin(async move {
            let mut callers = Vec::with_capacity(started.len());
            for (rule, lookup) in rules.iter().zip(started) {
                // The question takes an inherited key from the rule before.
                let Some(lookup) = lookup else {
                    callers.push(None);
                    continue;
                };
                let caller = lookup.await.and_then(|found| {
                    let mut hasher = rules.gate().secret().hasher();
                    let identity = found.write(&mut hasher.writer());
                    Caller::new(identity, hasher)
                });
                let caller = caller.inspect_err(|error| rules.note_broken(rule, error));
                callers.push(Some(if rule.is_shadow { caller } else { Ok(caller?) }));
            }
            Ok(callers)
        }))
    }
}
