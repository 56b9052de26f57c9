//! Short guides to what most services need first. The [book] has a tutorial, a page for each task, and the reference.
//!
#![doc = concat!("[book]: ", env!("CARGO_PKG_HOMEPAGE"), "/index.html")]

/// The client that is charged.
///
/// A limit counts per key. [`ClientIp`](crate::ClientIp) is the address; an IPv6 address counts by its /64 network. Without a proxy it is
/// that of the peer. Behind a proxy, name its networks: only a header from there is believed.
///
/// ```
/// use portcullis::key::{Header, KeyExtractor as _, Trust};
/// use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, Quota};
///
/// let address = ClientIp::behind(Trust::networks(["10.0.0.0/8"])).x_forwarded_for();
/// let search = Policy::token_bucket("search", Quota::per_second(10).burst(20));
/// let layer = Limiter::memory().layer(search.by(Header::named("x-api-key").or(address)));
/// # let _ = layer;
/// ```
///
/// A header that a client makes up is a new key for each request. Limit by address as well, or by an identity that
/// another layer has verified: [`key::Extension`](crate::key::Extension).
///
/// See [Find the client's address], [Place the layers], and [Identity and forging].
///
#[doc = book!("Find the client's address", "how-to/address/index")]
#[doc = book!("Place the layers", "how-to/service/layers")]
#[doc = book!("Identity and forging", "understand/identity")]
pub mod identity {}

/// What a client sees, and what a handler does.
///
/// A rejected request gets 429 with `Retry-After`, in gRPC `RESOURCE_EXHAUSTED`. After that wait a request is admitted. Responses have
/// `X-RateLimit-*` unless [`headers`](crate::RateLimitLayer::headers) chooses others, and the body is text, JSON or your own:
///
/// ```
/// use portcullis::headers::RateLimitHeaders;
/// use portcullis::layer::RejectionFormat;
/// use portcullis::{ClientIp, Limiter, Policy, PolicyExt as _, Quota};
///
/// let login = Policy::sliding_window("login", Quota::per_minute(5));
/// let layer = Limiter::memory()
///     .layer(login.by(ClientIp::peer()))
///     .headers(RateLimitHeaders::IETF)
///     .reject_as(RejectionFormat::Problem);
/// # let _ = layer;
/// ```
///
/// A handler reads what remains from a [`Charge`](crate::Charge), and checks limits of its own by
/// [`Limiter::check`](crate::Limiter::check).
///
/// See [Headers and statuses], and [Decide what clients see].
///
#[doc = book!("Headers and statuses", "reference/responses")]
#[doc = book!("Decide what clients see", "how-to/clients/index")]
pub mod responses {}

/// Memory, Redis, and what happens while Redis does not answer.
///
/// [`Limiter::memory`](crate::Limiter::memory) counts in the process. `Limiter::redis(url).await?`, with the feature `redis`, counts for all
/// instances; nothing else of the program changes. Each check has a deadline. While Redis does not answer, each instance
/// enforces the limit in its memory, or does what the [failure mode](crate::FailureMode) of the policy says:
///
/// ```
/// use portcullis::{FailureMode, Policy, Quota};
///
/// let login = Policy::sliding_window("login", Quota::per_minute(5)).on_store_failure(FailureMode::Closed);
/// assert_eq!(login.failure_mode(), FailureMode::Closed);
/// ```
///
/// See [Set up Redis], [When the store fails], and [Size Redis and memory].
///
#[doc = book!("Set up Redis", "how-to/operate/redis")]
#[doc = book!("When the store fails", "understand/failures")]
#[doc = book!("Size Redis and memory", "how-to/operate/sizing")]
pub mod stores {}

/// Limits in files, which operators change while the service runs. Needs the feature `rules`.
///
#[cfg_attr(feature = "rules", doc = "```")]
#[cfg_attr(not(feature = "rules"), doc = "```ignore")]
/// use portcullis::Limiter;
/// use portcullis::rules::{Format, Loader, Rules};
///
/// // A service reads a file: `Rules::from_file("limits.toml")?`.
/// let limits = Loader::text("limits.toml", Format::Toml, r#"
///     [policy.search]
///     strategy = "token_bucket"
///     quota = "10/s burst 20"
///     key = "client_ip"
///     match = { path = "/search" }
/// "#);
/// let limiter = Limiter::memory().with_rules(Rules::load(&limits)?)?;
/// let layer = limiter.rules()?.layer();
/// # let _ = layer;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// `portcullis check limits.toml` finds mistakes before the service does.
///
/// See [Limits in a file], [Fields of rules], and [Check and change rules safely].
///
#[doc = book!("Limits in a file", "start/rules")]
#[doc = book!("Fields of rules", "reference/rules")]
#[doc = book!("Check and change rules safely", "how-to/operate/rules")]
pub mod rules {}

/// Tests that set the clock themselves. Needs the feature `testing`.
///
#[cfg_attr(feature = "testing", doc = "```")]
#[cfg_attr(not(feature = "testing"), doc = "```ignore")]
/// use std::time::Duration;
///
/// use portcullis::testing::{self, ManualClock};
/// use portcullis::{Policy, Quota};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let clock = ManualClock::default();
/// let limiter = testing::limiter(&clock);
/// let mails = Policy::gcra("mails", Quota::per_minute(1));
/// let send = async || limiter.check(&mails).by(|key| key.part("email", b"ann@example.com")).await;
/// assert!(send().await.is_ok());
/// assert!(send().await.is_err());
/// clock.advance(Duration::from_secs(60));
/// assert!(send().await.is_ok());
/// # }
/// ```
///
/// [`Limiter::off`](crate::Limiter::off) lets every request pass.
///
/// See [Test your service].
///
#[doc = book!("Test your service", "how-to/service/testing")]
pub mod testing {}
