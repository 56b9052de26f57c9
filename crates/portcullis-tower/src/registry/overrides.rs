//! Blocks and grants by hand.

use std::fmt;
use std::time::{Duration, SystemTime};

use http::Request;
use portcullis_core::overrides::{self, Override};
use portcullis_core::{Key, Policy, Quota};

use super::Registry;
use crate::limit::{ResolvedKey, missing_message};
use crate::{KeyError, KeyExtractor, OverridingError};

impl Registry {
    /// Returns the key that a layer charges a request to: what `extractor` finds in `request`, which may be made for this purpose.
    ///
    /// So a tool for operators names a client exactly as a layer does, whatever the extractor writes: it puts the value that the
    /// extractor reads into a request, as an address, an extension or a header. A preflight has another key.
    ///
    /// ```
    /// use std::net::SocketAddr;
    /// use http::Request;
    /// use portcullis::key::{Extension, Header};
    /// use portcullis::{ClientIp, Limiter};
    ///
    /// #[derive(Clone)]
    /// struct User(u64);
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limiter = Limiter::memory();
    /// let by_user = Extension::<User>::with(|user, key| key.part("user", &user.0.to_be_bytes()));
    /// let user_42 = limiter.key_of(&by_user, Request::builder().extension(User(42)).body(())?)?;
    ///
    /// let by_api_key = Header::named("x-api-key");
    /// let api_key = limiter.key_of(&by_api_key, Request::builder().header("x-api-key", "k-17").body(())?)?;
    ///
    /// // An IPv6 client is its /64 network, as in the layer.
    /// let [one, other] = ["[2001:db8::1]:0", "[2001:db8::2]:0"].map(|peer| {
    ///     let peer: SocketAddr = peer.parse().expect("an address and a port");
    ///     let mut request = Request::new(());
    ///     request.extensions_mut().insert(peer);
    ///     limiter.key_of(&ClientIp::peer(), request)
    /// });
    /// assert_eq!(one, other);
    /// assert!(user_42 != api_key);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If the extractor returns an error, or finds no identity in the request or that it is exempt.
    pub fn key_of<B>(&self, extractor: &impl KeyExtractor, request: Request<B>) -> Result<Key, KeyError> {
        let (parts, _) = request.into_parts();
        match ResolvedKey::find(extractor, self.secret(), &parts)? {
            ResolvedKey::Known(key) => Ok(key),
            ResolvedKey::Missing => Err(KeyError::client(missing_message(extractor.expected(&parts)))),
            ResolvedKey::Exempt => Err(KeyError::client("the extractor exempts the request")),
        }
    }

    /// Blocks a key under a policy for a length of time from now on, in all instances that share the store: all its requests are
    /// rejected, as by a [lock-out](crate::Limit::lock_out). It replaces a block of the key. One line is logged, without the
    /// key.
    ///
    /// The policy has to [allow overrides](Policy::allow_overrides) or have a lock-out. It is taken as it is registered under its name; if no
    /// layer has the name, as in a tool of its own, `policy` itself has to allow overrides.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use http::{Request, Response};
    /// use portcullis::key::Header;
    /// use portcullis::{Limiter, Policy, PolicyExt as _, Quota};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limiter = Limiter::memory();
    /// let api = Policy::fixed_window("api", Quota::per_day(1_000)).allow_overrides();
    /// let by_user = Header::named("x-user");
    /// let service = limiter.layer(api.clone().by(by_user.clone())).layer(service_fn(
    ///     async |_: Request<String>| Ok::<_, std::convert::Infallible>(Response::new(String::new())),
    /// ));
    /// let request = || Request::builder().header("x-user", "mallory").body(String::new());
    ///
    /// let mallory = limiter.key_of(&by_user, request()?)?;
    /// limiter.block(&api, mallory, Duration::from_secs(3_600)).await?;
    /// assert_eq!(service.clone().oneshot(request()?).await?.status(), 429);
    /// limiter.unblock(&api, mallory).await?;
    /// assert_eq!(service.oneshot(request()?).await?.status(), 200);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If the limiter has no such policy, if the policy does not read overrides, if `length` is shorter than a microsecond or longer
    /// than 2^51 microseconds, or if the store fails or keeps no blocks.
    pub async fn block(&self, policy: &Policy, key: Key, length: Duration) -> Result<(), OverridingError> {
        let Some(policy) = self.overridden(policy)? else { return Ok(()) };
        overrides::validate_block(&policy, length)?;
        self.store().block(&policy, key, length).await?;
        tracing::info!(policy = %policy.name(), ?length, "a key of a policy of the rate limiter was blocked by hand");
        Ok(())
    }

    /// Ends the block of a key under a policy, by hand or by a lock-out, and forgets what its lock-out has counted. An instance that
    /// remembers a denial may repeat it for up to a second.
    ///
    /// # Errors
    ///
    /// As for [`block`](Self::block).
    pub async fn unblock(&self, policy: &Policy, key: Key) -> Result<(), OverridingError> {
        let Some(policy) = self.overridden(policy)? else { return Ok(()) };
        self.store().unblock(&policy, key).await?;
        tracing::info!(policy = %policy.name(), "a key of a policy of the rate limiter was unblocked by hand");
        Ok(())
    }

    /// Grants a key another quota under a policy, in all instances that share the store. The methods of the builder say until when.
    ///
    /// The key keeps its state: what it has used of the old quota counts against the new one. A window keeps its length.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use http::{Request, Response};
    /// use portcullis::key::Header;
    /// use portcullis::{Limiter, Policy, PolicyExt as _, Quota};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limiter = Limiter::memory();
    /// let daily = Policy::fixed_window("daily", Quota::per_day(1_000)).allow_overrides();
    /// let by_user = Header::named("x-user");
    /// let service = limiter.layer(daily.clone().by(by_user.clone())).layer(service_fn(
    ///     async |_: Request<String>| Ok::<_, std::convert::Infallible>(Response::new(String::new())),
    /// ));
    /// let request = || Request::builder().header("x-user", "ada").body(String::new());
    ///
    /// let ada = limiter.key_of(&by_user, request()?)?;
    /// limiter.grant(&daily, ada, Quota::per_day(5_000)).for_duration(Duration::from_secs(3 * 86_400)).await?;
    /// let response = service.oneshot(request()?).await?;
    /// assert_eq!(response.headers()["x-ratelimit-limit"], "5000");
    /// # Ok(())
    /// # }
    /// ```
    pub fn grant<'a>(&'a self, policy: &'a Policy, key: Key, quota: Quota) -> GrantBuilder<'a> {
        GrantBuilder { registry: self, policy, key, quota }
    }

    /// Ends the grant of a key under a policy before its time. The key keeps its state.
    ///
    /// # Errors
    ///
    /// As for [`block`](Self::block).
    pub async fn revoke_grant(&self, policy: &Policy, key: Key) -> Result<(), OverridingError> {
        let Some(policy) = self.overridden(policy)? else { return Ok(()) };
        self.store().set_grant(&policy, key, None).await?;
        tracing::info!(policy = %policy.name(), "a grant under a policy of the rate limiter was revoked");
        Ok(())
    }

    /// Returns the block and the grant of a key under a policy, whose ends may have passed, and what its lock-out has counted.
    ///
    /// # Errors
    ///
    /// As for [`block`](Self::block).
    pub async fn overrides(&self, policy: &Policy, key: Key) -> Result<Override, OverridingError> {
        match self.overridden(policy)? {
            Some(policy) => Ok(self.store().overrides(&policy, key).await?),
            None => Ok(Override::NONE),
        }
    }

    /// The policy as it is registered now, which reads overrides; `None` if limits are off.
    fn overridden(&self, policy: &Policy) -> Result<Option<Policy>, OverridingError> {
        let name = policy.name();
        let registered = match self.policy(name) {
            Some(registered) => registered,
            None if policy.reads_overrides() => policy.clone(),
            None => return Err(OverridingError::Unknown { policy: name.clone() }),
        };
        overrides::validate_policy(&registered)?;
        Ok((!self.is_off).then_some(registered))
    }
}

/// A grant that lacks its end. Made by `Limiter::grant`.
#[derive(Clone, Copy)]
#[must_use = "nothing is granted until `until` or `for_duration` is awaited"]
pub struct GrantBuilder<'a> {
    registry: &'a Registry,
    policy: &'a Policy,
    key: Key,
    quota: Quota,
}

impl GrantBuilder<'_> {
    /// Grants the quota until an instant, on the clock of this process: the store gets the length of time from now on.
    ///
    /// It replaces an earlier grant of the key. One line is logged, without the key.
    ///
    /// # Errors
    ///
    /// As for [`for_duration`](Self::for_duration); if the instant has passed.
    pub async fn until(self, end: SystemTime) -> Result<(), OverridingError> {
        self.for_duration(end.duration_since(SystemTime::now()).unwrap_or_default()).await
    }

    /// Grants the quota for a length of time from now on.
    ///
    /// It replaces an earlier grant of the key. One line is logged, without the key.
    ///
    /// # Errors
    ///
    /// If the limiter has no such policy, or it does not read overrides; if the policy cannot have the quota; if `length` is
    /// shorter than a microsecond or longer than 2^51 microseconds; if the store fails or keeps no grants.
    pub async fn for_duration(self, length: Duration) -> Result<(), OverridingError> {
        let Self { registry, policy, key, quota } = self;
        let Some(policy) = registry.overridden(policy)? else { return Ok(()) };
        overrides::validate_grant(&policy, quota, length)?;
        registry.store().set_grant(&policy, key, Some((quota, length))).await?;
        tracing::info!(policy = %policy.name(), %quota, ?length, "another quota was granted to a key by hand");
        Ok(())
    }
}

impl fmt::Debug for GrantBuilder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GrantBuilder")
            .field("policy", self.policy.name())
            .field("key", &self.key)
            .field("quota", &self.quota)
            .finish_non_exhaustive()
    }
}
