//! Checks that handlers make: policies, keys, costs and the wait, without a layer.

#[cfg(feature = "axum")]
mod axum;
mod decide;
mod future;
mod limited;
mod messages;
mod meter;
mod policies;
#[cfg(feature = "tonic")]
mod tonic;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, header};
use portcullis_core::{Key, KeyWriter, Policy, Quota};
use smallvec::{SmallVec, smallvec};

use crate::{Charge, KeyError, Registry};
use portcullis_engine::{CallerPolicies, CallerQuotas};

pub use future::CheckFuture;
pub use limited::{Limited, overloaded};
pub use meter::Meter;

/// A policy that a handler is about to check, without a key. [`by`](CheckBuilder::by) sets the key.
///
/// Made by `Limiter::check` of the crate `portcullis`, or by [`CheckBuilder::new`].
#[derive(Clone, Copy, Debug)]
#[must_use = "a policy is not checked until `.by(key)` sets the key to charge, and the check is awaited"]
pub struct CheckBuilder<'a> {
    registry: &'a Arc<Registry>,
    policy: &'a Policy,
}

impl<'a> CheckBuilder<'a> {
    /// Starts a check under `policy`, which the check registers when it is awaited.
    pub fn new(registry: &'a Arc<Registry>, policy: &'a Policy) -> Self {
        Self { registry, policy }
    }

    /// Sets the key to charge: `write` writes its parts, as an extractor does.
    pub fn by(self, write: impl FnOnce(&mut KeyWriter<'_>)) -> Check<'a> {
        let key = written(self.registry, write);
        self.with(key)
    }

    /// Sets the key to charge, made before by `Limiter::key`, for a handler that [resets](portcullis_core::store::Store::reset)
    /// or peeks the same key.
    pub fn by_key(self, key: Key) -> Check<'a> {
        self.with(Ok(key))
    }

    fn with(self, key: Result<Key, KeyError>) -> Check<'a> {
        Check {
            registry: self.registry,
            entries: smallvec![Entry { policy: self.policy, key, cost: 1, quota: None }],
            at_most: None,
            accept: HeaderMap::new(),
        }
    }
}

/// A check that a handler makes, under one policy or several. It is decided when it is awaited.
///
/// It is charged under all policies or under none, as a request to a layer is, and returns the [`Charge`]; where a layer would
/// reject the request, it returns [`Limited`], which a handler returns as its response. The failure modes of the policies apply,
/// events are emitted, and delays are waited for, as in a layer. A policy that a layer has charged for the same request already
/// is charged again.
///
/// The policies are registered by the first check. A policy that the limiter refuses, such as a different one of a registered
/// name, is an error of the server: the check returns [`Reason::Misconfigured`](crate::Reason::Misconfigured), 500, and
/// [the event](crate::EventKind::Misconfigured), which is logged, names the policy. The same holds for a key to which nothing is
/// written. The headers and the closure of the response are those that the
/// limiter has when these policies are checked together for the first time.
///
/// A policy that limits [requests in flight](crate::RateLimitLayer::and) counts the check until the last clone of the `Charge`
/// is dropped, or the permit that was [taken](Charge::take_permit) from it.
///
/// [`by`](Self::by) and [`cost`](Self::cost) apply to the policy that was added last.
///
/// ```
/// use portcullis::check::Limited;
/// use portcullis::testing::{self, ManualClock};
/// use portcullis::{Limiter, Policy, Quota};
///
/// static MAILS: Policy = Policy::fixed_window("mails", Quota::per_hour(2));
/// static BYTES: Policy = Policy::fixed_window("bytes", Quota::per_hour(1_000));
///
/// async fn send(limiter: &Limiter, to: &str, mail: &str) -> Result<u64, Limited> {
///     let charge = limiter.check(&MAILS)
///         .by(|key| key.part("email", to.as_bytes()))
///         .and(&BYTES)
///         .cost(mail.len() as u64)
///         .await?;
///     Ok(charge.decision().remaining())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let limiter = testing::limiter(&ManualClock::default());
/// assert_eq!(send(&limiter, "ada@example.com", "hello").await?, 1);
/// assert_eq!(send(&limiter, "ada@example.com", "hello again").await?, 0);
///
/// let limited = send(&limiter, "ada@example.com", "and again").await.expect_err("two mails per hour");
/// assert_eq!((limited.status().as_u16(), limited.retry_after().map(|wait| wait.as_secs())), (429, Some(3_600)));
/// assert_eq!(send(&limiter, "bob@example.com", "hello").await?, 1);
/// # Ok(())
/// # }
/// ```
///
/// # Cost
///
/// One call of the store. What depends on the policies alone is made by the first check of a set of policies, and kept for up to
/// 1 024 sets. A check under one or two policies in memory makes two allocations: the way to the store, and the charge; keys are
/// hashed, and a policy is cloned, without one. A denial makes a few more, before its response.
///
/// # Cancel safety
///
/// As for [`ResponseFuture`](crate::ResponseFuture): if the future is dropped, the units may stay charged, but a slot in a queue
/// is given up.
///
/// # Panics
///
/// If the check has to wait for a slot in a queue or a window and there is no tokio runtime with a timer.
#[must_use = "a check limits nothing until it is awaited"]
pub struct Check<'a> {
    registry: &'a Arc<Registry>,
    /// At least one.
    entries: SmallVec<[Entry<'a>; 2]>,
    at_most: Option<Duration>,
    accept: HeaderMap,
}

/// A policy to check.
struct Entry<'a> {
    policy: &'a Policy,
    key: Result<Key, KeyError>,
    cost: u64,
    /// The quota of the caller.
    quota: Option<Quota>,
}

impl<'a> Check<'a> {
    /// Adds a policy to the same decision, charged to the same key as the previous policy, at a cost of 1.
    pub fn and(mut self, policy: &'a Policy) -> Self {
        let key = self.last().key.clone();
        self.entries.push(Entry { policy, key, cost: 1, quota: None });
        self
    }

    /// Charges the policy that was added last to another key.
    pub fn by(mut self, write: impl FnOnce(&mut KeyWriter<'_>)) -> Self {
        self.last().key = written(self.registry, write);
        self
    }

    /// Like [`by`](Self::by), but with a key made before. See [`CheckBuilder::by_key`].
    pub fn by_key(mut self, key: Key) -> Self {
        self.last().key = Ok(key);
        self
    }

    /// Sets the units that the check costs under the policy that was added last, 1 by default. A cost of 0 is a peek, which
    /// returns a charge that can [charge more](Charge::charge_more) or [check](Charge::check) later.
    pub fn cost(mut self, units: u64) -> Self {
        self.last().cost = units;
        self
    }

    /// Sets the quota of the caller under the policy that was added last: that of a plan or a contract. `None` is the quota of the
    /// policy. See [`Limit::quota`](crate::Limit::quota).
    ///
    /// ```
    /// use portcullis::check::Limited;
    /// use portcullis::testing::{self, ManualClock};
    /// use portcullis::{Policy, Quota};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Limited> {
    /// let (free, pro) = (Quota::per_hour(10), Quota::per_hour(500));
    /// let mails = Policy::fixed_window("mails", free).caller_quotas(free, pro);
    /// let limiter = testing::limiter(&ManualClock::default());
    /// let check = |quota: Option<Quota>| {
    ///     limiter.check(&mails).by(|key| key.part("account", b"acme")).quota(quota)
    /// };
    /// assert_eq!(check(None).await?.decision().remaining(), 9);
    /// assert_eq!(check(Some(pro)).await?.decision().remaining(), 498);
    /// # Ok(())
    /// # }
    /// ```
    pub fn quota(mut self, quota: impl Into<Option<Quota>>) -> Self {
        self.last().quota = quota.into();
        self
    }

    /// Bounds the wait for a slot in the queue of a [leaky bucket](portcullis_core::LeakyBucket), and that for a policy with a
    /// longest [wait](Policy::wait_at_most), both together: a check that would wait for longer is refunded, under all policies, and
    /// rejected with 429 and the time after which the wait would be short enough.
    ///
    /// By default the policies alone bound it. Policies that do not wait are not affected.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use portcullis::check::Limited;
    /// use portcullis::testing::{self, ManualClock};
    /// use portcullis::{Policy, Quota};
    ///
    /// static EXPORTS: Policy = Policy::leaky_bucket("exports", Quota::per_minute(1).burst(10));
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let limiter = testing::limiter(&ManualClock::default());
    /// let check = || {
    ///     let check = limiter.check(&EXPORTS).by(|key| key.part("user", b"ada"));
    ///     check.at_most(Duration::from_secs(5))
    /// };
    /// assert!(check().await.is_ok(), "the first one does not wait");
    /// let limited = check().await.expect_err("the next slot is in a minute");
    /// assert_eq!(limited.retry_after(), Some(Duration::from_secs(55)));
    /// # }
    /// ```
    pub fn at_most(mut self, wait: Duration) -> Self {
        self.at_most = Some(wait);
        self
    }

    /// Sets the body format of [`Limited`] by the `Accept` of a request: plain text, JSON or problem details, as in a layer.
    /// Without it the body is plain text. Other headers are ignored.
    pub fn accept(mut self, request: &HeaderMap) -> Self {
        self.accept = accept(request);
        self
    }

    fn last(&mut self) -> &mut Entry<'a> {
        self.entries.last_mut().expect("a check has a policy")
    }
}

impl IntoFuture for Check<'_> {
    type Output = Result<Charge, Limited>;
    type IntoFuture = CheckFuture;

    fn into_future(self) -> CheckFuture {
        let Self { registry, entries, at_most, accept } = self;
        match policies::config(registry, entries.iter().map(|entry| entry.policy)) {
            Ok(config) => {
                let quotas = entries.iter().enumerate();
                let quotas = quotas.filter_map(|(index, entry)| Some((index, entry.quota?)));
                let callers = CallerPolicies::of(&config.limits, &quotas.collect::<CallerQuotas>());
                let checks = entries.into_iter().enumerate();
                let checks = checks.map(|(index, Entry { key, cost, .. })| (index, key, cost)).collect();
                CheckFuture::new(config, callers, checks, at_most, accept)
            }
            Err(error) => {
                let refused = entries.iter().map(|entry| entry.policy);
                CheckFuture::refused(policies::refuse(registry, refused, &error, accept))
            }
        }
    }
}

impl fmt::Debug for Check<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policies: Vec<_> = self.entries.iter().map(|entry| entry.policy.name()).collect();
        f.debug_struct("Check").field("policies", &policies).finish_non_exhaustive()
    }
}

fn written(registry: &Registry, write: impl FnOnce(&mut KeyWriter<'_>)) -> Result<Key, KeyError> {
    let mut hasher = registry.secret().hasher();
    write(&mut hasher.writer());
    Ok(hasher.finish()?)
}

/// The lines of `Accept`.
fn accept(request: &HeaderMap) -> HeaderMap {
    request.get_all(header::ACCEPT).iter().map(|line| (header::ACCEPT, line.clone())).fold(
        HeaderMap::new(),
        |mut headers, (name, line)| {
            headers.append(name, line);
            headers
        },
    )
}
