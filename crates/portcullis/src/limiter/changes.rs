//! Changes of policies while their layers run.

use portcullis_core::{Policy, PolicyName, Quota};
use portcullis_tower::{LayerError, Mode};

use super::Limiter;

impl Limiter {
    /// Makes a policy known that only handlers [check](Self::check), for as long as the limiter exists: [`policies`](Self::policies) and the
    /// admin API have it, it can be changed, and a line of the log shows it. Otherwise it is known from its first check on.
    ///
    /// ```
    /// use portcullis::{Limiter, Policy, Quota};
    ///
    /// static MAILS: Policy = Policy::sliding_window("mails", Quota::per_hour(3));
    ///
    /// let limiter = Limiter::memory();
    /// assert!(limiter.set_quota("mails", Quota::per_hour(5)).is_err());
    /// limiter.register(&MAILS)?;
    /// limiter.set_quota("mails", Quota::per_hour(5))?;
    /// # Ok::<(), portcullis::LayerError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If a different policy has this name, or the store has no room for it.
    pub fn register(&self, policy: &Policy) -> Result<(), LayerError> {
        self.registry.register(policy)
    }

    /// Sets the mode of a policy in all layers of this limiter and of its clones, from their next request on, in place of the mode
    /// that a layer was [built](crate::Limit::mode) with.
    ///
    /// ```
    /// use portcullis::layer::{Mode, Percent};
    /// use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, Quota};
    ///
    /// let limiter = Limiter::memory();
    /// let search = Policy::gcra("search", Quota::per_second(10));
    /// let layer = limiter.layer(search.clone().by(ClientIp::peer()).shadow());
    ///
    /// // A few days later, in a handler for operators:
    /// limiter.set_mode("search", Mode::Percent(Percent::new(10)))?;
    /// # let _ = layer;
    /// # Ok::<(), portcullis::LayerError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no policy of this name; for [`Mode::Percent`], if clients [choose](crate::key::KeyExtractor::is_chosen_by_client) its
    /// key in a layer. Nothing changes then.
    pub fn set_mode(&self, policy: impl AsRef<str>, mode: Mode) -> Result<(), LayerError> {
        self.registry.set_mode(&name(policy.as_ref())?, mode)
    }

    /// Returns the mode that was [set](Self::set_mode) for all layers with a policy; `None` if each layer has its own.
    pub fn mode(&self, policy: impl AsRef<str>) -> Option<Mode> {
        self.registry.mode(&name(policy.as_ref()).ok()?)
    }

    /// Replaces the quota of a policy in all layers of this limiter and of its clones, from their next request on, and nothing else of it: no
    /// setting of the policy has to be repeated, and a burst that the quota leaves out stays. The states of keys
    /// stay, and count against the new quota. Returns the former policy; both quotas are logged.
    ///
    /// It is for this process alone. It lasts until a restart or until the file of the rules changes, which then wins.
    ///
    /// ```
    /// use portcullis::{ClientIp, FailureMode, Limiter, Policy, PolicyExt as _, Quota};
    ///
    /// let limiter = Limiter::memory();
    /// let daily = Policy::fixed_window("daily", Quota::per_day(1_000)).on_store_failure(FailureMode::Closed);
    /// let layer = limiter.layer(daily.clone().by(ClientIp::peer()));
    ///
    /// limiter.set_quota("daily", Quota::per_day(200))?;
    /// let now = limiter.policy("daily").expect("the layer has it");
    /// assert_eq!((now.strategy().limit(), now.failure_mode()), (200, FailureMode::Closed));
    /// assert!(limiter.set_quota("daily", Quota::per_hour(200)).is_err()); // its windows are days
    /// assert!(limiter.set_quota("dayly", Quota::per_day(200)).is_err());
    /// # let _ = layer;
    /// # Ok::<(), portcullis::LayerError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no policy of this name; if the quota does not fit the policy: another period of a window, a burst that it cannot have, or a
    /// quota outside of its [`caller_quotas`](Policy::caller_quotas); if it is 0; if a signed document sets the policy.
    pub fn set_quota(&self, policy: impl AsRef<str>, quota: Quota) -> Result<Policy, LayerError> {
        self.registry.set_quota(&name(policy.as_ref())?, quota)
    }

    /// Replaces the policy of the same name in all layers of this limiter and of its clones, from their next request on: its limit,
    /// burst, failure mode and lease. The states of keys stay, and count against the new limit. Returns the former policy.
    ///
    /// ```
    /// use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, Quota};
    ///
    /// let limiter = Limiter::memory();
    /// let layer = limiter.layer(Policy::fixed_window("daily", Quota::per_day(1_000)).by(ClientIp::peer()));
    ///
    /// let former = limiter.set_policy(Policy::fixed_window("daily", Quota::per_day(2_000)))?;
    /// assert_eq!(former.strategy().limit(), 1_000);
    /// assert_eq!(limiter.policy(former.name()).map(|now| now.strategy().limit()), Some(2_000));
    /// # let _ = layer;
    /// # Ok::<(), portcullis::LayerError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no policy of this name, if its states could not follow, because the algorithm or the length of a window differs,
    /// or if the store or a layer cannot have the new one. Nothing changes then.
    pub fn set_policy(&self, policy: Policy) -> Result<Policy, LayerError> {
        self.registry.set_policy(policy)
    }

    /// Returns the policy that has this name now; `None` if there is none.
    pub fn policy(&self, policy: impl AsRef<str>) -> Option<Policy> {
        self.registry.policy(&name(policy.as_ref()).ok()?)
    }
}

fn name(policy: &str) -> Result<PolicyName, LayerError> {
    PolicyName::new(policy)
        .map_err(|error| LayerError::NoName { name: policy.chars().take(MAX_SHOWN).collect(), error })
}

/// How many characters of a text that is no name an error shows.
const MAX_SHOWN: usize = 64;
