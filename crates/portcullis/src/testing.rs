//! Tools for the tests of a limited service. See [Testing](crate::guide::testing).

use portcullis_memory::MemoryStore;

use crate::Limiter;

pub use portcullis_core::ManualClock;

/// A limiter in memory whose time a test sets, by the clock. Each has a memory of its own.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use axum::{Router, body::Body, http::Request, routing::get};
/// use portcullis::key::Global;
/// use portcullis::testing::{self, ManualClock};
/// use portcullis::{Policy, PolicyExt as _, Quota};
/// use tower::ServiceExt as _;
///
/// let clock = ManualClock::default();
/// let limit = testing::limiter(&clock).layer(Policy::gcra("search", Quota::per_minute(1)).by(Global));
/// let app: Router = Router::new().route("/", get(async || "found")).layer(limit);
/// let search = async || app.clone().oneshot(Request::new(Body::empty())).await;
///
/// assert_eq!(search().await?.status(), 200);
/// assert_eq!(search().await?.status(), 429);
/// clock.advance(Duration::from_secs(60));
/// assert_eq!(search().await?.status(), 200);
/// # Ok(())
/// # }
/// ```
pub fn limiter(clock: &ManualClock) -> Limiter {
    Limiter::in_process(MemoryStore::builder().clock(clock.clone()).build())
}
