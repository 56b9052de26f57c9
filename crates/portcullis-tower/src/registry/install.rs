//! Installs the policies of rules, and reports how rules change.

use std::fmt;
use std::path::Path;

use super::Registry;
use crate::{InstalledPolicy, LayerError};
use portcullis_engine::policies::Membership;
use portcullis_engine::{Event, EventKind};
use portcullis_log::{codes, file_log::log_findings};

/// Keeps the names of [installed](Registry::install) policies registered until it is dropped.
#[must_use = "the names are forgotten when it is dropped"]
pub struct Installation {
    _membership: Membership,
}

impl Registry {
    /// Replaces any number of policies at once, with their modes and lock-outs: for rules that are read from a file, whose requests
    /// never meet a part of them.
    ///
    /// Names that are new are registered, with the store first. Unlike [`set_policy`](Self::set_policy), it also replaces a policy
    /// by one whose states are others, such as a window of another length, which then starts with fresh states. What was charged
    /// under the former one is corrected under it.
    ///
    /// What was set by hand since a policy was installed stays until the next one differs from the one installed before: the policy
    /// that [`set_policy`](Self::set_policy) has set, and the mode that [`set_mode`](Self::set_mode) has set. A quota that
    /// [`set_quota`](Self::set_quota) has set ends [with changed rules](InstalledPolicy::of_changed_rules) as well.
    ///
    /// Once an installed policy was replaced by another one, layers and checks that state any policy of its name get the current one,
    /// because code may hold one of former rules.
    ///
    /// `commit` is called once, under the lock of the policies, if nothing is refused. It must not call the registry, nor drop a layer of
    /// it. A request that sees one of the new policies sees what it has stored, and one that sees what it has stored sees none of the
    /// former policies.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use portcullis_core::{Policy, Quota, Secret};
    /// use portcullis_memory::MemoryStore;
    /// use portcullis_tower::{InstalledPolicy, Mode, Registry};
    ///
    /// let registry = Registry::new(Arc::new(MemoryStore::new()), Secret::published());
    /// let hourly = Policy::fixed_window("all", Quota::per_hour(5));
    /// let daily = Policy::fixed_window("all", Quota::per_day(50));
    /// let first = registry.install(&[InstalledPolicy::new(hourly.clone())], || {})?;
    /// assert_eq!(registry.policy(hourly.name()), Some(hourly.clone()));
    ///
    /// let second = registry.install(&[InstalledPolicy::new(daily.clone()).mode(Mode::Shadow)], || {})?;
    /// assert_eq!((registry.policy(daily.name()), registry.mode(daily.name())), (Some(daily), Some(Mode::Shadow)));
    ///
    /// drop((first, second));
    /// assert_eq!(registry.policy(hourly.name()), None);
    /// # Ok::<(), portcullis_tower::LayerError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`LayerError::Duplicate`] if a name is there twice; [`LayerError::Conflict`] and [`LayerError::LockOutConflict`] if a layer has
    /// registered a different policy, or lock-out, under a name that was not installed before; [`LayerError::UnverifiedKey`] if clients
    /// choose the key in such a layer and the mode becomes a share; [`LayerError::TooMuchWork`] if such a layer would exceed the bound
    /// of one decision; [`LayerError::LocksOutInFlight`] and [`LayerError::LeasedOverrides`] for policies that have no lock-out;
    /// [`LayerError::Refused`] if the store refuses a policy. Nothing changes then, and `commit` is not called.
    pub fn install(
        &self,
        policies: &[InstalledPolicy],
        commit: impl FnOnce(),
    ) -> Result<Installation, LayerError> {
        let membership = self.engine.install(policies, commit)?;
        self.engine.backlog.in_flight.policies_changed();
        Ok(Installation { _membership: membership })
    }

    /// Logs that new rules apply, and emits [`EventKind::RulesReloaded`].
    #[doc(hidden)]
    pub fn rules_reloaded(&self, generation: u64, file: &Path) {
        tracing::info!(generation, file = %file.display(), "new rules of the rate limiter apply");
        self.emit(EventKind::RulesReloaded { generation });
    }

    /// Logs that new rules are refused, and emits [`EventKind::RulesRejected`].
    #[doc(hidden)]
    pub fn rules_rejected(&self, generation: u64, findings: &str) {
        log_findings(findings, |findings| {
            tracing::error!(
                code = %codes::RULES_REFUSED,
                generation,
                findings,
                "new rules of the rate limiter are refused: those of this generation stay"
            );
        });
        self.emit(EventKind::RulesRejected { generation, findings });
    }

    fn emit(&self, kind: EventKind<'_>) {
        self.engine.observers().emit(&Event::new(&[], kind));
    }
}

impl fmt::Debug for Installation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Installation").finish_non_exhaustive()
    }
}
