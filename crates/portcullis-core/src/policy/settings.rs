//! Policies from configuration or input.

use alloc::vec::Vec;
use core::time::Duration;

use super::failure::PackedMode;
use super::wait::LeaseOrWait;
use super::{Policy, PolicyError, PolicyName, PolicyPartError, lease};
use crate::{FailureMode, FailureModeError, LeaseError, Mistakes, Quota, QuotaError, Strategy};

/// What a policy has besides its name and strategy: the settings of [`Policy::try_new`].
///
/// By default requests do not wait, nothing is leased, and each instance enforces the whole limit while the store fails.
///
/// ```
/// use std::time::Duration;
/// use portcullis::store::Gcra;
/// use portcullis::{FailureMode, Policy, PolicySettings, Quota};
///
/// let settings = PolicySettings {
///     failure_mode: FailureMode::Closed,
///     max_wait: Some(Duration::from_millis(500)),
///     ..PolicySettings::default()
/// };
/// let partner = Policy::try_new("partner", Gcra::new("10/s".parse()?), settings)?;
/// let literal = Policy::gcra("partner", Quota::per_second(10))
///     .on_store_failure(FailureMode::Closed)
///     .wait_at_most(Duration::from_millis(500));
/// assert_eq!(partner, literal);
/// assert_eq!(partner.settings(), settings);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
// Exhaustive: a new setting of policies is one of their literals as well.
pub struct PolicySettings {
    /// What happens to a request when the store cannot answer: [`Policy::on_store_failure`].
    pub failure_mode: FailureMode,
    /// The most units that a process charges in advance, at least 1 and at most what is admitted at one instant: [`Policy::lease`].
    pub max_lease: Option<u64>,
    /// The longest time for which a request waits, from 1 microsecond to [`Policy::MAX_WAIT`], in whole microseconds:
    /// [`Policy::wait_at_most`].
    pub max_wait: Option<Duration>,
    /// The largest debt that settlements leave, in units; the bound is that of the algorithm: [`Policy::allow_debt`].
    pub max_debt: Option<u64>,
    /// The smallest and the largest quota of single callers, both of the policy's period: [`Policy::caller_quotas`].
    pub caller_quotas: Option<(Quota, Quota)>,
    /// Whether keys can have grants and blocks: [`Policy::allow_overrides`].
    pub allow_overrides: bool,
}

impl Policy {
    /// A policy from configuration or input: it checks everything, and returns all mistakes at once.
    ///
    /// What is wrong under the policy's own strategy alone is not among them if the strategy is wrong itself.
    ///
    /// ```
    /// use std::time::Duration;
    /// use portcullis::store::TokenBucket;
    /// use portcullis::{Policy, PolicySettings};
    ///
    /// let settings = PolicySettings { max_lease: Some(0), max_wait: Some(Duration::ZERO), ..PolicySettings::default() };
    /// let errors = Policy::try_new("search", TokenBucket::new("10/s".parse()?), settings).unwrap_err();
    /// assert!(errors.to_string().starts_with("policy search: a lease of 0 units saves no call"));
    /// assert_eq!(errors.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the name is not 1 to 64 printable ASCII characters, if the strategy is an error, or if the policy cannot have one of the
    /// settings. The method of the same purpose describes which it can have.
    pub fn try_new(
        name: &str,
        strategy: Result<impl Into<Strategy>, QuotaError>,
        settings: PolicySettings,
    ) -> Result<Self, Mistakes<PolicyError>> {
        let mut errors: Vec<PolicyError> = Vec::new();
        let name = PolicyName::new(name).unwrap_or_else(|error| {
            errors.push(error.into());
            PLENTY.name
        });
        let (strategy, settings) = match strategy {
            Ok(strategy) => (strategy.into(), settings),
            Err(error) => {
                let error = PolicyPartError::Quota(error);
                errors.push(PolicyError::Part { policy: name.clone(), error });
                // Whether these are right depends on the quota that is wrong.
                (PLENTY.strategy, PolicySettings { caller_quotas: None, ..settings })
            }
        };
        let policy = Self::new(name, strategy).with_settings(settings, &mut errors);
        Mistakes::none_or(errors, policy)
    }

    /// The policy with another quota of its own. All else stays: the algorithm with its windows, the failure mode, the lease, the longest
    /// wait, the largest debt, the quotas of single callers, and whether it allows overrides. A burst of the policy that the quota leaves out
    /// stays as well.
    ///
    /// Of a quota for a calendar window, or for requests in flight, only the limit counts.
    ///
    /// ```
    /// use portcullis::{FailureMode, Policy, Quota};
    ///
    /// let search = Policy::token_bucket("search", Quota::per_second(10).burst(50)).on_store_failure(FailureMode::Closed);
    /// let doubled = search.replace_quota(Quota::per_second(20))?;
    /// assert_eq!(doubled.strategy().quota(), Some(Quota::per_second(20).burst(50)));
    /// assert_eq!(doubled.settings(), search.settings());
    /// # Ok::<(), portcullis::Mistakes<portcullis::PolicyError>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the quota does not fit the algorithm, one of the settings, or the [quotas of single callers](Policy::caller_quotas).
    pub fn replace_quota(&self, quota: Quota) -> Result<Self, Mistakes<PolicyError>> {
        let own_burst = self.strategy.quota().and_then(Quota::explicit_burst);
        let burst = quota.explicit_burst().or(own_burst);
        let quota =
            if quota.is_unlimited() { Ok(quota) } else { Quota::new(quota.limit(), quota.period(), burst) };
        let strategy = quota.and_then(|quota| self.strategy.of_quota(quota));
        Self::try_new(self.name.as_str(), strategy, self.settings())
    }

    /// The settings of the policy, to make one that differs in some of them.
    pub fn settings(&self) -> PolicySettings {
        PolicySettings {
            failure_mode: self.failure_mode(),
            max_lease: self.max_lease().map(u64::from),
            max_wait: self.max_wait(),
            max_debt: self.max_debt(),
            caller_quotas: self.quota_range(),
            allow_overrides: self.reads_overrides(),
        }
    }

    /// The policy with those of the settings that it can have.
    fn with_settings(mut self, settings: PolicySettings, errors: &mut Vec<PolicyError>) -> Self {
        let policy = self.name.clone();
        let mut check = |checked: Result<(), PolicyPartError>| {
            let mistake = |error| PolicyError::Part { policy: policy.clone(), error };
            errors.extend(checked.map_err(mistake).err());
        };
        check(self.set_failure_mode(settings.failure_mode).map_err(PolicyPartError::FailureMode));
        if let Some(units) = settings.max_lease {
            check(self.set_lease(units).map_err(PolicyPartError::Lease));
        }
        if let Some(wait) = settings.max_wait {
            check(self.set_wait(wait).map_err(PolicyPartError::Wait));
        }
        if let Some(units) = settings.max_debt {
            check(self.set_debt(units).map_err(PolicyPartError::Debt));
        }
        if let Some(quotas) = settings.caller_quotas {
            check(self.set_caller_quotas(quotas).map_err(PolicyPartError::CallerQuotas));
        }
        if settings.allow_overrides {
            check(self.set_overrides().map_err(PolicyPartError::Lease));
        }
        self
    }

    pub(super) const fn set_failure_mode(&mut self, mode: FailureMode) -> Result<(), FailureModeError> {
        let validated = mode.validate(&self.strategy);
        if validated.is_ok() && !self.is_constant() {
            self.failure_mode = PackedMode::new(mode);
        }
        validated
    }

    pub(super) const fn set_lease(&mut self, units: u64) -> Result<(), LeaseError> {
        match lease::validate(self, units) {
            Ok(units) => self.lease_or_wait = LeaseOrWait::lease(units),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    pub(super) const fn set_overrides(&mut self) -> Result<(), LeaseError> {
        if self.max_lease().is_some() {
            return Err(LeaseError::Overrides);
        }
        self.lease_or_wait = self.lease_or_wait.with_overrides();
        Ok(())
    }
}

/// Stands in for a name or a strategy that is wrong: it can have every setting that some strategy can have, except for quotas of callers.
const PLENTY: Policy = Policy::gcra("unnamed", Quota::per_second(Quota::MAX_UNITS).burst(Quota::MAX_UNITS));

#[cfg(test)]
mod tests;
