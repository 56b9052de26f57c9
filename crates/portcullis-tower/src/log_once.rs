//! The log lines of a layer: transitions, and throttled lines about requests, never one per request.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use portcullis_core::{PolicyName, StoreError};
use tokio::time::Instant;

use crate::log_throttle::LogThrottle;
use crate::{KeyError, OnMissing};

/// The log lines that a layer has written already.
#[derive(Debug)]
pub(crate) struct LogOnce {
    store_is_failing: AtomicBool,
    store_failed_for_long: AtomicBool,
    created: Instant,
    /// In milliseconds since `created`.
    last_failure: AtomicU64,
    store_overloaded: LogThrottle,
    misconfigured: LogThrottle,
    missing: LogThrottle,
    broken: LogThrottle,
    lookup_failed: LogThrottle,
    refund_dropped: LogThrottle,
    too_many_wait: LogThrottle,
    not_ready: LogThrottle,
    /// The time until which the outer layers are known, in milliseconds since `created`.
    nesting_known_until: AtomicU64,
    charged_twice: LogThrottle,
    shadow: LogThrottle,
    shadow_without_identity: LogThrottle,
}

impl LogOnce {
    /// The store has not answered; `meanwhile` shows the failure mode of each policy.
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
        // A load first, so that cores share the cache line while the store answers.
        if !self.store_is_failing.load(Relaxed) {
            return;
        }
        // An unstable store fails and answers in turns; it has recovered once it has not failed for a while.
        let since = Duration::from_millis(self.millis().saturating_sub(self.last_failure.load(Relaxed)));
        if since >= RECOVERED_AFTER && self.store_is_failing.swap(false, Relaxed) {
            self.store_failed_for_long.store(false, Relaxed);
            tracing::info!("the store of the rate limiter answers again");
        }
    }

    /// The store is overloaded.
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
        if let Some(requests) = self.misconfigured.due() {
            tracing::error!(
                %error,
                requests,
                "the rate limiter answers requests with 500; counted since the last such line"
            );
        }
    }

    /// A request has no identity.
    pub(crate) fn identity_missing(&self, policy: &PolicyName, on_missing: OnMissing) {
        if let Some(requests) = self.missing.due() {
            tracing::warn!(
                %policy,
                ?on_missing,
                requests,
                "requests have no identity; counted since the last such line"
            );
        }
    }

    /// A request has a malformed identity.
    pub(crate) fn identity_broken(&self, policy: &PolicyName, error: &KeyError) {
        if let Some(requests) = self.broken.due() {
            tracing::warn!(
                %policy,
                %error,
                requests,
                "requests have a malformed identity, the latest with this error; counted since the last such line"
            );
        }
    }

    /// A look-up has failed because of the server.
    pub(crate) fn lookup_failed(&self, policy: &PolicyName, error: &KeyError) {
        if let Some(lookups) = self.lookup_failed.due() {
            tracing::warn!(
                %policy,
                %error,
                lookups,
                "look-ups fail, and requests are rejected with 503 unless the policy is a shadow policy; counted since \
                 the last such line"
            );
        }
    }

    /// A request whose client has disconnected stays charged, because it cannot be refunded in the background.
    pub(crate) fn refund_dropped(&self) {
        if let Some(requests) = self.refund_dropped.due() {
            tracing::warn!(
                requests,
                "requests whose clients have disconnected stay charged, because too many refunds are in progress or \
                 there is no runtime; counted since the last such line"
            );
        }
    }

    /// A request is rejected because too many others wait.
    pub(crate) fn too_many_wait(&self) {
        if let Some(requests) = self.too_many_wait.due() {
            tracing::warn!(
                requests,
                "too many requests wait for a slot, a look-up or the inner service: more of them are rejected with 503; \
                 counted since the last such line"
            );
        }
    }

    /// A request that has waited is rejected because the inner service is not ready.
    pub(crate) fn not_ready(&self) {
        if let Some(requests) = self.not_ready.due() {
            tracing::warn!(
                requests,
                "the inner service is not ready for requests that have waited, and they are rejected with 503; counted \
                 since the last such line"
            );
        }
    }

    /// Calls `ask` to have requests marked, unless the outer layers are known already.
    pub(crate) fn nested_without_a_mark(&self, ask: impl FnOnce()) {
        if self.millis() >= self.nesting_known_until.load(Relaxed) {
            ask();
        }
    }

    pub(crate) fn nesting_is_known(&self) {
        self.nesting_known_until.store(self.millis().saturating_add(NESTING_KNOWN_FOR), Relaxed);
    }

    pub(crate) fn charged_twice(&self, policy: &PolicyName) {
        if let Some(seen) = self.charged_twice.due() {
            tracing::warn!(
                seen,
                %policy,
                "one request is charged twice: two layers with this policy are inside each other; remove one of them"
            );
        }
    }

    /// A request passes that a shadow policy would have rejected.
    pub(crate) fn shadow_would_reject(&self, policy: &PolicyName) {
        tracing::debug!(%policy, "a shadow policy would have rejected this request");
        if let Some(requests) = self.shadow.due() {
            tracing::info!(
                %policy,
                requests,
                "shadow policies would have rejected requests, this one the latest; counted since the last such line"
            );
        }
    }

    /// A shadow policy finds no key for a request.
    pub(crate) fn shadow_without_identity(&self, policy: &PolicyName, error: &KeyError) {
        if let Some(requests) = self.shadow_without_identity.due() {
            tracing::warn!(
                %policy,
                %error,
                requests,
                "a shadow policy would have rejected requests whose identity it cannot determine; counted since the \
                 last such line"
            );
        }
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.created.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl Default for LogOnce {
    fn default() -> Self {
        Self {
            store_is_failing: AtomicBool::default(),
            store_failed_for_long: AtomicBool::default(),
            created: Instant::now(),
            last_failure: AtomicU64::default(),
            store_overloaded: LogThrottle::per_minute(),
            misconfigured: LogThrottle::hourly(),
            missing: LogThrottle::per_minute(),
            broken: LogThrottle::per_minute(),
            lookup_failed: LogThrottle::per_minute(),
            refund_dropped: LogThrottle::per_minute(),
            too_many_wait: LogThrottle::per_minute(),
            not_ready: LogThrottle::per_minute(),
            nesting_known_until: AtomicU64::default(),
            charged_twice: LogThrottle::hourly(),
            shadow: LogThrottle::per_minute(),
            shadow_without_identity: LogThrottle::per_minute(),
        }
    }
}

const RECOVERED_AFTER: Duration = Duration::from_secs(1);

/// One hour, in milliseconds. Then requests are marked again, so that nested layers with one policy are logged again.
const NESTING_KNOWN_FOR: u64 = 60 * 60 * 1_000;

impl Clone for LogOnce {
    /// A layer that is made from another one starts with an empty log state.
    fn clone(&self) -> Self {
        Self::default()
    }
}
