//! Policies whose checks read overrides.

use core::time::Duration;

use super::{Policy, name};
use crate::{Quota, QuotaError, Strategy};

impl Policy {
    /// Lets keys have another quota or be blocked under the policy until an instant: its checks look for an
    /// [override](crate::overrides::Override) of their key, which is a grant or a block.
    ///
    /// Without it a key cannot have one, and its checks look for none. In configuration files it is `overrides = true`. A policy with a
    /// [lease](Policy::lease) cannot read overrides: a process spends what it has in lease without asking the store.
    ///
    /// ```
    /// use portcullis::{Policy, Quota};
    ///
    /// const API: Policy = Policy::gcra("api", Quota::per_second(10)).allow_overrides();
    /// assert!(API.reads_overrides());
    /// ```
    ///
    /// # Panics
    ///
    /// If the policy has a lease.
    #[must_use]
    #[track_caller]
    pub const fn allow_overrides(mut self) -> Self {
        match self.set_overrides() {
            Ok(()) => self,
            Err(_) => panic!("a policy with a lease cannot allow overrides: leave out the lease"),
        }
    }

    /// Whether the checks of the policy look for [overrides](Policy::allow_overrides).
    #[inline]
    pub const fn reads_overrides(&self) -> bool {
        self.lease_or_wait.reads_overrides()
    }

    /// A digest of the name and the kind of strategy alone, for what is kept when a window gets another length: the
    /// [overrides](crate::overrides::Override) of keys, and which clients a policy is enforced for.
    ///
    /// ```
    /// use portcullis::{Policy, Quota};
    ///
    /// let minutes = Policy::fixed_window("login", Quota::per_minute(5));
    /// let hours = Policy::fixed_window("login", Quota::per_hour(5));
    /// assert_ne!(minutes.digest(), hours.digest());
    /// assert_eq!(minutes.override_digest(), hours.override_digest());
    /// ```
    pub fn override_digest(&self) -> u128 {
        if self.strategy.structure().is_empty() {
            return self.digest();
        }
        name::digest(self.name.as_str(), &self.strategy)
    }

    /// Whether the policy has the quota of a [grant](crate::overrides::Grant): it is that of a check which a store has decided under
    /// the grant, and of its receipt, which is corrected under the same quota.
    ///
    /// ```
    /// use core::time::Duration;
    /// use portcullis::store::{Checks, MemoryStore, Store as _};
    /// use portcullis::{Policy, Quota, Secret};
    ///
    /// let mut hasher = Secret::published().hasher();
    /// hasher.writer().part("user", b"ada");
    /// let ada = hasher.finish()?;
    /// let (store, api) = (MemoryStore::new(), Policy::gcra("api", Quota::per_second(10)).allow_overrides());
    /// let grant = Some((Quota::per_second(100), Duration::from_secs(60)));
    /// store.set_grant(&api, ada, grant).into_ready().expect("memory answers at once")?;
    ///
    /// let outcome = store.check(Checks::one(api.clone(), ada, 1)).into_ready().expect("memory answers at once")?;
    /// assert!(outcome.checks().iter().all(|check| check.policy.is_granted()) && !api.is_granted());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub const fn is_granted(&self) -> bool {
        self.lease_or_wait.is_granted()
    }

    /// Replaces the quota by that of a grant, which has the period of the policy's own quota, as far as the algorithm keeps it.
    ///
    /// It need not be among the declared quotas of callers: those bound what look-ups return, and a grant is given to one key.
    pub(crate) fn granted(&self, quota: Quota) -> Result<Self, GrantedQuotaError> {
        if quota.is_unlimited() {
            let policy = self.without_limit();
            return Ok(Self { lease_or_wait: policy.lease_or_wait.with_grant(), ..policy });
        }
        let declared = self.quota_range().map(|(smallest, _)| smallest.period());
        let period = self.strategy.period().or(declared);
        let quota = match period {
            Some(period) if quota.is_zero() => Quota::new(0, period, None)?,
            Some(period) if period != quota.period() && !self.strategy.is_unlimited() => {
                return Err(GrantedQuotaError::OtherPeriod { period });
            }
            _ => quota,
        };
        let policy = Self {
            strategy: self.strategy_for(quota)?.within_bounds(),
            lease_or_wait: self.lease_or_wait.with_quota().with_grant(),
            ..self.clone()
        };
        Ok(if quota.is_zero() { policy.decided_without_store() } else { policy })
    }
}

impl Strategy {
    /// Lowers the debt to one that the quota permits, and raises the ceiling to one that it cannot reach, because a grant need not be
    /// among the declared quotas.
    pub(super) fn within_bounds(self) -> Self {
        let debt = self.debt();
        let units = debt.units().filter(|units| *units > self.max_debt());
        let strategy = units.map_or(self, |_| self.with_debt(debt.with_units(self.max_debt())));
        let (debt, reached) = (strategy.debt(), strategy.ceiling_of_quotas());
        if debt.ceiling().is_none_or(|ceiling| ceiling >= reached) {
            return strategy;
        }
        strategy.with_debt(debt.with_ceiling(reached))
    }
}

/// Why a policy cannot have the quota of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GrantedQuotaError {
    /// It has another period than the policy's own quota.
    #[error("its period must be {period:?}")]
    OtherPeriod {
        /// The period of the policy's own quota.
        period: Duration,
    },
    /// It exceeds a bound of the algorithm, with the longest wait or in the share of one instance.
    #[error(transparent)]
    Quota(#[from] QuotaError),
}
