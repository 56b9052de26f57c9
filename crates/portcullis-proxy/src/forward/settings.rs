//! What all requests of a proxy share.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use http::uri::Scheme;
use portcullis::rules::{LiveRules, RulesRequirement};
use portcullis_log::{LogThrottle, codes};
use portcullis_server::listener::Places;

use crate::failure::Failure;
use crate::upstream::{Pool, Timeouts};

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) rules: LiveRules,
    /// Rules that a proxy cannot apply are refused as long as it exists.
    pub(crate) _requirement: RulesRequirement,
    pub(crate) pool: Arc<Pool>,
    /// The places of requests that are with the upstream.
    pub(crate) requests: Arc<Places>,
    pub(crate) timeouts: Timeouts,
    pub(crate) host: Host,
    pub(crate) upstream_host: HeaderValue,
    pub(crate) upstream_scheme: Scheme,
    /// Of the connections of clients.
    pub(crate) scheme: &'static str,
    pub(crate) pseudonym: String,
    pub(crate) failures: Failures,
}

/// The host that the upstream sees.
#[derive(Clone, Debug)]
pub(crate) enum Host {
    Client,
    Upstream,
    Fixed(HeaderValue),
}

/// A name in `Via` that no other instance has: a request that has it was here.
pub(crate) fn pseudonym() -> String {
    format!("portcullis-{:016x}", RandomState::new().build_hasher().finish())
}

/// Logs failures of the upstream: one line in ten seconds, with the number of those before it.
#[derive(Debug)]
pub(crate) struct Failures(LogThrottle);

impl Failures {
    pub(crate) fn new() -> Self {
        Self(LogThrottle::every(INTERVAL))
    }

    pub(crate) fn log(&self, failure: Failure) {
        if failure.is_of_upstream() {
            self.0.count(0, None, || {
                move |counted| {
                    let (requests, reason) = (counted.events, failure.detail());
                    tracing::warn!(code = %codes::UPSTREAM_FAILED, requests, reason, "requests got no response of the upstream");
                }
            });
        }
    }
}

const INTERVAL: Duration = Duration::from_secs(10);
