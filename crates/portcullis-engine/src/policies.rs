//! The policies of a limiter as they are now: by their names, for as long as a layer has them.

mod install;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use portcullis_core::overrides::LockOut;
use portcullis_core::{Clock, Policy, PolicyName, Timestamp, TooMuchWork};

use crate::limit::PolicyLockOut;
use crate::{LayerError, Mode, PolicyConflict};
pub use install::InstalledPolicy;

/// The registered policies. A layer reads it when it is built, and again after a change.
pub struct PolicyTable {
    generation: Generation,
    entries: Mutex<Entries>,
    clock: Arc<dyn Clock>,
}

/// Counts the changes of policies and modes. Every request reads it, so it has cache lines of its own: processors load them in
/// pairs of 64 bytes.
#[derive(Default)]
#[repr(align(128))]
struct Generation {
    number: AtomicU64,
}

#[derive(Default)]
struct Entries {
    policies: HashMap<PolicyName, Entry>,
    layers: HashMap<u64, Joined>,
    last_id: u64,
}

/// A layer that was built.
struct Joined {
    members: Box<[Member]>,
    /// Whether the layer is replaced whenever policies are installed, so that it bounds none of them.
    is_replaced: bool,
}

/// One name.
struct Entry {
    /// As it was first registered.
    declared: Policy,
    /// As it was set later.
    changed: Option<Policy>,
    registered_at: Timestamp,
    /// The mode in all layers, if it was set. Otherwise each layer has its own.
    mode: Option<Mode>,
    mode_since: Timestamp,
    /// In all layers, if one has set it.
    lock_out: Option<Arc<PolicyLockOut>>,
    /// Whether the quota was set by hand, until changed rules end that.
    has_set_quota: bool,
    /// As it was installed last.
    installed: Option<Box<InstalledPolicy>>,
    /// Whether the installed policy was replaced by another one, so that code may hold a former one.
    was_replaced: bool,
    /// The number of layers that have the policy.
    layers: usize,
    /// Whether the name was registered without a layer, so that it is never forgotten.
    is_kept: bool,
}

/// A policy of a layer.
#[derive(Debug)]
pub struct Member {
    /// The name of the policy.
    pub policy: PolicyName,
    /// Whether clients choose the key of the policy, so that it cannot be enforced for a share of its keys.
    pub has_chosen_key: bool,
}

/// A policy, and the mode that was set for it in all layers.
#[derive(Debug)]
pub struct Registered {
    /// The policy as it is now.
    pub policy: Policy,
    /// `None` if each layer has its own.
    pub mode: Option<Mode>,
    /// The lock-out in all layers, if one was set.
    pub lock_out: Option<Arc<PolicyLockOut>>,
}

/// Keeps the names of a layer registered until it is dropped.
pub struct Membership {
    table: Arc<PolicyTable>,
    id: u64,
}

opaque_debug!(PolicyTable, Membership);

impl PolicyTable {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { generation: Generation::default(), entries: Mutex::default(), clock }
    }

    /// The number of changes so far.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.generation.number.load(Ordering::Acquire)
    }

    /// The policy of a name as it is now, if it is registered.
    pub fn policy(&self, name: &PolicyName) -> Option<Policy> {
        self.lock().policies.get(name).map(|entry| entry.policy().clone())
    }

    /// The policies as they are now, in alphabetical order of their names.
    pub fn policies(&self) -> Vec<Policy> {
        let mut policies: Vec<_> =
            self.lock().policies.values().map(|entry| entry.policy().clone()).collect();
        policies.sort_by(|left, right| left.name().as_str().cmp(right.name().as_str()));
        policies
    }

    /// The mode that was set for all layers.
    pub fn mode(&self, name: &PolicyName) -> Option<Mode> {
        self.lock().policies.get(name)?.mode
    }

    /// Since when the name is registered, and since when the policy has its mode.
    pub fn since(&self, name: &PolicyName) -> Option<(SystemTime, SystemTime)> {
        let of_system = |time: Timestamp| SystemTime::UNIX_EPOCH + Duration::from_micros(time.as_micros());
        let entries = self.lock();
        let entry = entries.policies.get(name)?;
        Some((of_system(entry.registered_at), of_system(entry.mode_since)))
    }

    /// The registered names, in alphabetical order.
    pub fn names(&self) -> Vec<PolicyName> {
        let mut names: Vec<_> = self.lock().policies.keys().cloned().collect();
        names.sort_by(|left, right| left.as_str().cmp(right.as_str()));
        names
    }

    /// Whether a layer can have a policy, in addition to others. Returns whether the name is known, so that the store was asked
    /// already.
    pub(crate) fn admits(&self, members: &[Member], added: &Policy) -> Result<bool, LayerError> {
        self.lock().admits(members, added)
    }

    /// Registers a policy for as long as the table exists.
    pub(crate) fn keep(&self, policy: &Policy) -> Result<(), LayerError> {
        let mut entries = self.lock();
        let entry = entries
            .policies
            .entry(policy.name().clone())
            .or_insert_with(|| Entry::new(policy, self.clock.now()));
        entry.admit(policy)?;
        entry.is_kept = true;
        Ok(())
    }

    /// Registers a layer with these policies, which are registered already, except for the one that is added.
    pub(crate) fn join(
        self: &Arc<Self>,
        members: Box<[Member]>,
        added: Option<&Policy>,
    ) -> Result<Membership, LayerError> {
        let mut entries = self.lock();
        if let Some(added) = added {
            entries.admits(&members, added)?;
            entries
                .policies
                .entry(added.name().clone())
                .or_insert_with(|| Entry::new(added, self.clock.now()));
        }
        Ok(self.joined(&mut entries, Joined { members, is_replaced: false }))
    }

    /// Adds a layer whose policies are registered.
    fn joined(self: &Arc<Self>, entries: &mut Entries, layer: Joined) -> Membership {
        for member in &layer.members {
            entries.policies.get_mut(&member.policy).expect(REGISTERED).layers += 1;
        }
        entries.last_id += 1;
        let id = entries.last_id;
        entries.layers.insert(id, layer);
        Membership { table: Arc::clone(self), id }
    }

    /// The policies of a layer as they are now, in its order, and the generation that this is.
    ///
    /// # Panics
    ///
    /// Panics if a name is not registered.
    pub fn registered<'a>(&self, names: impl Iterator<Item = &'a PolicyName>) -> (u64, Vec<Registered>) {
        let entries = self.lock();
        let registered = names.map(|name| {
            let entry = entries.policies.get(name).expect(REGISTERED);
            let (policy, lock_out) = (entry.policy().clone(), entry.lock_out.clone());
            Registered { policy, mode: entry.mode, lock_out }
        });
        (self.generation(), registered.collect())
    }

    /// Sets the mode of a policy in all layers.
    ///
    /// # Errors
    ///
    /// Returns an error if no policy of the name is registered, or it would be enforced for a share of keys that clients choose.
    pub fn set_mode(&self, name: &PolicyName, mode: Mode) -> Result<(), LayerError> {
        let mut entries = self.lock();
        if matches!(mode, Mode::Percent(_)) && entries.layers.values().any(|layer| layer.lets_choose(name)) {
            return Err(LayerError::UnverifiedKey { policy: name.clone() });
        }
        let unknown = || LayerError::Unknown { policy: name.clone() };
        entries.policies.get_mut(name).ok_or_else(unknown)?.set_mode(Some(mode), self.clock.now());
        self.changed();
        Ok(())
    }

    /// Sets the lock-out of a policy in all layers, and lets the policy have overrides: then its checks read blocks. Returns the lock-out
    /// that all layers share.
    pub(crate) fn set_lock_out(
        &self,
        name: &PolicyName,
        rule: LockOut,
    ) -> Result<Arc<PolicyLockOut>, LayerError> {
        let mut entries = self.lock();
        let entry = entries.policies.get_mut(name).expect(REGISTERED);
        if let Some(lock_out) = &entry.lock_out {
            let registered = *lock_out.rule();
            if registered != rule {
                let [registered, refused] = [registered, rule].map(Box::new);
                return Err(LayerError::LockOutConflict { policy: name.clone(), registered, refused });
            }
            return Ok(Arc::clone(lock_out));
        }
        if !entry.policy().reads_overrides() {
            entry.changed = Some(reading_overrides(entry.policy())?);
        }
        let lock_out = Arc::new(PolicyLockOut::new(rule));
        entry.lock_out = Some(Arc::clone(&lock_out));
        self.changed();
        Ok(lock_out)
    }

    /// Replaces a policy by one of the same name, or its quota alone, and returns the former one. A policy that allows overrides stays so.
    pub(crate) fn set_policy(&self, policy: Policy, is_quota: bool) -> Result<Policy, LayerError> {
        let mut entries = self.lock();
        let Some(entry) = entries.policies.get(policy.name()) else {
            return Err(LayerError::Unknown { policy: policy.name().clone() });
        };
        if is_quota
            && let Some(document) = entry.installed.as_ref().and_then(|installed| installed.document())
        {
            let policy = policy.name().clone();
            return Err(LayerError::OwnedByDocument { policy, document: Arc::clone(document) });
        }
        let policy = if entry.policy().reads_overrides() { reading_overrides(&policy)? } else { policy };
        PolicyConflict::check_change(entry.policy(), &policy)?;
        if *entry.policy() == policy {
            return Ok(policy);
        }
        if policy.strategy().work() > entry.policy().strategy().work() {
            for Joined { members, .. } in entries.layers.values() {
                if members.iter().any(|member| member.policy == *policy.name()) {
                    entries.check_work(members, &policy)?;
                }
            }
        }
        let entry = entries.policies.get_mut(policy.name()).expect(REGISTERED);
        let former = entry.policy().clone();
        entry.changed = Some(policy);
        entry.has_set_quota = is_quota;
        self.changed();
        Ok(former)
    }

    /// Called under the lock.
    fn changed(&self) {
        self.generation.number.fetch_add(1, Ordering::Release);
    }

    /// Removes a layer, and forgets the names that no other layer has.
    fn leave(&self, id: u64) {
        let mut entries = self.lock();
        let Entries { policies, layers, .. } = &mut *entries;
        let members = layers.remove(&id).map(|layer| layer.members);
        for member in members.unwrap_or_default() {
            let Some(entry) = policies.get_mut(&member.policy) else { continue };
            entry.layers = entry.layers.saturating_sub(1);
            if entry.layers == 0 && !entry.is_kept {
                policies.remove(&member.policy);
            }
        }
    }

    /// A panic cannot leave it inconsistent, except for names that are registered longer, so a poisoned lock is safe to use.
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn admits(&self, members: &[Member], added: &Policy) -> Result<bool, LayerError> {
        let entry = self.policies.get(added.name());
        if let Some(entry) = entry {
            entry.admit(added)?;
        }
        self.check_work(members, entry.map_or(added, Entry::policy))?;
        Ok(entry.is_some())
    }

    /// Whether a decision over the policies of a layer stays within the work of one decision. `with` is added, or replaces the
    /// policy of its name.
    fn check_work(&self, members: &[Member], with: &Policy) -> Result<(), TooMuchWork> {
        TooMuchWork::check(members.iter().map(|member| {
            let registered = || self.policies.get(&member.policy).expect(REGISTERED).policy();
            if member.policy == *with.name() { with } else { registered() }
        }))
    }
}

impl Entry {
    fn new(declared: &Policy, registered_at: Timestamp) -> Self {
        Self {
            declared: declared.clone(),
            changed: None,
            registered_at,
            mode: None,
            mode_since: registered_at,
            lock_out: None,
            has_set_quota: false,
            installed: None,
            was_replaced: false,
            layers: 0,
            is_kept: false,
        }
    }

    fn set_mode(&mut self, mode: Option<Mode>, now: Timestamp) {
        if self.mode != mode {
            (self.mode, self.mode_since) = (mode, now);
        }
    }

    fn policy(&self) -> &Policy {
        self.changed.as_ref().unwrap_or(&self.declared)
    }

    /// Whether a layer may be built with this policy. Code that states the policy as it was before it was changed gets the current
    /// one.
    fn admit(&self, policy: &Policy) -> Result<(), LayerError> {
        let is_installed = self.installed.as_ref().is_some_and(|installed| installed.policy == *policy);
        if self.was_replaced || is_installed || self.declared == *policy {
            return Ok(());
        }
        PolicyConflict::check(self.policy(), policy)
    }
}

impl Joined {
    /// Whether clients choose the key of this policy.
    fn lets_choose(&self, name: &PolicyName) -> bool {
        self.members.iter().any(|member| member.has_chosen_key && member.policy == *name)
    }
}

impl Membership {
    /// The layer is replaced whenever policies are installed.
    pub fn is_replaced(&self) {
        if let Some(layer) = self.table.lock().layers.get_mut(&self.id) {
            layer.is_replaced = true;
        }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.table.leave(self.id);
    }
}

/// Returns the policy with checks that read grants and blocks.
///
/// # Errors
///
/// [`LayerError::LeasedOverrides`] if the policy is leased.
pub fn reading_overrides(policy: &Policy) -> Result<Policy, LayerError> {
    match policy.max_lease() {
        Some(_) => Err(LayerError::LeasedOverrides { policy: policy.name().clone() }),
        None => Ok(policy.clone().allow_overrides()),
    }
}

const REGISTERED: &str = "the policies of a layer are registered as long as it exists";

#[cfg(test)]
mod tests;
