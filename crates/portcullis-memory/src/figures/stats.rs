//! Figures about a store.

use portcullis_core::PolicyName;

/// How full a [`MemoryStore`](crate::MemoryStore) is, over all its policies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// Policies that were registered, explicitly or by their first use, and not forgotten since.
    pub policies: usize,
    /// Stored states, one per key and policy, including expired ones that were not swept yet.
    pub entries: usize,
    /// Bytes that count against [`bytes`](crate::MemoryStoreBuilder::bytes), of all policies: the maximum that states take.
    pub bytes: usize,
    /// Stored overflow states, including expired ones that were not swept yet.
    pub overflow_states: usize,
    /// Policies that have an overflow state.
    pub overflowing_policies: usize,
    /// Checks, refunds and settlements whose key did not fit and that used an overflow state, since the start.
    pub overflowed_checks: u64,
    /// Stored [overrides](portcullis_core::overrides::Override), including expired ones that were not swept yet.
    pub overrides: usize,
}

/// How full a [`MemoryStore`](crate::MemoryStore) is, for one policy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryPolicyStats {
    /// The policy.
    pub policy: PolicyName,
    /// Stored states, one per key, including expired ones that were not swept yet.
    pub entries: usize,
    /// Bytes that count against [`bytes`](crate::MemoryStoreBuilder::bytes): the maximum that states take.
    pub bytes: usize,
    /// Stored overflow states, including expired ones that were not swept yet.
    pub overflow_states: usize,
    /// Checks, refunds and settlements whose key did not fit and that used an overflow state, since the start.
    pub overflowed_checks: u64,
    /// Stored [overrides](portcullis_core::overrides::Override), including expired ones that were not swept yet.
    pub overrides: usize,
}

impl MemoryPolicyStats {
    /// Adds the figures of another policy with the same name.
    pub(crate) fn add(&mut self, other: &Self) {
        self.entries += other.entries;
        self.bytes += other.bytes;
        self.overflow_states += other.overflow_states;
        self.overflowed_checks += other.overflowed_checks;
        self.overrides += other.overrides;
    }
}

impl MemoryStats {
    /// The sums over all policies.
    pub(crate) fn of(policies: impl Iterator<Item = MemoryPolicyStats>) -> Self {
        let mut all = Self::default();
        for policy in policies {
            all.policies += 1;
            all.entries += policy.entries;
            all.bytes += policy.bytes;
            all.overflow_states += policy.overflow_states;
            all.overflowing_policies += usize::from(policy.overflow_states > 0);
            all.overflowed_checks += policy.overflowed_checks;
            all.overrides += policy.overrides;
        }
        all
    }
}
