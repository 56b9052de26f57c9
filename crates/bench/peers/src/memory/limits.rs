//! The limiters, each as its documentation uses it for text keys.
//!
//! All have the same quota: a unit in ten seconds, within which every key is charged again, and a burst that is never used up. So no
//! key expires, and every decision is an admission that charges. Or they have one unit in a week, and every decision but the first denies.

use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use governor::DefaultKeyedRateLimiter;
use portcullis::store::{MemoryStore, Store as _};
use portcullis::{Policy, Quota, Secret};
use throttlecrab::{AdaptiveStore, RateLimiter};

/// The text that identifies a client.
#[derive(Debug)]
pub(super) struct Identity(pub(super) String);

/// A limiter with state per identity.
pub(super) trait Limit: Sync {
    fn is_allowed(&self, identity: &Identity) -> bool;
}

/// The memory store.
#[derive(Debug)]
pub(super) struct Ours {
    store: MemoryStore,
    secret: Secret,
    policy: Policy,
}

impl Ours {
    pub(super) fn gcra(keys: usize) -> Self {
        Self::new(
            keys,
            Policy::gcra(
                "bench",
                Quota::new(1, INTERVAL, Some(BURST.get().into())).expect("a quota in bounds"),
            ),
        )
    }

    pub(super) fn fixed_window(keys: usize) -> Self {
        Self::new(keys, Policy::fixed_window("bench", Quota::per_week(BURST.get().into())))
    }

    pub(super) fn sliding_window(keys: usize) -> Self {
        Self::new(keys, Policy::sliding_window("bench", Quota::per_week(BURST.get().into())))
    }

    /// Limits of one unit, by each of the three algorithms.
    pub(super) fn of_one_unit() -> [Self; 3] {
        let quota = Quota::per_week(1);
        [
            Policy::gcra("bench", quota),
            Policy::fixed_window("bench", quota),
            Policy::sliding_window("bench", quota),
        ]
        .map(|policy| Self::new(1, policy))
    }

    fn new(keys: usize, policy: Policy) -> Self {
        // A shard may be full a little before the policy is.
        let store = MemoryStore::builder().capacity(keys + keys / 4).build();
        Self { store, secret: Secret::random_for_this_process(*b"a secret of ours"), policy }
    }
}

impl Limit for Ours {
    fn is_allowed(&self, identity: &Identity) -> bool {
        let mut hasher = self.secret.hasher();
        hasher.writer().part("user", identity.0.as_bytes());
        let key = hasher.finish().expect("an identity of a few bytes is a key");
        let ready = self.store.check_now(&self.policy, key, 1);
        matches!(&ready, Some(Ok(ready)) if ready.decision.is_allowed())
    }
}

/// governor's keyed limiter, on its default store, a `DashMap`. It forgets no key by itself.
pub(super) struct Governor(DefaultKeyedRateLimiter<String>);

impl Governor {
    pub(super) fn new() -> Self {
        Self::with_quota(INTERVAL, BURST)
    }

    pub(super) fn of_one_unit() -> Self {
        Self::with_quota(Duration::from_secs(7 * 24 * 3_600), NonZeroU32::MIN)
    }

    fn with_quota(interval: Duration, burst: NonZeroU32) -> Self {
        let quota = governor::Quota::with_period(interval).expect("the interval is not zero");
        Self(governor::RateLimiter::keyed(quota.allow_burst(burst)))
    }
}

impl Limit for Governor {
    fn is_allowed(&self, identity: &Identity) -> bool {
        self.0.check_key(&identity.0).is_ok()
    }
}

/// throttlecrab's limiter, behind a mutex as its documentation advises for several threads.
pub(super) struct Throttlecrab(Mutex<RateLimiter<AdaptiveStore>>);

impl Throttlecrab {
    pub(super) fn new(keys: usize) -> Self {
        Self(Mutex::new(RateLimiter::new(AdaptiveStore::builder().capacity(keys).build())))
    }
}

impl Limit for Throttlecrab {
    fn is_allowed(&self, identity: &Identity) -> bool {
        let mut limiter = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let decided = limiter.rate_limit(&identity.0, BURST.get().into(), 1, SECONDS, 1, SystemTime::now());
        matches!(decided, Ok((true, _)))
    }
}

/// The time that replenishes a unit.
const INTERVAL: Duration = Duration::from_secs(SECONDS.unsigned_abs());
const SECONDS: i64 = 10;
/// Thirty years to refill, below the bounds of all limiters.
const BURST: NonZeroU32 = NonZeroU32::new(100_000_000).expect("not zero");
