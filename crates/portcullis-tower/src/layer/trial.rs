//! How the policies of a layer are tried out.

use crate::{LayerError, Mode, Percent, RateLimitLayer};

impl RateLimitLayer {
    /// Enforces the policy that was added last for a share of its keys. For the others it is a [shadow](Self::shadow) policy. The
    /// same as [`mode(Mode::Percent(share))`](Self::mode).
    ///
    /// A [share](Percent) has the same clients in all instances, and keeps them when it grows. A request without an identity for the
    /// policy has no key that could be in the share, and passes as under a shadow policy; so does a look-up that fails.
    ///
    /// ```
    /// use std::net::SocketAddr;
    /// use std::sync::Arc;
    ///
    /// use http::{Request, Response};
    /// use portcullis_core::{Policy, Quota, Secret};
    /// use portcullis_memory::MemoryStore;
    /// use portcullis_tower::{ClientIp, LayerBuilder, Percent, Registry};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let registry = Arc::new(Registry::new(Arc::new(MemoryStore::new()), Secret::published()));
    /// let planned = Policy::fixed_window("planned", Quota::per_day(1));
    /// let layer = LayerBuilder::new(registry, planned).by(ClientIp::peer()).enforce(Percent::new(10));
    /// let service = layer.layer(service_fn(async |_: Request<String>| {
    ///     Ok::<_, std::convert::Infallible>(Response::new(String::new()))
    /// }));
    /// let mut limited = 0;
    /// for client in 0..100 {
    ///     for _ in 0..2 {
    ///         let peer = SocketAddr::from(([192, 0, 2, client], 1024));
    ///         let request = Request::builder().extension(peer).body(String::new())?;
    ///         limited += u32::from(service.clone().oneshot(request).await?.status() == 429);
    ///     }
    /// }
    /// assert!((1..30).contains(&limited));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// If clients [choose](crate::KeyExtractor::is_chosen_by_client) the key of the policy.
    #[track_caller]
    pub fn enforce(self, share: Percent) -> Self {
        self.mode(Mode::Percent(share))
    }

    /// Sets the mode of the policy that was added last, [`Mode::Enforce`] by default.
    ///
    /// [`Registry::set_mode`](crate::Registry::set_mode) replaces it while the layer runs.
    ///
    /// # Panics
    ///
    /// If [`try_mode`](Self::try_mode) returns an error.
    #[track_caller]
    pub fn mode(self, mode: Mode) -> Self {
        match self.try_mode(mode) {
            Ok(layer) => layer,
            Err(error) => panic!("{error}"),
        }
    }

    /// Like [`mode`](Self::mode), for modes that are not literals. Set the key of the policy first.
    ///
    /// # Errors
    ///
    /// [`LayerError::UnverifiedKey`] for [`Mode::Percent`], if clients [choose](crate::KeyExtractor::is_chosen_by_client) the
    /// key of the policy.
    pub fn try_mode(self, mode: Mode) -> Result<Self, LayerError> {
        let last = self.config.last();
        if matches!(mode, Mode::Percent(_)) && last.key.is_chosen_by_client() {
            return Err(LayerError::UnverifiedKey { policy: last.policy.name().clone() });
        }
        Ok(self.with_last(|last| last.set_mode(mode)))
    }
}
