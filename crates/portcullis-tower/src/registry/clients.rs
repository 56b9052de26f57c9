//! Clients that are blocked under all policies.

use std::time::Duration;

use portcullis_core::Key;
use portcullis_core::overrides::{ClientChange, validate_client};
use portcullis_engine::{BlockReach, BlockedClient};

use super::Registry;
use crate::OverridingError;

impl Registry {
    /// Blocks a client under all policies for a length of time from now on, in place of an earlier block of it under all policies. The
    /// policies need not [allow overrides](portcullis_core::Policy::allow_overrides), and may be registered later. Returns where the client
    /// is blocked.
    ///
    /// A policy is covered if it charges a request to exactly this key or, where the key has one part, to a key that begins with that part,
    /// such as that of a user on a route. Such a request is denied before the store is asked, and is charged nothing, at each door of the
    /// limiter: layers, checks of handlers and messages, services that decide for others. A policy in shadow, or off, rejects nothing.
    ///
    /// A store that several processes share keeps the list, so that a restart ends no block. It applies here at once, and in the
    /// others within [`FOLLOW_EVERY`](crate::FOLLOW_EVERY), in which each reads the list once. Limiters on a store in memory keep lists
    /// of their own. Ends are by the clock of each process. One line is logged, without the key.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    ///
    /// use http::{Request, Response};
    /// use portcullis_core::{Policy, Quota, Secret};
    /// use portcullis_memory::MemoryStore;
    /// use portcullis_tower::{Header, PolicyExt as _, RateLimitLayer, Registry};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let registry = Arc::new(Registry::new(Arc::new(MemoryStore::new()), Secret::published()));
    /// let by_user = Header::named("x-user");
    /// let layer = RateLimitLayer::new(Arc::clone(&registry), Policy::gcra("api", Quota::per_second(10)).by(by_user.clone()));
    /// let service = layer.layer(service_fn(async |_: Request<String>| {
    ///     Ok::<_, std::convert::Infallible>(Response::new(String::new()))
    /// }));
    /// let request = || Request::builder().header("x-user", "mallory").body(String::new());
    ///
    /// let mallory = registry.key_of(&by_user, request()?)?;
    /// registry.block_client(mallory, Duration::from_secs(3_600)).await?;
    /// let rejected = service.clone().oneshot(request()?).await?;
    /// assert_eq!((rejected.status().as_u16(), &rejected.headers()["retry-after"]), (429, &3_600.into()));
    /// registry.unblock_client(mallory).await?;
    /// assert_eq!(service.oneshot(request()?).await?.status(), 200);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If unrelated clients [share](Key::is_shared) the key; if `length` is shorter than a microsecond or longer than
    /// [`MAX_LENGTH`](portcullis_core::overrides::MAX_LENGTH); if 256 other clients are blocked under all policies; if the store fails.
    pub async fn block_client(&self, client: Key, length: Duration) -> Result<BlockReach, OverridingError> {
        validate_client(client, length)?;
        let reach = self.change_client(ClientChange { client, length: Some(length) }).await?;
        tracing::info!(?length, "a client was blocked under all policies of the rate limiter by hand");
        Ok(reach)
    }

    /// Ends the block of a client under all policies. Blocks under single policies stay.
    ///
    /// # Errors
    ///
    /// If the store fails.
    pub async fn unblock_client(&self, client: Key) -> Result<BlockReach, OverridingError> {
        let reach = self.change_client(ClientChange { client, length: None }).await?;
        tracing::info!("a client was unblocked under all policies of the rate limiter by hand");
        Ok(reach)
    }

    /// Returns the clients that are blocked under all policies, as this process knows them.
    pub fn blocked_clients(&self) -> Vec<BlockedClient> {
        self.engine().blocked_clients()
    }

    async fn change_client(&self, change: ClientChange) -> Result<BlockReach, OverridingError> {
        if self.is_off {
            return Ok(BlockReach::Limiter);
        }
        let reach = self.engine().change_client(change).await?;
        if reach == BlockReach::Store {
            // The registry may have been made without a runtime.
            self.engine().follow_clients();
        }
        Ok(reach)
    }
}
