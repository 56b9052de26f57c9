//! What all requests of a proxy share.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::HeaderValue;
use http::uri::Scheme;
use portcullis::rules::{LiveRules, RulesRequirement};
use tokio::time::Instant;

use super::failure::Failure;
use super::pool::{Pool, Stream};
use super::upstream::Timeouts;
use crate::places::{self, Places};

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

/// The place of one request with the upstream. It is free once nothing of the request and its response is left.
pub(super) type Place = Arc<RequestPlace>;

#[derive(Debug)]
pub(super) struct RequestPlace {
    _place: places::Place,
    /// Of a connection of HTTP/2, once the request has one.
    stream: Mutex<Option<Stream>>,
}

impl RequestPlace {
    pub(super) fn new(place: places::Place) -> Self {
        Self { _place: place, stream: Mutex::default() }
    }

    /// Counts the stream of the request as open until the place is free, in place of a former one.
    pub(super) fn keep(&self, stream: Stream) {
        *self.stream.lock().unwrap_or_else(PoisonError::into_inner) = Some(stream);
    }
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
    /// Milliseconds since then at which the next line may be written.
    next: AtomicU64,
    unlogged: AtomicU64,
}

impl Failures {
    pub(super) fn new() -> Self {
        Self { begun: Instant::now(), next: AtomicU64::new(0), unlogged: AtomicU64::new(0) }
    }

    pub(super) fn log(&self, failure: Failure) {
        if !failure.is_of_upstream() {
            return;
        }
        self.unlogged.fetch_add(1, Ordering::Relaxed);
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let next = self.next.load(Ordering::Relaxed);
        let later = now.saturating_add(u64::try_from(INTERVAL.as_millis()).unwrap_or(u64::MAX));
        if now < next
            || self.next.compare_exchange(next, later, Ordering::Relaxed, Ordering::Relaxed).is_err()
        {
            return;
        }
        let requests = self.unlogged.swap(0, Ordering::Relaxed);
        tracing::warn!(requests, reason = failure.detail(), "requests got no response of the upstream");
    }
}

const INTERVAL: Duration = Duration::from_secs(10);
