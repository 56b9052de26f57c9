//! Layers in which one check decides about a request, beside the same layers with a list that excepts nothing: these take the general
//! way.

mod histories;

use std::convert::Infallible;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use http::request::Parts;
use http::{Method, Request, Response};
use http_body::Body;
use http_body_util::BodyExt as _;
use portcullis_core::{Decision, FailureMode, Policy, Quota};
use portcullis_tower::{
    Event, Header, Limit, OnMissing, PolicyExt as _, RateLimitHeaders, RateLimitLayer, Registry, Rejection,
};
use tower::{Layer as _, Service, ServiceExt as _};

use crate::probe::{Probe, Seen, grpc, request};
use crate::support::{Mode, TestStore, block_on, registry_of};

type Setting = fn(Arc<Registry>, Limit) -> RateLimitLayer;

const SETTINGS: [Setting; 9] = [
    layer,
    |registry, all| layer(registry, all).headers(RateLimitHeaders::NONE),
    |registry, all| layer(registry, all).headers(RateLimitHeaders::all()),
    |registry, all| layer(registry, all).headers(RateLimitHeaders::NONE).with_charge(),
    |registry, all| layer(registry, all).with_charge(),
    |registry, all| layer(registry, all).decision_in_response(),
    |registry, all| layer(registry, all).reject_with(|rejection: &Rejection<'_>| rejection.response()),
    |registry, all| layer(registry, all.on_missing(OnMissing::Shared).cost(2)),
    |registry, all| layer(registry, all.on_missing(OnMissing::Exempt).count_rejections()),
];

fn layer(registry: Arc<Registry>, limit: Limit) -> RateLimitLayer {
    RateLimitLayer::new(registry, limit)
}

fn requests() -> Vec<Request<String>> {
    let of = |method: Method, headers: &[(&str, &str)]| {
        let mut request = request(headers);
        *request.method_mut() = method;
        request
    };
    let ada = ("x-user", "ada");
    let preflight = [("origin", "https://example.com"), ("access-control-request-method", "GET")];
    vec![
        request(&[ada]),
        of(Method::HEAD, &[ada]),
        of(Method::OPTIONS, &preflight),
        of(Method::OPTIONS, &[ada]),
        request(&[ada]),
        of(Method::HEAD, &[ada]),
        request(&[ada, ("accept", "application/json")]),
        grpc(&[ada]),
        request(&[ada, ada]),
        request(&[]),
        request(&[("x-user", "bob")]),
    ]
}

/// A layer with a list goes the general way, also if the list excepts nothing.
fn of_way(is_general: bool, layer: RateLimitLayer) -> RateLimitLayer {
    if is_general { layer.except(|_: &Parts| false) } else { layer }
}

/// A layer of each way, over stores of their own that answer in the same way.
fn both(mode: Mode, failure: FailureMode, setting: Setting) -> [(Arc<Registry>, RateLimitLayer); 2] {
    [false, true].map(|is_general| {
        let store = Arc::<TestStore>::default();
        store.set(mode);
        let registry = registry_of(store);
        let policy = Policy::fixed_window("all", Quota::per_day(4)).on_store_failure(failure);
        let layer = setting(Arc::clone(&registry), policy.by(Header::named("x-user")));
        (registry, of_way(is_general, layer))
    })
}

/// All that is seen of the answers.
async fn answers<S, B>(service: S) -> Vec<String>
where
    S: Service<Request<String>, Response = Response<B>, Error = Infallible> + Clone,
    B: Body<Error: Debug>,
{
    let mut answers = Vec::new();
    for request in requests() {
        let (parts, body) = service.clone().oneshot(request).await.unwrap().into_parts();
        let text = body.collect().await.unwrap().to_bytes();
        let (seen, decision) = (parts.extensions.get::<Seen>(), parts.extensions.get::<Decision>());
        let seen = seen.map(|seen| &seen.0);
        let answer = format!("{} {:?} {text:?} {seen:?} {decision:?}", parts.status, parts.headers);
        answers.push(without_instants(&answer));
    }
    answers
}

/// The text without the instants of decisions, which are those of the process if the store cannot answer.
fn without_instants(text: &str) -> String {
    let mut pieces = text.split("Timestamp(");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |text, piece| text + piece.trim_start_matches(|char: char| char.is_ascii_digit()))
}

fn record(registry: &Registry) -> Arc<Mutex<Vec<String>>> {
    let events = Arc::<Mutex<Vec<String>>>::default();
    let recorded = Arc::clone(&events);
    registry.observe(Arc::new(move |event: &Event<'_>| {
        recorded.lock().unwrap().push(without_instants(&format!("{:?}", event.kind)));
    }));
    events
}

const MODES: [Mode; 6] =
    [Mode::Ready, Mode::Later, Mode::Down, Mode::DownLater, Mode::Overloaded, Mode::Remembering];

#[test]
fn both_ways_give_the_same_answers() {
    for (index, setting) in SETTINGS.into_iter().enumerate() {
        for (mode, failure) in MODES
            .into_iter()
            .flat_map(|mode| [FailureMode::Open, FailureMode::Closed].map(|failure| (mode, failure)))
        {
            let [fast, general] = both(mode, failure, setting)
                .map(|(_, layer)| block_on(answers(layer.layer(Probe::default()))));
            assert_eq!(fast, general, "setting {index}, {mode:?}, {failure:?}");
        }
    }
}

#[test]
fn both_ways_emit_the_same_events() {
    for (index, setting) in SETTINGS.into_iter().enumerate() {
        for mode in MODES {
            let [fast, general] = both(mode, FailureMode::Open, setting).map(|(registry, layer)| {
                let events = record(&registry);
                block_on(answers(layer.layer(Probe::default())));
                events.lock().unwrap().join("\n")
            });
            assert_eq!(fast, general, "setting {index}, {mode:?}");
        }
    }
}

#[test]
fn both_ways_are_noticed_by_layers_around_them() {
    for (outer, inner) in
        (0..SETTINGS.len()).flat_map(|outer| (0..SETTINGS.len()).map(move |inner| (outer, inner)))
    {
        let nested = |is_general: bool| {
            let registry = registry_of(Arc::default());
            let events = record(&registry);
            let layer = |policy: &'static str, setting: Setting| {
                let policy = Policy::fixed_window(policy, Quota::per_day(4));
                let limit = policy.by(Header::named("x-user"));
                of_way(is_general, setting(Arc::clone(&registry), limit))
            };
            let (around, inside) = (layer("all", SETTINGS[outer]), layer("all", SETTINGS[inner]));
            let other = layer("other", SETTINGS[outer]);
            let same = block_on(answers((around, inside.clone()).layer(Probe::default())));
            let others = block_on(answers((other, inside).layer(Probe::default())));
            (same, others, events.lock().unwrap().join("\n"))
        };
        assert_eq!(nested(false), nested(true), "settings {outer} around {inner}");
    }
}
