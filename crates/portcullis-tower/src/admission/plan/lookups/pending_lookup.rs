//! Starts look-ups, and keeps each result for the policies that share it.

use std::borrow::Cow;
use std::task::{Context, Poll, ready};

use http::request::Parts;
use portcullis_core::{PolicyName, Quota};

use crate::config::LayerConfig;
use crate::limit::{KeySource, ResolvedKey};
use crate::{KeyError, LookupFuture};
use portcullis_engine::QuotaRefusal;
use portcullis_engine::{CallerQuotas, PolicySet};
use portcullis_engine::{EventKeys, EventKind};

/// A look-up for a policy, and for the following ones that have the same key.
pub(in crate::admission::plan) struct PendingLookup {
    /// The index of the first of these policies.
    index: usize,
    /// Whether one of these policies is enforced, so that the request fails if the look-up does.
    is_enforced: bool,
    state: Progress<LookupFuture, Result<ResolvedKey, KeyError>>,
    /// What the look-up tells of quotas, by the names of policies.
    quotas: Vec<(Cow<'static, str>, Quota)>,
}

/// A look-up that runs, or its result.
pub(in crate::admission::plan) enum Progress<F, T> {
    Running(F),
    Done(T),
}

impl PendingLookup {
    /// Waits until the look-up is done.
    ///
    /// # Errors
    ///
    /// If it has failed and an enforced policy needs it.
    pub(in crate::admission::plan) fn poll(
        &mut self,
        config: &LayerConfig,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), KeyError>> {
        let Progress::Running(lookup) = &mut self.state else { return Poll::Ready(Ok(())) };
        let found = ready!(lookup.as_mut().poll(cx));
        let resolved = found.and_then(|found| {
            let resolved = ResolvedKey::looked_up(&found, config.registry.secret());
            self.quotas = found.into_quotas();
            resolved
        });
        Poll::Ready(self.done(config, resolved))
    }

    /// Ends the look-up if it still runs.
    ///
    /// # Errors
    ///
    /// If it still runs and an enforced policy needs it.
    pub(in crate::admission::plan) fn expire(&mut self, config: &LayerConfig) -> Result<(), KeyError> {
        if matches!(self.state, Progress::Done(_)) {
            return Ok(());
        }
        config.registry.lookup_counts().timed_out();
        let error = format!("a look-up has no result within {:?}", config.lookup_deadline);
        self.done(config, Err(KeyError::server(error)))
    }

    fn done(
        &mut self,
        config: &LayerConfig,
        resolved: Result<ResolvedKey, KeyError>,
    ) -> Result<(), KeyError> {
        let failed = resolved.as_ref().err().cloned();
        self.state = Progress::Done(resolved);
        match failed {
            Some(error) => {
                let policy = config.policies()[self.index].policy.name();
                let kind = if error.is_client_fault() {
                    EventKind::IdentityMalformed { policy, error: &error }
                } else {
                    EventKind::LookupFailed { policy, error: &error }
                };
                config.limits.emit(kind, || EventKeys::None);
                if self.is_enforced { Err(error) } else { Ok(()) }
            }
            None => Ok(()),
        }
    }

    /// Adds the quotas of the policies that have this look-up. Those of other policies are refused, except if they are of another
    /// layer, whose look-up may be the same.
    pub(in crate::admission::plan) fn add_quotas(&self, config: &LayerConfig, found: &mut CallerQuotas) {
        if self.quotas.is_empty() {
            return;
        }
        let policies = config.policies();
        let first = &policies[self.index];
        let own = policies[self.index..].iter().take_while(|one| one.key.is_same(&first.key));
        let own: Vec<_> = own.map(|one| one.policy.name().as_str()).collect();
        for (name, quota) in &self.quotas {
            if let Some(at) = own.iter().position(|own| own == name) {
                found.retain(|(index, _)| *index != self.index + at);
                found.push((self.index + at, *quota));
            } else if policies.iter().any(|one| one.policy.name().as_str() == name)
                || !is_registered(config, name)
            {
                let (policy, error) = (first.policy.name(), &QuotaRefusal::NotLookedUp);
                config
                    .limits
                    .emit(EventKind::QuotaRefused { policy, quota: *quota, error }, || EventKeys::None);
            }
        }
    }

    /// The result, if this is the look-up of the policy at `index`.
    pub(in crate::admission::plan) fn resolved_key(
        &self,
        index: usize,
    ) -> Option<&Result<ResolvedKey, KeyError>> {
        match &self.state {
            Progress::Done(resolved) if self.index == index => Some(resolved),
            _ => None,
        }
    }
}

fn is_registered(config: &LayerConfig, policy: &str) -> bool {
    PolicyName::new(policy).is_ok_and(|name| config.registry.policy(&name).is_some())
}

/// Whether an enforced policy has a key that is looked up, or is one of those whose quotas are. Whether one that is enforced for a
/// share of the keys includes a key that is looked up is not known.
pub(in crate::admission::plan) fn any_enforced(
    config: &LayerConfig,
    awaited: PolicySet,
    parts: &Parts,
) -> bool {
    config.policies().iter().enumerate().any(|(index, limit)| match &limit.key {
        KeySource::Async(_) => !limit.is_shadow(),
        KeySource::Sync(_) if awaited.contains(index) => {
            let key = limit.own_key(config.registry.secret(), parts);
            key.is_none_or(|key| config.limits.policies()[index].is_enforced_for(key))
        }
        KeySource::Sync(_) | KeySource::Before => false,
    })
}

/// Starts the look-ups of a request. Their results are for [`second`](super::super::second).
pub(in crate::admission::plan) fn start_all(config: &LayerConfig, parts: &Parts) -> Vec<PendingLookup> {
    let mut lookups: Vec<PendingLookup> = Vec::new();
    for (index, limit) in config.policies().iter().enumerate() {
        let KeySource::Async(key) = &limit.key else { continue };
        let before = index.checked_sub(1).and_then(|before| config.policies().get(before));
        let is_enforced = !limit.is_shadow();
        match lookups.last_mut() {
            Some(same) if before.is_some_and(|before| before.key.is_same(&limit.key)) => {
                same.is_enforced |= is_enforced;
            }
            _ => {
                let state = Progress::Running(key.look_up(parts));
                lookups.push(PendingLookup { index, is_enforced, state, quotas: Vec::new() });
            }
        }
    }
    lookups
}
