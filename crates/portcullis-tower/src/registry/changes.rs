//! Changes of policies while their layers run.

use portcullis_core::{Policy, PolicyName, Quota};

use super::Registry;
use crate::{LayerError, Mode};

impl Registry {
    /// Sets the mode of a policy in all layers that have it, from their next request on. Requests that have begun keep the mode
    /// that they began with.
    ///
    /// It applies in place of the mode that a layer was [built](crate::Limit::mode) with, to layers that are built later
    /// as well, until the name is forgotten with the last layer that has the policy. There is one exception: a layer whose key
    /// clients choose keeps its own mode if it is built while the policy is enforced for a share of its keys.
    ///
    /// Other processes do not change.
    ///
    /// ```
    /// use http::{Request, Response};
    /// use portcullis::key::Global;
    /// use portcullis::layer::Mode;
    /// use portcullis::{Limiter, Policy, PolicyExt as _, Quota};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limiter = Limiter::memory();
    /// let all = Policy::fixed_window("all", Quota::per_day(1));
    /// let service = limiter.layer(all.clone().by(Global)).layer(service_fn(
    ///     async |_: Request<String>| Ok::<_, std::convert::Infallible>(Response::new(String::new())),
    /// ));
    /// for (mode, status) in [(Mode::Shadow, 200), (Mode::Enforce, 429), (Mode::Off, 200)] {
    ///     limiter.set_mode(all.name(), mode)?;
    ///     assert_eq!(service.clone().oneshot(Request::new(String::new())).await?.status(), status);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`LayerError::Unknown`] if no layer has the policy, and [`LayerError::UnverifiedKey`] for [`Mode::Percent`] if clients
    /// [choose](crate::KeyExtractor::is_chosen_by_client) its key in any layer. Nothing changes then.
    pub fn set_mode(&self, policy: &PolicyName, mode: Mode) -> Result<(), LayerError> {
        self.engine.policies().set_mode(policy, mode)?;
        tracing::info!(%policy, %mode, "the mode of a policy of the rate limiter was set");
        Ok(())
    }

    /// Returns the mode that was [set](Self::set_mode) for all layers with a policy; `None` if each layer has its own.
    pub fn mode(&self, policy: &PolicyName) -> Option<Mode> {
        self.engine.policies().mode(policy)
    }

    /// Replaces the quota of a registered policy, and nothing else: the failure mode, the lease and all other settings stay, and so does a
    /// burst that the quota leaves out. The states of all keys stay, as for [`set_policy`](Self::set_policy). Returns the former policy. One
    /// line is logged, with both quotas.
    ///
    /// It is for this process, and lasts until the name is forgotten with the last layer that has the policy, or until the text of rules that
    /// have [installed](Self::install) the policy changes. These win then, and one line is logged, with both quotas.
    ///
    /// # Errors
    ///
    /// [`LayerError::Unknown`] if there is no policy of this name; [`LayerError::Quota`] if the quota does not fit the policy, such as its
    /// algorithm or the [quotas of single callers](portcullis_core::Policy::caller_quotas); [`LayerError::ZeroQuota`] if it is 0; [`LayerError::OwnedByDocument`] if a signed
    /// document sets the policy; otherwise as for [`set_policy`](Self::set_policy). Nothing changes then.
    pub fn set_quota(&self, policy: &PolicyName, quota: Quota) -> Result<Policy, LayerError> {
        let (former, now) = self.engine.set_quota(policy, quota)?;
        self.engine.backlog.in_flight.policies_changed();
        let (before, now) = (former.strategy(), now.strategy());
        tracing::info!(%policy, %before, %now, "the quota of a policy of the rate limiter was set by hand");
        Ok(former)
    }

    /// Replaces the registered policy of the same name: its limit, its burst, its failure mode, its lease and its longest wait. It
    /// applies to all layers from their next request on, headers included. Requests that have begun keep the quota that they began
    /// with; what they charge later is charged under the new one, and a refund frees units at the rate at which they were charged. Returns
    /// the former policy.
    ///
    /// The states of all keys stay. Under a window or a log, a client that has used 30 units of 100 has 20 left of 50. Rate-based
    /// algorithms keep the time until the level of a key is empty: with another burst the units in use stay the same, and with
    /// another rate they are replenished in the same time as before. See [policies that change](crate#policies-that-change).
    ///
    /// A layer that is built later with the policy as it was first registered gets the current one, so that code and
    /// configuration do not have to agree. The change lasts until the name is forgotten with the last layer that has the policy.
    /// Other processes do not change.
    ///
    /// ```
    /// use http::{Request, Response};
    /// use portcullis::key::Global;
    /// use portcullis::{Limiter, Policy, PolicyExt as _, Quota};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limiter = Limiter::memory();
    /// let daily = Policy::fixed_window("daily", Quota::per_day(100));
    /// let service = limiter.layer(daily.by(Global)).layer(service_fn(
    ///     async |_: Request<String>| Ok::<_, std::convert::Infallible>(Response::new(String::new())),
    /// ));
    /// let response = service.clone().oneshot(Request::new(String::new())).await?;
    /// assert_eq!(response.headers()["x-ratelimit-remaining"], "99");
    ///
    /// limiter.set_policy(Policy::fixed_window("daily", Quota::per_day(50)))?;
    /// let response = service.oneshot(Request::new(String::new())).await?;
    /// assert_eq!(response.headers()["x-ratelimit-limit"], "50");
    /// assert_eq!(response.headers()["x-ratelimit-remaining"], "48");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`LayerError::Unknown`] if there is no policy of this name; [`LayerError::Incompatible`] if its states could not follow,
    /// because the new one has another algorithm, another window length or another refill;
    /// [`LayerError::TooMuchWork`] if a layer with it would exceed the bound of one decision; [`LayerError::Refused`] if the store
    /// cannot hold what its failure mode needs. Nothing changes then.
    pub fn set_policy(&self, policy: Policy) -> Result<Policy, LayerError> {
        let name = policy.name().clone();
        let (limit, window) = (policy.strategy().limit(), policy.strategy().window());
        let former = self.engine.set_policy(policy)?;
        self.engine.backlog.in_flight.policies_changed();
        tracing::info!(policy = %name, limit, ?window, "a policy of the rate limiter was set");
        Ok(former)
    }
}
