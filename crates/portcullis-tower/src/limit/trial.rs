//! How a policy is tried out.

use super::Limit;
use crate::{Mode, Percent};

impl Limit {
    /// Enforces the policy for a share of its keys. For the others it is a [shadow](Self::shadow) policy. The
    /// same as [`mode(Mode::Percent(share))`](Self::mode).
    ///
    /// A [share](Percent) has the same clients in all instances, and keeps them when it grows. A request without an identity for the
    /// policy has no key that could be in the share, and passes as under a shadow policy; so does a look-up that fails.
    ///
    /// ```
    /// use std::net::SocketAddr;
    /// use http::{Request, Response};
    /// use portcullis::layer::Percent;
    /// use portcullis::store::MemoryStore;
    /// use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, Quota, Secret};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let limiter = Limiter::new(MemoryStore::new(), Secret::published());
    /// let planned = Policy::fixed_window("planned", Quota::per_day(1));
    /// let layer = limiter.layer(planned.by(ClientIp::peer()).enforce(Percent::new(10)));
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
    pub fn enforce(self, share: Percent) -> Self {
        self.mode(Mode::Percent(share))
    }

    /// Makes the policy a [shadow](Self::shadow) policy for a share of its keys, and switches it off for the others: it rejects no
    /// request. The same as [`mode(Mode::ShadowPercent(share))`](Self::mode).
    ///
    /// The share has the clients that [`enforce`](Self::enforce) with the same share limits. Requests of the others are not checked,
    /// keep no state and emit no event, and so do requests without an identity for the policy. Since no request is rejected, clients
    /// may [choose](crate::KeyExtractor::is_chosen_by_client) the key.
    ///
    /// ```
    /// use portcullis::layer::Percent;
    /// use portcullis::{ClientIp, Policy, PolicyExt as _, Quota};
    ///
    /// let search = Policy::gcra("search", Quota::per_second(10)).by(ClientIp::peer()).shadow_for(Percent::new(10));
    /// assert!(format!("{search:?}").contains("mode: ShadowPercent(10 %)"));
    /// ```
    pub fn shadow_for(self, share: Percent) -> Self {
        self.mode(Mode::ShadowPercent(share))
    }

    /// Sets the mode of the policy, [`Mode::Enforce`] by default.
    ///
    /// `Limiter::set_mode` replaces it while the layer runs.
    pub fn mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }
}
