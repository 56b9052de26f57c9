//! What a layer writes to the log: transitions and the first of a kind, never every request.

use std::fmt::Display;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use portcullis_core::{PolicyName, StoreError};
use tokio::time::Instant;

use crate::{KeyError, OnMissing};

/// What a layer has said already.
#[derive(Debug)]
pub(crate) struct Notices {
    store_is_failing: AtomicBool,
    store_failed_for_long: AtomicBool,
    born: Instant,
    /// Milliseconds since then.
    last_failure: AtomicU64,
    store_overloaded: Seldom,
    misconfigured: AtomicBool,
    missing: Seldom,
    broken: Seldom,
    lookup_failed: Seldom,
    refund_dropped: Seldom,
    nesting: AtomicBool,
    charged_twice: AtomicBool,
    shadow: Seldom,
    shadow_is_blind: Seldom,
}

impl Notices {
    /// The store has not answered; `meanwhile` says what becomes of requests.
    pub(crate) fn store_failed<M: Display>(&self, error: &StoreError, meanwhile: impl FnOnce() -> M) {
        self.last_failure.store(self.millis(), Relaxed);
        if !self.store_is_failing.swap(true, Relaxed) {
            let meanwhile = meanwhile();
            tracing::warn!(%error, %meanwhile, "the store of the rate limiter cannot answer");
        }
    }

    /// The store has not answered for longer than a policy lets requests through.
    pub(crate) fn store_failed_for_long(&self, policy: &PolicyName) {
        if !self.store_failed_for_long.swap(true, Relaxed) {
            tracing::warn!(
                %policy,
                "the store of the rate limiter still cannot answer, for longer than a policy is open: requests are refused"
            );
        }
    }

    pub(crate) fn store_answered(&self) {
        // A load first: in good times no core takes the cache line from another.
        if !self.store_is_failing.load(Relaxed) {
            return;
        }
        // A store that limps fails and answers by turns; it is well when it has not failed for a while.
        let since = Duration::from_millis(self.millis().saturating_sub(self.last_failure.load(Relaxed)));
        if since >= WELL_AFTER && self.store_is_failing.swap(false, Relaxed) {
            self.store_failed_for_long.store(false, Relaxed);
            tracing::info!("the store of the rate limiter answers again");
        }
    }

    /// More is asked of the store than it can answer in time.
    pub(crate) fn store_overloaded(&self, error: &StoreError) {
        if let Some(checks) = self.store_overloaded.due() {
            tracing::warn!(
                %error,
                checks,
                "the store of the rate limiter is overloaded: requests are rejected with 503; counted since the last \
                 such line"
            );
        }
    }

    pub(crate) fn misconfigured(&self, error: &KeyError) {
        if !self.misconfigured.swap(true, Relaxed) {
            tracing::error!(%error, "the rate limiter answers requests with 500");
        }
    }

    /// A request does not say who is calling.
    pub(crate) fn identity_missing(&self, policy: &PolicyName, on_missing: OnMissing) {
        if let Some(requests) = self.missing.due() {
            tracing::warn!(
                %policy,
                ?on_missing,
                requests,
                "requests do not say who is calling; counted since the last such line"
            );
        }
    }

    /// A request says who is calling in a way that cannot be accepted.
    pub(crate) fn identity_broken(&self, policy: &PolicyName, error: &KeyError) {
        if let Some(requests) = self.broken.due() {
            tracing::warn!(
                %policy,
                %error,
                requests,
                "requests have a broken identity, the latest with this error; counted since the last such line"
            );
        }
    }

    /// The caller of a request cannot be looked up, by the server's fault.
    pub(crate) fn lookup_failed(&self, policy: &PolicyName, error: &KeyError) {
        if let Some(lookups) = self.lookup_failed.due() {
            tracing::warn!(
                %policy,
                %error,
                lookups,
                "callers cannot be looked up, and requests are rejected with 503 unless the policy is a shadow; counted \
                 since the last such line"
            );
        }
    }

    /// A request whose caller has left stays charged, because it cannot be refunded in the background.
    pub(crate) fn refund_dropped(&self) {
        if let Some(requests) = self.refund_dropped.due() {
            tracing::warn!(
                requests,
                "requests whose callers have left stay charged, because too many refunds are under way or no runtime is \
                 left; counted since the last such line"
            );
        }
    }

    /// Asks for marks, unless it is known already what is outside.
    pub(crate) fn nested_without_a_mark(&self, ask: impl FnOnce()) {
        if !self.nesting.load(Relaxed) {
            ask();
        }
    }

    pub(crate) fn nesting_is_known(&self) {
        self.nesting.store(true, Relaxed);
    }

    pub(crate) fn charged_twice(&self, policy: &PolicyName) {
        if !self.charged_twice.swap(true, Relaxed) {
            tracing::warn!(
                %policy,
                "one request is charged twice: two layers with this policy are inside each other; remove one of them"
            );
        }
    }

    /// A request passes that a shadow policy would have refused.
    pub(crate) fn shadow_would_refuse(&self, policy: &PolicyName) {
        tracing::debug!(%policy, "a shadow policy would have refused this request");
        if let Some(requests) = self.shadow.due() {
            tracing::info!(
                %policy,
                requests,
                "shadow policies would have refused requests, this one the latest; counted since the last such line"
            );
        }
    }

    /// A shadow policy cannot tell whom it would charge.
    pub(crate) fn shadow_sees_nobody(&self, policy: &PolicyName, error: &KeyError) {
        if let Some(requests) = self.shadow_is_blind.due() {
            tracing::warn!(
                %policy,
                %error,
                requests,
                "enforced, a shadow policy would have refused requests whose caller it cannot tell; counted since \
                 the last such line"
            );
        }
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl Default for Notices {
    fn default() -> Self {
        Self {
            store_is_failing: AtomicBool::default(),
            store_failed_for_long: AtomicBool::default(),
            born: Instant::now(),
            last_failure: AtomicU64::default(),
            store_overloaded: Seldom::default(),
            misconfigured: AtomicBool::default(),
            missing: Seldom::default(),
            broken: Seldom::default(),
            lookup_failed: Seldom::default(),
            refund_dropped: Seldom::default(),
            nesting: AtomicBool::default(),
            charged_twice: AtomicBool::default(),
            shadow: Seldom::default(),
            shadow_is_blind: Seldom::default(),
        }
    }
}

const WELL_AFTER: Duration = Duration::from_secs(1);

impl Clone for Notices {
    /// A layer that is made from another has said nothing yet.
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// Something that is said at once, and then at most once in a while.
#[derive(Debug, Default)]
pub(crate) struct Seldom {
    /// In milliseconds since the process began to say anything.
    not_before: AtomicU64,
    untold: AtomicU64,
}

impl Seldom {
    /// Counts one more, and returns how many there are to tell if it is time.
    pub(crate) fn due(&self) -> Option<u64> {
        static START: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);

        self.untold.fetch_add(1, Relaxed);
        let now = u64::try_from(START.elapsed().as_millis()).unwrap_or(u64::MAX);
        let not_before = self.not_before.load(Relaxed);
        let next = now.saturating_add(u64::try_from(WHILE.as_millis()).unwrap_or(u64::MAX));
        let is_mine =
            now >= not_before && self.not_before.compare_exchange(not_before, next, Relaxed, Relaxed).is_ok();
        is_mine.then(|| self.untold.swap(0, Relaxed))
    }
}

/// Between two lines about the same.
const WHILE: Duration = Duration::from_mins(1);
