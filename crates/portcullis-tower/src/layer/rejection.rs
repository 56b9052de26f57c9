//! What makes the responses to rejected requests.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;

use crate::{RateLimitLayer, Rejection};

impl RateLimitLayer {
    /// Returns the closure that makes the responses to rejected requests: that of [`reject_with`](Self::reject_with), else that of
    /// [the limiter](crate::Registry::set_rejection). `None` without one: the response is [`Rejection::response`].
    ///
    /// With it, a closure for some rejections leaves the others as they are:
    ///
    /// ```
    /// use std::sync::Arc;
    /// use http::{Request, Response};
    /// use portcullis_core::{Policy, Quota, Secret};
    /// use portcullis_memory::MemoryStore;
    /// use portcullis_tower::matching::RequestPath;
    /// use portcullis_tower::{Global, LayerBuilder, Reason, Registry};
    /// use tower::{Layer as _, ServiceExt as _, service_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let registry = Arc::new(Registry::new(Arc::new(MemoryStore::new()), Secret::published()));
    /// registry.set_rejection(|rejection| Response::builder().status(rejection.status()).body("no".into()).unwrap());
    /// let policy = Policy::fixed_window("all", Quota::per_day(1));
    /// let layer = LayerBuilder::new(registry, policy).by(Global).deny(RequestPath::exact("/admin"));
    /// let otherwise = layer.rejection().expect("the limiter has a closure");
    /// let layer = layer.reject_with(move |rejection| match rejection.reason() {
    ///     Reason::Denied => Response::builder().status(404).body("nothing is here".into()).unwrap(),
    ///     _ => otherwise(rejection),
    /// });
    /// let service = layer.layer(service_fn(async |_: Request<String>| {
    ///     Ok::<_, std::convert::Infallible>(Response::new(String::new()))
    /// }));
    /// for (path, status) in [("/admin", 404), ("/", 200), ("/", 429)] {
    ///     let request = Request::get(path).body(String::new())?;
    ///     assert_eq!(service.clone().oneshot(request).await?.status(), status);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[expect(clippy::type_complexity, reason = "an alias would hide what the closure takes and returns")]
    pub fn rejection(&self) -> Option<Arc<dyn Fn(&Rejection<'_>) -> Response<Bytes> + Send + Sync>> {
        self.config.responses.custom()
    }
}
