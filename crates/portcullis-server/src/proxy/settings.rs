//! What all requests of a proxy share.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use http::uri::Scheme;
use portcullis::rules::{LiveRules, RulesRequirement};
use portcullis_core::Timestamp;
use portcullis_core::log::LogThrottle;
use tokio::time::Instant;

use super::failure::Failure;
use super::pool::Pool;
use super::upstream::Timeouts;
use crate::places::Places;

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) rules: LiveRules,
    /// Rules that a proxy cannot apply are refused as long as it exists.
    pub(super) _requirement: RulesRequirement,
    pub(super) pool: Arc<Pool>,
    /// The places of requests that are with the upstream.
    pub(super) requests: Arc<Places>,
    pub(super) timeouts: Timeouts,
    pub(super) host: Host,
    pub(super) upstream_host: HeaderValue,
    pub(super) upstream_scheme: Scheme,
    /// Of the connections of clients.
    pub(super) scheme: &'static str,
    pub(super) pseudonym: String,
    pub(super) failures: Failures,
}

/// The host that the upstream sees.
#[derive(Clone, Debug)]
pub(super) enum Host {
    Client,
    Upstream,
    Fixed(HeaderValue),
}

/// A name in `Via` that no other instance has: a request that has it was here.
pub(super) fn pseudonym() -> String {
    format!("portcullis-{:016x}", RandomState::new().build_hasher().finish())
}

/// Logs failures of the upstream: one line in ten seconds, with the number of those before it.
#[derive(Debug)]
pub(super) struct Failures {
    begun: Instant,
    throttle: LogThrottle,
}

impl Failures {
    pub(super) fn new() -> Self {
        Self { begun: Instant::now(), throttle: LogThrottle::new() }
    }

    pub(super) fn log(&self, failure: Failure) {
        let now = Timestamp::EPOCH.saturating_add(self.begun.elapsed());
        if failure.is_of_upstream()
            && let Some(requests) = self.throttle.due(now, INTERVAL)
        {
            tracing::warn!(requests, reason = failure.detail(), "requests got no response of the upstream");
        }
    }
}

const INTERVAL: Duration = Duration::from_secs(10);
