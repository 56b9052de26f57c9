//! A service whose layer is chosen for each request, by several threads while policies are installed.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::thread;

use http::request::Parts;
use http::{HeaderValue, Request, Response};
use portcullis_core::Mistakes;
use portcullis_core::{Policy, Quota};
use portcullis_tower::{
    EventKind, Header, InstalledPolicy, LayerError, LayerLog, PolicyExt as _, PreparedLayer, RateLimitLayer,
    Reason, Registry, SelectLayer, SelectedRateLimit, Selection,
};
use tower::{Service as _, ServiceExt as _, service_fn};

use super::{hourly, limiter, request};
use crate::probe::{Probe, grpc};
use crate::support::block_on;

/// Chooses by a function.
struct Choice<F>(F);

impl<F: Fn(&Parts) -> Selection + Send + Sync + 'static> SelectLayer for Choice<F> {
    fn select(&self, parts: &Parts) -> Selection {
        (self.0)(parts)
    }
}

fn by_user(registry: &Arc<Registry>, policy: Policy) -> PreparedLayer {
    let layer = RateLimitLayer::new(Arc::clone(registry), policy.by(Header::named("x-user")));
    PreparedLayer::new(&layer, &LayerLog::default())
}

#[tokio::test]
async fn requests_pass_are_limited_or_cannot_be_decided() {
    let registry = limiter();
    let layer = by_user(&registry, hourly("p", 1));
    let misconfigured = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&misconfigured);
    registry.observe(Arc::new(move |event: &portcullis_tower::Event<'_>| {
        if let EventKind::Rejected { reason: Reason::Misconfigured, .. } = event.kind {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }));
    let choice = Arc::new(Choice(move |parts: &Parts| {
        let selection = match parts.headers.get("x-user").map(HeaderValue::as_bytes) {
            None => Selection::none(),
            Some(b"ada") => Selection::layer(layer.current()),
            Some(_) => Selection::refused(&registry, &Mistakes::from(LayerError::TooMany)),
        };
        selection.with_header("x-chosen".parse().unwrap(), HeaderValue::from_static("yes"))
    }));
    let service = SelectedRateLimit::new(Probe::default(), choice);
    for (user, status) in [(None, 200), (Some("ada"), 200), (Some("ada"), 429), (Some("bob"), 500)] {
        let headers: Vec<_> = user.map(|user| ("x-user", user)).into_iter().collect();
        let response = service.clone().oneshot(request(&headers)).await.unwrap();
        assert_eq!(
            (response.status().as_u16(), &response.headers()["x-chosen"]),
            (status, &HeaderValue::from_static("yes"))
        );
        assert_eq!(response.headers().contains_key("x-ratelimit-limit"), user == Some("ada"));
    }
    let response = service.clone().oneshot(grpc(&[("x-user", "bob")])).await.unwrap();
    assert_eq!(
        (response.status().as_u16(), &response.headers()["grpc-status"]),
        (200, &HeaderValue::from_static("13"))
    );
    assert_eq!(misconfigured.load(Ordering::Relaxed), 2);
}

/// What a thread reads: the layer of one version.
struct Version {
    number: u64,
    layer: PreparedLayer,
}

/// The policy of a version: its limit names it.
fn policy(version: u64) -> Policy {
    Policy::fixed_window("p", Quota::per_hour(1_000_000 + version))
}

#[test]
fn a_committed_pointer_is_seen_with_the_new_policies() {
    let registry = limiter();
    let first = registry.install(&[InstalledPolicy::new(policy(0))], || {}).unwrap();
    let version = |number| Arc::new(Version { number, layer: by_user(&registry, policy(number)) });
    // Versions are 0 and 1 in turns. Their layers, which have other policies, were made while theirs was installed.
    let zero = version(0);
    let second = registry.install(&[InstalledPolicy::new(policy(1))], || {}).unwrap();
    let versions = [zero, version(1)];
    let current = Arc::new(RwLock::new(Arc::clone(&versions[1])));
    let is_over = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..8)
        .map(|_| {
            let (current, is_over) = (Arc::clone(&current), Arc::clone(&is_over));
            thread::spawn(move || {
                let choice = Arc::new(Choice(move |_: &Parts| {
                    loop {
                        let version = Arc::clone(&current.read().unwrap());
                        let layer = version.layer.current();
                        if Arc::ptr_eq(&version, &current.read().unwrap()) {
                            let value = HeaderValue::from(version.number);
                            return Selection::layer(layer).with_header("x-version".parse().unwrap(), value);
                        }
                    }
                }));
                let inner = service_fn(async |_: Request<String>| Ok::<_, Infallible>(Response::new(())));
                let mut service = SelectedRateLimit::new(inner, choice);
                let mut seen = 0_u64;
                while !is_over.load(Ordering::Relaxed) || seen == 0 {
                    let response = block_on(service.call(request(&[("x-user", "ada")]))).unwrap();
                    let number =
                        |name: &str| response.headers()[name].to_str().unwrap().parse::<u64>().unwrap();
                    assert_eq!(number("x-ratelimit-limit"), 1_000_000 + number("x-version"));
                    seen += 1;
                }
                seen
            })
        })
        .collect();
    let mut installation = None;
    for round in 0..10_000_u64 {
        let Version { number, layer } = &*versions[usize::try_from(round % 2).unwrap()];
        // Another pointer each time, so that a reader sees each change.
        let version = Arc::new(Version { number: *number, layer: layer.clone() });
        let commit = || *current.write().unwrap() = version;
        let next = registry.install(&[InstalledPolicy::new(policy(*number))], commit).unwrap();
        installation = Some(next);
    }
    is_over.store(true, Ordering::Relaxed);
    let seen: u64 = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
    // Each request was charged to the one state that all versions share.
    let key = registry.key_of(&Header::named("x-user"), request(&[("x-user", "ada")])).unwrap();
    let check = portcullis_core::store::Checks::one(policy(1), key, 0);
    let left = block_on(registry.store().check(check)).unwrap().into_decision().remaining();
    assert_eq!(left, 1_000_001 - seen);
    drop((first, second, installation));
}
