//! Blocks and grants by hand.

use std::time::Duration;

use http::Request;
use portcullis_core::overrides::Override;
use portcullis_core::{Key, Policy, Quota};
use portcullis_tower::{BlockReach, BlockedClient, GrantBuilder, KeyError, KeyExtractor, OverridingError};

use super::Limiter;

impl Limiter {
    /// Returns the key that a layer charges a request to: what `extractor` finds in `request`, which is usually made for this
    /// purpose. So a tool for operators names a client exactly as a layer does.
    ///
    /// ```
    /// use std::net::SocketAddr;
    ///
    /// use axum::http::Request;
    /// use portcullis::key::{Extension, Header, KeyError};
    /// use portcullis::{ClientIp, Limiter};
    ///
    /// #[derive(Clone)]
    /// struct User(u64);
    ///
    /// let limiter = Limiter::memory();
    /// // The extractors are those of the layers.
    /// let by_user = Extension::<User>::with(|user, key| key.part("user", &user.0.to_be_bytes()));
    /// let by_api_key = Header::named("x-api-key");
    /// let by_address = ClientIp::peer();
    ///
    /// let user_42 = limiter.key_of(&by_user, Request::builder().extension(User(42)).body(())?)?;
    /// let api_key = limiter.key_of(&by_api_key, Request::builder().header("x-api-key", "k-17").body(())?)?;
    /// let peer: SocketAddr = "[2001:db8::1]:0".parse()?;
    /// let address = limiter.key_of(&by_address, Request::builder().extension(peer).body(())?)?;
    ///
    /// // The same by hand: the parts and tags are in the table of the module `key`. An address is its network, of 64 bits here.
    /// assert_eq!(user_42, limiter.key(|key| key.part("user", &42_u64.to_be_bytes()))?);
    /// assert_eq!(address, limiter.key(|key| by_address.prefix(peer.ip()).write(key))?);
    /// # let _ = api_key;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the extractor returns an error, or finds no identity in the request or that it is exempt.
    pub fn key_of<B>(&self, extractor: &impl KeyExtractor, request: Request<B>) -> Result<Key, KeyError> {
        self.registry.key_of(extractor, request)
    }

    /// Blocks a key under a policy for a length of time from now on, in all instances that share the store: its requests are rejected
    /// with 429 and `Retry-After`, as by a [lock-out](crate::Limit::lock_out). Under other policies the key is not blocked.
    ///
    /// The policy has to [allow overrides](Policy::allow_overrides) or have a lock-out in a layer.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// use portcullis::layer::LockOut;
    /// use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, Quota};
    ///
    /// let limiter = Limiter::memory();
    /// let login = Policy::sliding_window("login", Quota::per_minute(5));
    /// let layer = limiter.layer(login.clone().by(ClientIp::peer()).lock_out(LockOut::after(20)));
    ///
    /// // In a handler for operators:
    /// let address = limiter.key(|key| ClientIp::peer().prefix([192, 0, 2, 1].into()).write(key))?;
    /// limiter.block(&login, address, Duration::from_secs(3_600)).await?;
    /// assert!(limiter.peek(&login, address).await?.is_blocked());
    /// limiter.unblock(&login, address).await?;
    /// assert_eq!(limiter.peek(&login, address).await?.remaining(), 5);
    /// # let _ = layer;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If no layer has the policy and it allows none itself; if the policy of the layers allows none and has no lock-out; if
    /// `length` is shorter than a microsecond or longer than 2^51 microseconds; if the store fails or keeps no blocks.
    pub async fn block(&self, policy: &Policy, key: Key, length: Duration) -> Result<(), OverridingError> {
        self.registry.block(policy, key, length).await
    }

    /// Ends the block of a key under a policy, by hand or by a lock-out, and forgets what its lock-out has counted.
    ///
    /// # Errors
    ///
    /// As for [`block`](Self::block).
    pub async fn unblock(&self, policy: &Policy, key: Key) -> Result<(), OverridingError> {
        self.registry.unblock(policy, key).await
    }

    /// Blocks a client under all policies for a length of time from now on, for an emergency: no policy has to declare anything before. Its
    /// requests are rejected with 429 and `Retry-After`. Returns where it is blocked.
    ///
    /// A policy is covered if its key is exactly this one or, where this one has a single part, begins with it: a user is blocked by user, and
    /// by user and route, and not by address. On Redis the block holds in all instances, in this one at once and in others within five
    /// seconds, and outlasts restarts.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// use portcullis::{Limiter, Policy, Quota};
    ///
    /// let limiter = Limiter::memory();
    /// let mallory = limiter.key(|key| key.part("user", b"mallory"))?;
    /// limiter.block_client(mallory, Duration::from_secs(3_600)).await?;
    /// for policy in [Policy::gcra("search", Quota::per_second(10)), Policy::fixed_window("daily", Quota::per_day(100))] {
    ///     assert!(limiter.peek(&policy, mallory).await?.is_blocked());
    ///     assert!(limiter.check(&policy).by_key(mallory).await.is_err());
    /// }
    /// assert_eq!(limiter.blocked_clients().len(), 1);
    /// limiter.unblock_client(mallory).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If unrelated clients share the key, such as [`Global`](crate::key::Global); if `length` is shorter than a microsecond or longer than
    /// 2^51 microseconds; if 256 other clients are blocked under all policies; if the store fails.
    pub async fn block_client(&self, client: Key, length: Duration) -> Result<BlockReach, OverridingError> {
        self.registry.block_client(client, length).await
    }

    /// Ends the block of a client under all policies. Blocks under single policies stay.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn unblock_client(&self, client: Key) -> Result<BlockReach, OverridingError> {
        self.registry.unblock_client(client).await
    }

    /// Returns the clients that are blocked under all policies, as this process knows them: others that share its store may have changed
    /// them up to five seconds ago.
    pub fn blocked_clients(&self) -> Vec<BlockedClient> {
        self.registry.blocked_clients()
    }

    /// Grants a key another quota under a policy that [allows overrides](Policy::allow_overrides) policy, in all instances that share the store, until an
    /// instant or for a length of time. It ends by itself.
    ///
    /// The quota has the period of the policy's own. It goes before a [quota of the caller](crate::Limit::quota), and need not be
    /// one that the policy declares.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::{Duration, SystemTime};
    ///
    /// use portcullis::{Limiter, Policy, Quota};
    ///
    /// let limiter = Limiter::memory();
    /// let daily = Policy::fixed_window("daily", Quota::per_day(1_000)).allow_overrides();
    /// let ada = limiter.key(|key| key.part("user", b"ada"))?;
    ///
    /// let monday = SystemTime::now() + Duration::from_secs(3 * 86_400);
    /// limiter.grant(&daily, ada, Quota::per_day(5_000)).until(monday).await?;
    /// assert_eq!(limiter.peek(&daily, ada).await?.limit(), 5_000);
    /// limiter.revoke_grant(&daily, ada).await?;
    /// assert_eq!(limiter.peek(&daily, ada).await?.limit(), 1_000);
    /// # Ok(())
    /// # }
    /// ```
    pub fn grant<'a>(&'a self, policy: &'a Policy, key: Key, quota: Quota) -> GrantBuilder<'a> {
        self.registry.grant(policy, key, quota)
    }

    /// Ends the grant of a key under a policy before its time.
    ///
    /// # Errors
    ///
    /// As for [`block`](Self::block).
    pub async fn revoke_grant(&self, policy: &Policy, key: Key) -> Result<(), OverridingError> {
        self.registry.revoke_grant(policy, key).await
    }

    /// Returns the block and the grant of a key under a policy, whose ends may have passed, and what its lock-out has counted.
    ///
    /// # Errors
    ///
    /// As for [`block`](Self::block).
    pub async fn overrides(&self, policy: &Policy, key: Key) -> Result<Override, OverridingError> {
        self.registry.overrides(policy, key).await
    }
}
