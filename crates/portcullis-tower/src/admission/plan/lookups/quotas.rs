//! The quotas of callers whose keys are known: those that are there, and the others, which are looked up with the keys.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::request::Parts;
use portcullis_core::{Key, Quota};

use super::pending_lookup::Progress;
use crate::KeyError;
use crate::config::LayerConfig;
use crate::limit::quota::QuotaSource;
use portcullis_engine::{CallerPolicies, CallerQuotas, PolicySet};
use portcullis_engine::{EventKeys, EventKind};
use portcullis_identity::lookup_cache::SharedLookup;

/// The quotas of the caller of a request that are known at once, and the policies whose quotas have to be looked up first.
#[inline]
pub(in crate::admission::plan) fn known(config: &LayerConfig, parts: &Parts) -> (CallerPolicies, PolicySet) {
    if config.has_caller_quotas { find_known(config, parts) } else { <_>::default() }
}

#[inline(never)]
fn find_known(config: &LayerConfig, parts: &Parts) -> (CallerPolicies, PolicySet) {
    let (mut quotas, mut awaited) = (CallerQuotas::new(), PolicySet::default());
    for (index, limit) in config.policies().iter().enumerate() {
        let quota = match &limit.quota {
            None => None,
            Some(QuotaSource::Function(function)) => function(parts),
            Some(QuotaSource::LookUp(look_up)) => {
                let key = limit.own_key(config.registry.secret(), parts);
                let key = key.filter(|key| config.limits.policies()[index].is_checked_for(*key));
                let kept = key.map(|key| look_up.kept(key));
                if let Some(None) = kept {
                    awaited = awaited.union(PolicySet::one(index));
                }
                kept.flatten().and_then(Result::ok).flatten()
            }
        };
        quotas.extend(quota.map(|quota| (index, quota)));
    }
    (CallerPolicies::of(&config.limits, &quotas), awaited)
}

/// The quotas that a request waits for. A look-up that fails leaves a policy its own.
#[derive(Default)]
pub(in crate::admission::plan) struct QuotaLookups(Vec<QuotaLookup>);

struct QuotaLookup {
    /// The index of the policy.
    index: usize,
    state: Progress<SharedLookup<Result<Option<Quota>, KeyError>>, Option<Quota>>,
}

/// Starts the look-ups for these policies, or joins those that run.
pub(in crate::admission::plan) fn start(
    config: &LayerConfig,
    awaited: PolicySet,
    parts: &Parts,
) -> QuotaLookups {
    let start = |index: usize| {
        let limit = &config.policies()[index];
        let Some(QuotaSource::LookUp(look_up)) = &limit.quota else { return None };
        let key = limit.own_key(config.registry.secret(), parts)?;
        let state = Progress::Running(look_up.find(key, config.lookup_deadline, parts));
        Some(QuotaLookup { index, state })
    };
    QuotaLookups(awaited.indexes().filter_map(start).collect())
}

/// A key of the policies whose quotas are looked up, by which waiting requests are limited.
pub(in crate::admission::plan) fn own_key(
    config: &LayerConfig,
    awaited: PolicySet,
    parts: &Parts,
) -> Option<Key> {
    let own_key = |index: usize| config.policies()[index].own_key(config.registry.secret(), parts);
    awaited.indexes().filter_map(own_key).find(|key| !key.is_shared())
}

impl QuotaLookups {
    /// Polls all look-ups concurrently. Returns whether they are over.
    pub(in crate::admission::plan) fn poll(&mut self, config: &LayerConfig, cx: &mut Context<'_>) -> bool {
        let mut are_over = true;
        for QuotaLookup { index, state } in &mut self.0 {
            let Progress::Running(lookup) = state else { continue };
            match Pin::new(lookup).poll(cx) {
                Poll::Pending => are_over = false,
                Poll::Ready(Some(Ok(quota))) => *state = Progress::Done(quota),
                Poll::Ready(Some(Err(error))) => *state = Progress::Done(failed(config, *index, &error)),
                Poll::Ready(None) => {
                    *state =
                        Progress::Done(failed(config, *index, &KeyError::server("a look-up has panicked")));
                }
            }
        }
        are_over
    }

    /// Ends those that still run.
    pub(in crate::admission::plan) fn expire(&mut self, config: &LayerConfig) {
        for QuotaLookup { index, state } in &mut self.0 {
            if let Progress::Running(_) = state {
                config.registry.lookup_counts().timed_out();
                let error = format!("a look-up has no result within {:?}", config.lookup_deadline);
                *state = Progress::Done(failed(config, *index, &KeyError::server(error)));
            }
        }
    }

    /// What was found.
    pub(in crate::admission::plan) fn found(&self) -> CallerQuotas {
        let found = |lookup: &QuotaLookup| match lookup.state {
            Progress::Done(quota) => Some((lookup.index, quota?)),
            Progress::Running(_) => None,
        };
        self.0.iter().filter_map(found).collect()
    }
}

fn failed(config: &LayerConfig, index: usize, error: &KeyError) -> Option<Quota> {
    let policy = config.policies()[index].policy.name();
    config.limits.emit(EventKind::QuotaLookupFailed { policy, error }, || EventKeys::None);
    None
}
