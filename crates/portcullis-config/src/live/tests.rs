//! Rules that change, under a registry in memory whose clock stands still.

mod allocations;
mod clients;
#[cfg(feature = "signed")]
mod interleaved;
mod listed;
mod load;
mod quotas;
mod reload;
mod sets;

use std::convert::Infallible;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{HeaderMap, Request, Response};
use portcullis_core::{ManualClock, PolicyName, Quota, Secret};
use portcullis_memory::MemoryStore;
use portcullis_tower::{CheckBuilder, EventKind, Mode, Reason, Registry};
use tower::{Layer as _, ServiceExt as _, service_fn};

use super::version::MAX_MORE;
use super::*;
use crate::Loader;
use crate::source::Format;

fn registry() -> Arc<Registry> {
    let store = MemoryStore::builder().clock(ManualClock::default()).build();
    Arc::new(Registry::new(Arc::new(store), Secret::published()))
}

fn rules(text: &str) -> Rules {
    let loader = Loader::text("limits.toml", Format::Toml, text).without_environment();
    Rules::load(&loader).unwrap_or_else(|findings| panic!("{findings}"))
}

fn live(text: &str) -> LiveRules {
    LiveRules::new(registry(), rules(text)).unwrap()
}

/// A window by address.
fn window(name: &str, quota: &str, more: &str) -> String {
    format!(
        "[policy.{name}]\nstrategy = \"fixed_window\"\nquota = \"{quota}\"\nkey = \"client_ip\"\n{more}\n"
    )
}

fn name(name: &str) -> PolicyName {
    PolicyName::new(name).unwrap()
}

fn request(uri: &str) -> Request<String> {
    let peer = SocketAddr::from(([192, 0, 2, 1], 1024));
    Request::get(uri).extension(peer).body(String::new()).unwrap()
}

/// The status and the headers of a response.
async fn send(layer: &RulesLayer, request: Request<String>) -> (u16, HeaderMap) {
    let inner = service_fn(async |_: Request<String>| Ok::<_, Infallible>(Response::new(())));
    let response = layer.layer(inner).oneshot(request).await.unwrap();
    (response.status().as_u16(), response.headers().clone())
}

async fn get(layer: &RulesLayer, uri: &str) -> (u16, Option<String>) {
    let (status, headers) = send(layer, request(uri)).await;
    (status, headers.get("x-ratelimit-remaining").map(|value| value.to_str().unwrap().to_owned()))
}

fn left(status: u16, remaining: &str) -> (u16, Option<String>) {
    (status, Some(remaining.to_owned()))
}

#[tokio::test]
async fn matching_rules_limit_in_one_decision_and_no_rule_passes() {
    let text = window("all", "5/h", "") + &window("search", "2/h", "match = { path = \"/search\" }");
    let live = live(&text);
    let layer = live.layer();
    assert_eq!(get(&layer, "/search").await, left(200, "1"));
    assert_eq!(get(&layer, "/search").await, left(200, "0"));
    assert_eq!(get(&layer, "/search").await, left(429, "0"));
    assert_eq!(get(&layer, "/").await, left(200, "2"));

    let one = live.layer_of("search").unwrap();
    assert_eq!(get(&one, "/anywhere").await, left(429, "0"));
    live.swap(rules(&window("search", "2/h", "match = { path = \"/search\" }"))).unwrap();
    assert_eq!(get(&layer, "/").await, (200, None));
}

#[tokio::test]
async fn states_that_can_follow_are_kept_and_others_begin_anew() {
    let live = live(&window("p", "5/h", ""));
    let layer = live.layer();
    let log = window("p", "5/h", "").replace("fixed_window", "sliding_log");
    let changes = [
        (window("p", "9/h", ""), "8"),
        (window("p", "5/h", ""), "3"),
        (log.clone(), "4"),
        (window("p", "5/d", ""), "4"),
        (window("p", "5/h", ""), "2"),
        (log, "3"),
        (window("p", "6/d", ""), "4"),
        (window("p", "5/h", "mode = \"enforce\""), "1"),
    ];
    for (index, (text, remaining)) in changes.iter().enumerate() {
        assert_eq!(live.swap(rules(text)).unwrap(), index as u64 + 2);
        assert_eq!(get(&layer, "/").await, left(200, remaining));
    }
}

#[tokio::test]
async fn modes_change_with_the_file_and_by_hand() {
    let live = live(&window("p", "1/d", ""));
    let layer = live.layer();
    assert_eq!(get(&layer, "/").await.0, 200);
    let with_mode = |mode: &str| rules(&window("p", "1/d", &format!("mode = \"{mode}\"")));
    for (mode, status) in
        [("enforce", 429), ("shadow", 200), ("enforce", 429), ("off", 200), ("enforce", 429)]
    {
        live.swap(with_mode(mode)).unwrap();
        assert_eq!(get(&layer, "/").await.0, status, "{mode}");
    }
    live.registry().set_mode(&name("p"), Mode::Off).unwrap();
    live.swap(with_mode("enforce")).unwrap();
    assert_eq!(get(&layer, "/").await.0, 200, "by hand");
    live.swap(with_mode("shadow")).unwrap();
    live.swap(with_mode("enforce")).unwrap();
    assert_eq!(get(&layer, "/").await.0, 429);
}

#[tokio::test]
async fn lock_outs_begin_and_end_with_the_file() {
    let live = live(&window("p", "1/h", ""));
    let layer = live.layer();
    let lock_out = "lock_out = { after = 1, within = \"1m\", block_for = \"2h\" }";
    let mut waits = Vec::new();
    for more in ["", lock_out, ""] {
        live.swap(rules(&window("p", "1/h", more))).unwrap();
        for _ in 0..3 {
            waits.extend(send(&layer, request("/")).await.1.get("retry-after").cloned());
        }
    }
    assert_eq!(waits, ["3600", "3600", "3600", "7200", "7200", "3600", "3600", "3600"]);
}

#[tokio::test]
async fn a_rule_that_the_program_uses_is_not_removed() {
    let both = window("search", "5/h", "") + &window("login", "5/h", "");
    let live = live(&both);
    let unknown = live.layer_of("serach").unwrap_err();
    assert_eq!(unknown.to_string(), "there is no rule serach: the rules are login, search");
    let search = live.layer_of("search").unwrap();
    let service = search.layer(service_fn(async |_: Request<String>| Ok::<_, Infallible>(Response::new(()))));
    drop(search);
    let without = window("login", "5/h", "");
    let refused = live.swap(rules(&without)).unwrap_err();
    assert_eq!(refused, LayerError::RuleInUse { rule: "search".to_owned() });
    assert_eq!(live.generation(), 1);
    let response = service.clone().oneshot(request("/")).await.unwrap();
    assert_eq!(response.headers()["x-ratelimit-remaining"], "4");
    drop((service, response));
    assert_eq!(live.swap(rules(&without)), Ok(2));
    assert!(live.layer_of("search").is_err() && live.policy("search").is_err());
}

#[test]
fn rules_that_miss_a_requirement_are_refused_while_it_exists() {
    let (small, large) = (window("p", "5/h", ""), window("p", "9/h", ""));
    let live = live(&small);
    let at_most = |limit: u64| {
        live.require(move |rules| match rules.iter().find(|rule| rule.policy().strategy().limit() > limit) {
            Some(rule) => Err(LayerError::Unusable { reason: format!("{} has too much", rule.table()) }),
            None => Ok(()),
        })
    };
    assert_eq!(at_most(4).unwrap_err().to_string(), "the rules cannot be used here: p has too much");
    let requirement = at_most(5).unwrap();
    let clone = requirement.clone();
    drop(requirement);
    assert!(matches!(live.swap(rules(&large)), Err(LayerError::Unusable { .. })));
    assert_eq!((live.generation(), live.reload().is_ok()), (1, true));
    drop(clone);
    assert_eq!(live.swap(rules(&large)), Ok(3));
}

#[tokio::test]
async fn nothing_changes_if_a_rule_is_refused() {
    let registry = registry();
    let of_code = Policy::fixed_window("code", Quota::per_hour(5));
    registry.register(&of_code).unwrap();
    let live = LiveRules::new(Arc::clone(&registry), rules(&window("p", "5/h", ""))).unwrap();
    let layer = live.layer();
    assert_eq!(get(&layer, "/").await, left(200, "4"));
    let refused = live.swap(rules(&(window("p", "9/h", "") + &window("code", "9/h", ""))));
    assert!(matches!(refused, Err(LayerError::Conflict(_))));
    assert_eq!((live.generation(), registry.policy(&name("code"))), (1, Some(of_code)));
    assert_eq!(get(&layer, "/").await, left(200, "3"));
}

#[tokio::test]
async fn handlers_check_the_policy_as_it_is_now() {
    let live = live(&window("mails", "5/h", ""));
    let held = live.policy("mails").unwrap();
    let remaining = async |policy: &Policy| {
        let check = CheckBuilder::new(live.registry(), policy).by(|key| key.part("email", b"ada"));
        check.await.unwrap().decision().remaining()
    };
    assert_eq!(remaining(&held).await, 4);
    for limit in [9_u64, 5, 30] {
        live.swap(rules(&window("mails", &format!("{limit}/h"), ""))).unwrap();
        let current = live.policy("mails").unwrap();
        assert_eq!(current.strategy().limit(), limit);
        // One that a handler keeps is decided as the current one.
        assert_eq!(remaining(&held).await, remaining(&current).await + 1);
    }
}

#[tokio::test]
async fn names_that_come_and_go_leave_nothing_behind() {
    let live = live(&window("a", "5/h", ""));
    let layer = live.layer();
    let versions = ["a", "b", "c"].map(|name| rules(&window(name, "5000/h", "")));
    let registered = || format!("{:?}", live.registry());
    let before = registered();
    for round in 1..=1_000_usize {
        live.swap(versions[round % 3].clone()).unwrap();
        assert_eq!(get(&layer, "/").await.0, 200);
        let names = ["a", "b", "c"].iter().filter(|one| live.registry().policy(&name(one)).is_some());
        assert_eq!(names.count(), 1);
    }
    live.swap(versions[0].clone()).unwrap();
    assert_eq!(registered(), before);
    let registry = Arc::clone(live.registry());
    drop((live, layer));
    assert!(registry.policy(&name("a")).is_none());
}

#[tokio::test]
async fn a_thousand_names_fit_into_a_store_for_sixty_four() {
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let registry = Arc::new(Registry::new(Arc::new(store), Secret::published()));
    let live = LiveRules::new(registry, rules(&window("p0", "5/s", ""))).unwrap();
    let layer = live.layer();
    for round in 1..=1_000 {
        clock.advance(Duration::from_secs(120));
        live.swap(rules(&window(&format!("p{round}"), "5/s", ""))).unwrap();
        assert_eq!(get(&layer, "/").await, left(200, "4"));
    }
}

/// Nine rules, each of which matches the paths with a 1 in its segment.
fn nine() -> String {
    let mut text = String::new();
    for bit in 0..9 {
        let segment = |index| if index == bit { "1".to_owned() } else { format!("{{s{index}}}") };
        let path = (0..9).map(segment).collect::<Vec<_>>().join("/");
        text += &window(&format!("bit{bit}"), "1000/h", &format!("match = {{ path = \"/{path}\" }}"));
    }
    text + "[layer]\nheaders = \"ietf\"\n"
}

#[tokio::test]
async fn three_hundred_sets_of_rules_are_limited_and_few_are_kept() {
    let live = live(&nine());
    let layer = live.layer();
    let registered = format!("{:?}", live.registry());
    for _ in 0..2 {
        for set in 0..300_u32 {
            let mut path = String::new();
            (0..9)
                .for_each(|bit| write!(path, "/{}", if set & (1 << bit) == 0 { "x" } else { "1" }).unwrap());
            let (status, headers) = send(&layer, request(&path)).await;
            let policies = headers.get("ratelimit-policy").map_or("", |value| value.to_str().unwrap());
            assert_eq!((status, policies.matches(";q=").count()), (200, set.count_ones() as usize), "{path}");
        }
        assert_eq!(live.0.current.load().kept(), 9 + MAX_MORE);
    }
    assert_eq!(format!("{:?}", live.registry()), registered);
}

#[tokio::test]
async fn the_generation_is_shown_to_a_request_that_asks() {
    let text =
        window("p", "5/h", "match = { path = \"/search\" }") + "[layer]\nshow_generation = \"x-rules\"\n";
    let live = live(&text);
    let layer = live.layer();
    assert!(!send(&layer, request("/search")).await.1.contains_key("x-rules"));
    for (generation, path) in [(1, "/search"), (2, "/search"), (3, "/")] {
        let mut request = request(path);
        request.headers_mut().insert("x-rules", "?".parse().unwrap());
        assert_eq!(send(&layer, request).await.1["x-rules"], generation.to_string());
        live.swap(rules(&text)).unwrap();
    }
}
