//! Who is calling, as a key.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::HeaderValue;
use http::request::Parts;
use portcullis_core::{Key, KeyHasher, Secret};

use super::LayerConfig;
use crate::{AsyncKeyExtractor, Identity, KeyError, KeyExtractor, Lookup, LookupFuture};

/// How a caller is found.
#[derive(Clone)]
pub(crate) enum KeySource {
    Sync(Arc<dyn KeyExtractor>),
    Async(Arc<dyn AsyncKeyExtractor>),
}

impl KeySource {
    /// Whether the two are one, so that what one finds the other would find as well.
    pub(super) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Sync(one), Self::Sync(other)) => Arc::ptr_eq(one, other),
            (Self::Async(one), Self::Async(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    pub(super) fn challenge(&self) -> Option<HeaderValue> {
        match self {
            Self::Sync(key) => key.challenge(),
            Self::Async(key) => key.challenge(),
        }
    }
}

/// What an extractor found.
#[derive(Clone, Copy)]
pub(crate) enum ResolvedKey {
    Known(Key),
    Missing,
    Exempt,
}

impl ResolvedKey {
    pub(super) fn find(
        extractor: &dyn KeyExtractor,
        secret: &Secret,
        parts: &Parts,
    ) -> Result<Self, KeyError> {
        let mut hasher = secret.hasher();
        let identity = extractor.extract(parts, &mut hasher.writer())?;
        Self::new(identity, hasher)
    }

    fn looked_up(found: &Lookup, secret: &Secret) -> Result<Self, KeyError> {
        let mut hasher = secret.hasher();
        let identity = found.write(&mut hasher.writer());
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

/// A look-up for a rule, and for those behind it that have the same key.
pub(crate) struct PendingLookup {
    rule: usize,
    /// Whether one of these rules is enforced, so that the request fails if the look-up does.
    is_enforced: bool,
    state: LookupState,
}

enum LookupState {
    Running(LookupFuture),
    Done(Result<ResolvedKey, KeyError>),
}

impl PendingLookup {
    /// Waits until the look-up is done.
    ///
    /// # Errors
    ///
    /// If it has failed and a rule that is enforced needs it.
    pub(crate) fn poll(&mut self, rules: &LayerConfig, cx: &mut Context<'_>) -> Poll<Result<(), KeyError>> {
        let LookupState::Running(lookup) = &mut self.state else { return Poll::Ready(Ok(())) };
        let found = ready!(lookup.as_mut().poll(cx));
        let caller = found.and_then(|found| ResolvedKey::looked_up(&found, rules.registry.secret()));
        Poll::Ready(self.done(rules, caller))
    }

    /// Ends the look-up if it still runs.
    ///
    /// # Errors
    ///
    /// If it does and a rule that is enforced needs it.
    pub(crate) fn expire(&mut self, rules: &LayerConfig) -> Result<(), KeyError> {
        if matches!(self.state, LookupState::Done(_)) {
            return Ok(());
        }
        let error = format!("a look-up has no result within {:?}", rules.lookup_deadline());
        self.done(rules, Err(KeyError::server(error)))
    }

    fn done(&mut self, rules: &LayerConfig, caller: Result<ResolvedKey, KeyError>) -> Result<(), KeyError> {
        let failed = caller.as_ref().err().cloned();
        self.state = LookupState::Done(caller);
        match failed {
            Some(error) => {
                rules.note_lookup(&rules.list[self.rule], &error);
                if self.is_enforced { Err(error) } else { Ok(()) }
            }
            None => Ok(()),
        }
    }

    /// What was found, if this is the look-up of the rule at `index`.
    pub(super) fn caller_of(&self, index: usize) -> Option<&Result<ResolvedKey, KeyError>> {
        match &self.state {
            LookupState::Done(caller) if self.rule == index => Some(caller),
            _ => None,
        }
    }
}

impl LayerConfig {
    /// Whether a policy that is enforced has its key looked up.
    pub(crate) fn needs_look_ups(&self) -> bool {
        self.list.iter().any(|rule| !rule.is_shadow && matches!(rule.key, KeySource::Async(_)))
    }

    /// Starts the look-ups of a request. What they find is for the [second question](LayerConfig::second_question).
    pub(crate) fn look_up(&self, parts: &Parts) -> Vec<PendingLookup> {
        let mut lookups: Vec<PendingLookup> = Vec::new();
        for (index, rule) in self.list.iter().enumerate() {
            let KeySource::Async(key) = &rule.key else { continue };
            let before = index.checked_sub(1).and_then(|before| self.list.get(before));
            let is_enforced = !rule.is_shadow;
            match lookups.last_mut() {
                Some(same) if before.is_some_and(|before| before.key.is(&rule.key)) => {
                    same.is_enforced |= is_enforced;
                }
                _ => {
                    let state = LookupState::Running(key.look_up(parts));
                    lookups.push(PendingLookup { rule: index, is_enforced, state });
                }
            }
        }
        lookups
    }
}
