//! The key of a request.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::HeaderValue;
use http::request::Parts;
use portcullis_core::{Key, KeyHasher, Secret};

use super::LayerConfig;
use crate::{AsyncKeyExtractor, Identity, KeyError, KeyExtractor, Lookup, LookupFuture};

/// How the key of a request is determined.
#[derive(Clone)]
pub(crate) enum KeySource {
    Sync(Arc<dyn KeyExtractor>),
    Async(Arc<dyn AsyncKeyExtractor>),
}

impl KeySource {
    /// Whether both are the same extractor, so that they find the same key.
    pub(super) fn is_same(&self, other: &Self) -> bool {
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

/// The result of an extractor, with the key.
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

/// A look-up for a policy, and for the following ones that have the same key.
pub(crate) struct PendingLookup {
    /// The index of the first of these policies.
    index: usize,
    /// Whether one of these policies is enforced, so that the request fails if the look-up does.
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
    /// If it has failed and an enforced policy needs it.
    pub(crate) fn poll(&mut self, config: &LayerConfig, cx: &mut Context<'_>) -> Poll<Result<(), KeyError>> {
        let LookupState::Running(lookup) = &mut self.state else { return Poll::Ready(Ok(())) };
        let found = ready!(lookup.as_mut().poll(cx));
        let resolved = found.and_then(|found| ResolvedKey::looked_up(&found, config.registry.secret()));
        Poll::Ready(self.done(config, resolved))
    }

    /// Ends the look-up if it still runs.
    ///
    /// # Errors
    ///
    /// If it still runs and an enforced policy needs it.
    pub(crate) fn expire(&mut self, config: &LayerConfig) -> Result<(), KeyError> {
        if matches!(self.state, LookupState::Done(_)) {
            return Ok(());
        }
        let error = format!("a look-up has no result within {:?}", config.lookup_deadline());
        self.done(config, Err(KeyError::server(error)))
    }

    fn done(
        &mut self,
        config: &LayerConfig,
        resolved: Result<ResolvedKey, KeyError>,
    ) -> Result<(), KeyError> {
        let failed = resolved.as_ref().err().cloned();
        self.state = LookupState::Done(resolved);
        match failed {
            Some(error) => {
                config.announce_lookup_error(&config.policies[self.index], &error);
                if self.is_enforced { Err(error) } else { Ok(()) }
            }
            None => Ok(()),
        }
    }

    /// The result, if this is the look-up of the policy at `index`.
    pub(super) fn resolved_key(&self, index: usize) -> Option<&Result<ResolvedKey, KeyError>> {
        match &self.state {
            LookupState::Done(resolved) if self.index == index => Some(resolved),
            _ => None,
        }
    }
}

impl LayerConfig {
    /// Whether an enforced policy has a key that is looked up.
    pub(crate) fn needs_look_ups(&self) -> bool {
        self.policies
            .iter()
            .any(|layer_policy| !layer_policy.is_shadow && matches!(layer_policy.key, KeySource::Async(_)))
    }

    /// Starts the look-ups of a request. Their results are used by [`second_plan`](LayerConfig::second_plan).
    pub(crate) fn look_up(&self, parts: &Parts) -> Vec<PendingLookup> {
        let mut lookups: Vec<PendingLookup> = Vec::new();
        for (index, layer_policy) in self.policies.iter().enumerate() {
            let KeySource::Async(key) = &layer_policy.key else { continue };
            let before = index.checked_sub(1).and_then(|before| self.policies.get(before));
            let is_enforced = !layer_policy.is_shadow;
            match lookups.last_mut() {
                Some(same) if before.is_some_and(|before| before.key.is_same(&layer_policy.key)) => {
                    same.is_enforced |= is_enforced;
                }
                _ => {
                    let state = LookupState::Running(key.look_up(parts));
                    lookups.push(PendingLookup { index, is_enforced, state });
                }
            }
        }
        lookups
    }
}
