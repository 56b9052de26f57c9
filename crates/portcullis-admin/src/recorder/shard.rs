//! One part of what the API shows, behind one lock.

use std::collections::{HashMap, VecDeque};

use portcullis_core::{Key, PolicyName};
use portcullis_tower::Reason;

use super::limited::Limited;
use super::{Counts, LIMITED_PER_SHARD, MAX_POLICIES, PolicyId, RECENT_PER_SHARD, TOP_PER_SHARD};
use crate::recorder::sketch::Sketch;

/// What happened to the requests of the keys that belong to this shard. All memory but that of the names is allocated when it is made.
#[derive(Debug)]
pub(super) struct Shard {
    ids: HashMap<PolicyName, PolicyId>,
    pub(super) policies: Vec<(PolicyName, Counts)>,
    pub(super) top: Sketch<(PolicyId, Key)>,
    pub(super) limited: Limited,
    pub(super) recent: VecDeque<Rejection>,
}

/// A request that was rejected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rejection<P = PolicyId> {
    pub(crate) time: u64,
    pub(crate) policy: Option<P>,
    pub(crate) key: Option<Key>,
    pub(crate) reason: Reason,
}

impl Shard {
    pub(super) fn new() -> Self {
        Self {
            ids: HashMap::new(),
            policies: Vec::new(),
            top: Sketch::new(TOP_PER_SHARD),
            limited: Limited::new(LIMITED_PER_SHARD),
            recent: VecDeque::with_capacity(RECENT_PER_SHARD),
        }
    }

    /// The place of a policy; `None` if there are too many.
    pub(super) fn id(&mut self, policy: &PolicyName) -> Option<PolicyId> {
        if let Some(id) = self.ids.get(policy) {
            return Some(*id);
        }
        let id =
            PolicyId::try_from(self.policies.len()).ok().filter(|_| self.policies.len() < MAX_POLICIES)?;
        self.ids.insert(policy.clone(), id);
        self.policies.push((policy.clone(), Counts::default()));
        Some(id)
    }

    /// The place of a policy that was seen before.
    pub(super) fn known_id(&self, policy: &PolicyName) -> Option<PolicyId> {
        self.ids.get(policy).copied()
    }

    /// Records a request of a key.
    pub(super) fn record(&mut self, id: PolicyId, key: Key, is_rejected: bool) {
        self.top.record((id, key), is_rejected);
        if let Some(counts) = self.counts(id) {
            counts.counted = true;
        }
    }

    pub(super) fn counts(&mut self, id: PolicyId) -> Option<&mut Counts> {
        self.policies.get_mut(usize::from(id)).map(|(_, counts)| counts)
    }

    pub(super) fn name(&self, id: PolicyId) -> Option<&PolicyName> {
        self.policies.get(usize::from(id)).map(|(name, _)| name)
    }

    pub(super) fn push_recent(&mut self, rejection: Rejection) {
        if self.recent.len() >= RECENT_PER_SHARD {
            self.recent.pop_front();
        }
        self.recent.push_back(rejection);
    }
}
