//! Installs policies: all of a set of rules change together.

use std::collections::HashMap;
use std::sync::Arc;

use portcullis_core::overrides::LockOut;
use portcullis_core::{Policy, PolicyName, Strategy, TooMuchWork};
use portcullis_log::codes;

use super::{Entries, Entry, Joined, Member, Membership, PolicyTable, REGISTERED, reading_overrides};
use crate::limit::PolicyLockOut;
use crate::{LayerError, Mode};

/// A policy with the mode and the lock-out that it has in all layers, for `Registry::install`.
#[derive(Clone, Debug, PartialEq)]
pub struct InstalledPolicy {
    pub(super) policy: Policy,
    mode: Mode,
    lock_out: Option<LockOut>,
    is_of_changed_rules: bool,
    document: Option<Arc<str>>,
}

/// What an installation makes of a name.
struct Change {
    policy: Policy,
    mode: Option<Mode>,
    lock_out: Option<Arc<PolicyLockOut>>,
}

impl InstalledPolicy {
    /// A policy that is enforced and has no lock-out.
    pub fn new(policy: Policy) -> Self {
        Self { policy, mode: Mode::default(), lock_out: None, is_of_changed_rules: false, document: None }
    }

    /// Sets the mode, [`Mode::Enforce`] by default.
    #[must_use]
    pub fn mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }

    /// Sets the lock-out, none by default.
    #[must_use]
    pub fn lock_out(self, lock_out: Option<LockOut>) -> Self {
        Self { lock_out, ..self }
    }

    /// Sets whether the policy is of rules whose text has changed, which end a [quota that was set by hand](crate::Engine::set_quota). By
    /// default only another policy does.
    #[must_use]
    pub fn of_changed_rules(self, are_changed: bool) -> Self {
        Self { is_of_changed_rules: are_changed, ..self }
    }

    /// Sets the name of the signed document that sets the policy, none by default. Its quota cannot be set by hand then.
    #[must_use]
    pub fn set_by_document(self, document: Option<Arc<str>>) -> Self {
        Self { document, ..self }
    }

    pub(super) fn document(&self) -> Option<&Arc<str>> {
        self.document.as_ref()
    }

    /// The policy as its checks need it.
    pub(crate) fn policy(&self) -> Result<Policy, LayerError> {
        if self.lock_out.is_none() {
            return Ok(self.policy.clone());
        }
        if is_in_flight(&self.policy) {
            return Err(LayerError::LocksOutInFlight { policy: self.policy.name().clone() });
        }
        reading_overrides(&self.policy)
    }
}

impl PolicyTable {
    /// Installs policies under one lock, with one change of the generation. The names are registered until the membership is dropped.
    ///
    /// `commit` runs under the lock, after the generation changed. A reader that sees what `commit` stored therefore sees the new
    /// generation, and waits for the lock to read the policies. A reader that sees a new policy, which needs the lock, sees what `commit`
    /// stored. If `commit` ran before the generation changed, a layer that was compared with the policies before would still pass as
    /// current.
    pub(crate) fn install(
        self: &Arc<Self>,
        policies: &[InstalledPolicy],
        commit: impl FnOnce(),
    ) -> Result<Membership, LayerError> {
        let now = self.clock.now();
        let mut entries = self.lock();
        let changes = entries.changes(policies)?;
        let mut ended = Vec::new();
        for (installed, change) in policies.iter().zip(changes) {
            let name = installed.policy.name();
            let declared = || Entry::new(&installed.policy, now);
            let entry = entries.policies.entry(name.clone()).or_insert_with(declared);
            if entry.has_set_quota && *entry.policy() != change.policy {
                ended.push((*entry.policy().strategy(), change.policy.clone()));
            }
            entry.has_set_quota &= !installed.is_of_changed_rules && *entry.policy() == change.policy;
            entry.changed = (change.policy != entry.declared).then_some(change.policy);
            entry.set_mode(change.mode, now);
            entry.lock_out = change.lock_out;
            let before = entry.installed.as_ref().map(|before| &before.policy);
            entry.was_replaced |= before.is_some_and(|before| *before != installed.policy);
            entry.installed = Some(Box::new(installed.clone()));
        }
        let member = |installed: &InstalledPolicy| Member {
            policy: installed.policy.name().clone(),
            has_chosen_key: false,
        };
        let members = policies.iter().map(member).collect();
        let membership = self.joined(&mut entries, Joined { members, is_replaced: true });
        self.changed();
        commit();
        // A subscriber of the log may call the registry.
        drop(entries);
        for (by_hand, policy) in ended {
            let (name, now) = (policy.name(), policy.strategy());
            tracing::warn!(code = %codes::HAND_SET_QUOTA_ENDED, policy = %name, %by_hand, %now, "changed rules end the quota that was set by hand");
        }
        Ok(membership)
    }
}

impl Entries {
    /// What the names become, in the order of the policies.
    fn changes(&self, policies: &[InstalledPolicy]) -> Result<Vec<Change>, LayerError> {
        let mut by_name = HashMap::new();
        let mut changes = Vec::with_capacity(policies.len());
        for installed in policies {
            let name = installed.policy.name();
            let change = self.change(installed)?;
            if by_name.insert(name, change.policy.clone()).is_some() {
                return Err(LayerError::Duplicate { policy: name.clone() });
            }
            changes.push(change);
        }
        self.check_layers(&by_name)?;
        Ok(changes)
    }

    fn change(&self, installed: &InstalledPolicy) -> Result<Change, LayerError> {
        let name = installed.policy.name();
        let lock_out_of = |rule: &LockOut| Arc::new(PolicyLockOut::new(*rule));
        let Some(entry) = self.policies.get(name) else {
            let lock_out = installed.lock_out.as_ref().map(lock_out_of);
            return Ok(Change { policy: installed.policy()?, mode: Some(installed.mode), lock_out });
        };
        let before = entry.installed.as_deref();
        let lock_out = match (&entry.lock_out, &installed.lock_out) {
            (Some(present), Some(rule)) if present.rule() == rule => Some(Arc::clone(present)),
            // The present rule was set by a layer.
            (Some(present), rule) if before.is_none_or(|before| before.lock_out.is_none()) => match rule {
                None => Some(Arc::clone(present)),
                Some(refused) => {
                    let [registered, refused] = [*present.rule(), *refused].map(Box::new);
                    return Err(LayerError::LockOutConflict { policy: name.clone(), registered, refused });
                }
            },
            (_, rule) => rule.as_ref().map(lock_out_of),
        };
        let policy = match before {
            // As the layers have it, or as it was set by hand.
            None => {
                entry.admit(&installed.policy)?;
                entry.policy().clone()
            }
            Some(_) if entry.has_set_quota && installed.is_of_changed_rules => installed.policy.clone(),
            Some(before) if before.policy == installed.policy && before.lock_out == installed.lock_out => {
                entry.policy().clone()
            }
            Some(before) if before.policy == installed.policy && before.policy()? != *entry.policy() => {
                entry.policy().clone()
            }
            Some(_) => installed.policy.clone(),
        };
        let policy = match lock_out {
            Some(_) if is_in_flight(&policy) => {
                return Err(LayerError::LocksOutInFlight { policy: name.clone() });
            }
            Some(_) if !policy.reads_overrides() => reading_overrides(&policy)?,
            _ => policy,
        };
        let mode = match before {
            None => entry.mode.or(Some(installed.mode)),
            Some(before) if before.mode == installed.mode => entry.mode,
            Some(_) => Some(installed.mode),
        };
        let is_new = mode != entry.mode;
        if let Some(Mode::Percent(_)) = mode
            && is_new
            && self.lasting_layers().any(|layer| layer.lets_choose(name))
        {
            return Err(LayerError::UnverifiedKey { policy: name.clone() });
        }
        Ok(Change { policy, mode, lock_out })
    }

    /// Whether the layers that stay can have the new policies.
    fn check_layers(&self, policies: &HashMap<&PolicyName, Policy>) -> Result<(), TooMuchWork> {
        for Joined { members, .. } in self.lasting_layers() {
            if members.iter().any(|member| policies.contains_key(&member.policy)) {
                let registered = |name| self.policies.get(name).expect(REGISTERED).policy();
                TooMuchWork::check(members.iter().map(|member| {
                    policies.get(&member.policy).unwrap_or_else(|| registered(&member.policy))
                }))?;
            }
        }
        Ok(())
    }

    fn lasting_layers(&self) -> impl Iterator<Item = &Joined> {
        self.layers.values().filter(|layer| !layer.is_replaced)
    }
}

/// The module of the layer's policies depends on this one.
fn is_in_flight(policy: &Policy) -> bool {
    matches!(policy.strategy(), Strategy::InFlight(_))
}
