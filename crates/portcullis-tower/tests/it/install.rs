//! Policies that are installed at once, with their modes and lock-outs.

mod selected;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use portcullis_core::overrides::LockOut;
use portcullis_core::{ManualClock, Policy, PolicyName, Quota, Secret};
use portcullis_memory::MemoryStore;
use portcullis_tower::{
    Charge, CheckBuilder, Global, Header, InstalledPolicy, LayerError, Mode, OnMissing, Percent,
    PolicyExt as _, RateLimitLayer, Registry,
};
use tower::Layer as _;

use crate::probe::{Answer, Probe, probed, request, send};
use crate::support::{TestStore, registry_of};

const MINUTE: Duration = Duration::from_secs(60);
const RULE: LockOut = LockOut::after(2).within(MINUTE).block_for(MINUTE);

fn limiter() -> Arc<Registry> {
    let store = MemoryStore::builder().clock(ManualClock::default()).build();
    Arc::new(Registry::new(Arc::new(store), Secret::published()))
}

fn hourly(name: &'static str, limit: u64) -> Policy {
    Policy::fixed_window(name, Quota::per_hour(limit))
}

fn name(name: &str) -> PolicyName {
    PolicyName::new(name).unwrap()
}

fn install(registry: &Registry, policies: &[Policy]) -> Result<portcullis_tower::Installation, LayerError> {
    registry.install(&policies.iter().cloned().map(InstalledPolicy::new).collect::<Vec<_>>(), || {})
}

fn by_user(registry: &Arc<Registry>, policy: Policy) -> RateLimitLayer {
    RateLimitLayer::new(Arc::clone(registry), policy.by(Header::named("x-user")))
}

async fn get(layer: &RateLimitLayer) -> Answer {
    send(&layer.layer(Probe::default()), request(&[("x-user", "ada")])).await
}

fn remaining(answer: &Answer) -> &str {
    answer.header("x-ratelimit-remaining").unwrap()
}

#[tokio::test]
async fn all_policies_change_or_none() {
    let registry = limiter();
    let (one, two) = (hourly("one", 5), hourly("two", 5));
    let layer = by_user(&registry, one.clone()).and(two.clone());
    let first = install(&registry, &[one.clone(), two.clone()]).unwrap();
    assert_eq!(remaining(&get(&layer).await), "4");

    let commits = Cell::new(0);
    let try_install = |policies: Vec<InstalledPolicy>| {
        registry.install(&policies, || commits.set(commits.get() + 1)).map(drop).unwrap_err()
    };
    let changed = || InstalledPolicy::new(hourly("one", 9));
    let twice = vec![changed(), changed()];
    assert_eq!(try_install(twice), LayerError::Duplicate { policy: name("one") });
    let leased = Policy::gcra("two", Quota::per_second(100).burst(100)).lease(10);
    let locked = InstalledPolicy::new(leased).lock_out(Some(RULE));
    assert!(matches!(try_install(vec![changed(), locked]), LayerError::LeasedOverrides { .. }));
    let other = by_user(&registry, hourly("code", 1));
    let of_code = vec![changed(), InstalledPolicy::new(hourly("code", 2))];
    assert!(matches!(try_install(of_code), LayerError::Conflict(_)));
    let shared = InstalledPolicy::new(hourly("code", 1)).mode(Mode::Percent(Percent::new(10)));
    assert_eq!(try_install(vec![changed(), shared]), LayerError::UnverifiedKey { policy: name("code") });
    let heavy = InstalledPolicy::new(Policy::sliding_log("two", Quota::per_hour(100_000)));
    let heavier = InstalledPolicy::new(Policy::sliding_log("one", Quota::per_hour(100_000)));
    assert!(matches!(try_install(vec![heavier, heavy]), LayerError::TooMuchWork(_)));
    assert_eq!((commits.get(), registry.policy(one.name())), (0, Some(one)));
    assert_eq!(remaining(&get(&layer).await), "3");

    let second = install(&registry, &[hourly("one", 9), hourly("two", 9)]).unwrap();
    assert_eq!(remaining(&get(&layer).await), "6");
    drop((first, second, other));
}

#[tokio::test]
async fn a_store_without_room_refuses_all() {
    let store = Arc::new(TestStore::default());
    let registry = registry_of(Arc::clone(&store));
    let _first = install(&registry, &[hourly("one", 5)]).unwrap();
    store.is_full.store(true, Ordering::Relaxed);
    let refused = install(&registry, &[hourly("one", 6), hourly("two", 5)]).unwrap_err();
    assert!(matches!(refused, LayerError::Refused { .. }));
    assert_eq!(
        (registry.policy(&name("one")), registry.policy(&name("two"))),
        (Some(hourly("one", 5)), None)
    );
}

#[tokio::test]
async fn another_algorithm_begins_anew_and_the_old_states_stay() {
    let registry = limiter();
    let (window, log) = (hourly("p", 5), Policy::sliding_log("p", Quota::per_hour(5)));
    let layer = by_user(&registry, window.clone());
    let mut installations = vec![install(&registry, std::slice::from_ref(&window)).unwrap()];
    let expected = [(&window, "4"), (&log, "4"), (&window, "3"), (&log, "3")];
    for (policy, left) in expected {
        installations.push(install(&registry, std::slice::from_ref(policy)).unwrap());
        assert_eq!(remaining(&get(&layer).await), left);
    }
}

#[tokio::test]
async fn a_charge_is_corrected_under_its_own_algorithm() {
    let registry = limiter();
    let (window, log) = (hourly("p", 5), Policy::sliding_log("p", Quota::per_hour(5)));
    let check = |policy: &Policy| {
        let (registry, policy) = (Arc::clone(&registry), policy.clone());
        async move {
            CheckBuilder::new(&registry, &policy).by(|key| key.part("user", b"ada")).cost(2).await.unwrap()
        }
    };
    let _first = install(&registry, std::slice::from_ref(&window)).unwrap();
    let charge: Charge = check(&window).await;
    let _second = install(&registry, std::slice::from_ref(&log)).unwrap();
    // Whoever holds the former policy gets the current one.
    assert_eq!(check(&window).await.decision().remaining(), 3);
    assert_eq!(check(&log).await.decision().remaining(), 1);
    charge.refund().await.unwrap();
    assert_eq!(
        CheckBuilder::new(&registry, &log)
            .by(|key| key.part("user", b"ada"))
            .cost(0)
            .await
            .unwrap()
            .decision()
            .remaining(),
        1
    );
    let _third = install(&registry, std::slice::from_ref(&window)).unwrap();
    assert_eq!(check(&window).await.decision().remaining(), 3);
}

#[tokio::test]
async fn what_is_set_by_hand_stays_until_the_file_differs() {
    let registry = limiter();
    let file = |limit: u64, mode: Mode| {
        registry.install(&[InstalledPolicy::new(hourly("p", limit)).mode(mode)], || {}).unwrap()
    };
    let now =
        || (registry.policy(&name("p")).unwrap().strategy().limit(), registry.mode(&name("p")).unwrap());
    let mut kept = vec![file(5, Mode::Enforce)];
    assert_eq!(now(), (5, Mode::Enforce));
    registry.set_policy(hourly("p", 50)).unwrap();
    registry.set_mode(&name("p"), Mode::Off).unwrap();
    for ((limit, mode), expected) in [
        ((5, Mode::Enforce), (50, Mode::Off)),
        ((5, Mode::Shadow), (50, Mode::Shadow)),
        ((6, Mode::Shadow), (6, Mode::Shadow)),
    ] {
        kept.push(file(limit, mode));
        assert_eq!(now(), expected);
    }
}

#[tokio::test]
async fn modes_apply_to_checks_of_handlers_too() {
    let registry = limiter();
    let policy = hourly("p", 1);
    let check = || CheckBuilder::new(&registry, &policy).by(|key| key.part("user", b"ada"));
    let mut kept = Vec::new();
    for (mode, is_limited) in
        [(Mode::Enforce, false), (Mode::Enforce, true), (Mode::Shadow, false), (Mode::Enforce, true)]
    {
        let installed = InstalledPolicy::new(policy.clone()).mode(mode);
        kept.push(registry.install(&[installed], || {}).unwrap());
        assert_eq!(check().await.is_err(), is_limited);
    }
}

#[tokio::test]
async fn lock_outs_begin_change_and_end_with_the_file() {
    let registry = limiter();
    let layer = by_user(&registry, hourly("p", 1));
    let file = |lock_out: Option<LockOut>| {
        registry.install(&[InstalledPolicy::new(hourly("p", 1)).lock_out(lock_out)], || {}).unwrap()
    };
    let service = layer.layer(Probe::default());
    let retry_after = async |user: &str| {
        let answer = send(&service, request(&[("x-user", user)])).await;
        answer.header("retry-after").map(str::to_owned)
    };
    let mut kept = vec![file(None)];
    let mut waits = Vec::new();
    for (user, lock_out) in [
        ("ada", None),
        ("ada", Some(RULE)),
        ("bob", Some(LockOut::after(1).within(MINUTE).block_for(MINUTE * 90))),
        ("bob", None),
    ] {
        kept.push(file(lock_out));
        assert_eq!(registry.policy(&name("p")).unwrap().reads_overrides(), lock_out.is_some());
        for _ in 0..4 {
            waits.extend(retry_after(user).await);
        }
    }
    let ada = ["3600"; 3].into_iter().chain(["3600", "3600", "60", "60"]);
    let bob = ["3600", "5400", "5400"].into_iter().chain(["3600"; 4]);
    assert_eq!(waits, ada.chain(bob).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_lock_out_of_code_is_not_replaced() {
    let registry = limiter();
    let by_user = Header::named("x-user");
    let layer = RateLimitLayer::new(
        Arc::clone(&registry),
        hourly("p", 1).by(by_user).on_missing(OnMissing::Reject).lock_out(RULE),
    );
    let _same =
        registry.install(&[InstalledPolicy::new(hourly("p", 1)).lock_out(Some(RULE))], || {}).unwrap();
    let _none = registry.install(&[InstalledPolicy::new(hourly("p", 1))], || {}).unwrap();
    drop(layer);
}

#[tokio::test]
async fn names_that_come_and_go_leave_nothing_behind() {
    let registry = limiter();
    let names = ["a", "b", "c"];
    let before = format!("{registry:?}");
    let mut installation = None;
    for round in 0..1_000_u64 {
        let policy = hourly(names[usize::try_from(round % 3).unwrap()], 1 + round % 7);
        let next = install(&registry, std::slice::from_ref(&policy)).unwrap();
        let layer = RateLimitLayer::new(Arc::clone(&registry), policy.clone().by(Global));
        assert_eq!(probed(&layer).1.calls(), 0);
        installation = Some(next);
        assert_eq!(registry.policy(policy.name()), Some(policy.clone()));
        let others = names.iter().filter(|other| **other != policy.name().as_str());
        assert!(others.into_iter().all(|other| registry.policy(&name(other)).is_none()));
    }
    drop(installation);
    assert_eq!(format!("{registry:?}"), before);
}
