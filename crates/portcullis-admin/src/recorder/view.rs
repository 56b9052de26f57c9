//! What the shards hold together.

use std::collections::HashMap;
use std::sync::PoisonError;

use portcullis_core::{Key, PolicyName};

use super::{Counts, LimitedKey, Recorder, Rejection};
use crate::recorder::sketch::Entry;

/// A copy of what the recorder holds, each list in its order and bounded.
#[derive(Debug, Default)]
pub(crate) struct View {
    pub(crate) policies: HashMap<PolicyName, Counts>,
    /// The most requests that are certainly theirs first.
    pub(crate) top: Vec<Entry<(PolicyName, Key)>>,
    /// Keys that are locked out first, then the latest end first.
    pub(crate) limited: Vec<LimitedKey<PolicyName>>,
    /// The newest first.
    pub(crate) recent: Vec<Rejection<PolicyName>>,
}

/// How many entries the lists of an answer have at most.
pub(crate) const MAX_TOP: usize = 100;
pub(crate) const MAX_LIMITED: usize = 100;
pub(crate) const MAX_RECENT: usize = 200;

impl Recorder {
    /// Copies what is recorded. Each shard is locked for the time of a copy.
    pub(crate) fn view(&self, now: u64) -> View {
        let mut view = View::default();
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            for (name, counts) in &shard.policies {
                let all = view.policies.entry(name.clone()).or_default();
                *all = all.plus(*counts);
            }
            let top = shard.top.entries().iter().filter_map(|entry| {
                let Entry { key: (id, key), requests, rejected, error } = *entry;
                Some(Entry { key: (shard.name(id)?.clone(), key), requests, rejected, error })
            });
            view.top.extend(top);
            let limited = shard.limited.at(now).filter_map(|entry| {
                let LimitedKey { policy, key, until, is_locked_out } = *entry;
                Some(LimitedKey { policy: shard.name(policy)?.clone(), key, until, is_locked_out })
            });
            view.limited.extend(limited);
            let recent = shard.recent.iter().map(|rejection| Rejection {
                time: rejection.time,
                policy: rejection.policy.and_then(|id| shard.name(id)).cloned(),
                key: rejection.key,
                reason: rejection.reason,
            });
            view.recent.extend(recent);
        }
        // By what is certain: among many keys with few requests, the shards' errors differ more than their counts.
        let certain = |entry: &Entry<_>| (entry.requests - entry.error, entry.requests);
        view.top.sort_by_key(|entry| std::cmp::Reverse(certain(entry)));
        view.top.truncate(MAX_TOP);
        view.limited.sort_by_key(|entry| std::cmp::Reverse((entry.is_locked_out, entry.until)));
        view.limited.truncate(MAX_LIMITED);
        view.recent.sort_by_key(|rejection| std::cmp::Reverse(rejection.time));
        view.recent.truncate(MAX_RECENT);
        view
    }

    /// The key of a fingerprint among those that are held, with its first part, which the fingerprint alone does not tell.
    pub(crate) fn shown_key(&self, fingerprint: u128) -> Option<Key> {
        let index = super::low_bits(fingerprint) % super::SHARDS;
        let shard = self.shards.get(index)?.lock().unwrap_or_else(PoisonError::into_inner);
        let top = shard.top.entries().iter().map(|entry| entry.key.1);
        let limited = shard.limited.at(0).map(|entry| entry.key);
        let recent = shard.recent.iter().filter_map(|rejection| rejection.key);
        top.chain(limited).chain(recent).find(|key| key.fingerprint() == fingerprint)
    }
}

impl Counts {
    fn plus(self, other: Self) -> Self {
        Self {
            admitted: self.admitted.saturating_add(other.admitted),
            rejected: self.rejected.saturating_add(other.rejected),
            would_reject: self.would_reject.saturating_add(other.would_reject),
            exempt: self.exempt.saturating_add(other.exempt),
            charged_units: self.charged_units.saturating_add(other.charged_units),
            counted: self.counted || other.counted,
        }
    }
}
