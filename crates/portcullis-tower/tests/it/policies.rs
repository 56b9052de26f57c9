//! Several policies in one layer, several layers on one registry.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::request::Parts;
use portcullis_core::overrides::LockOut;
use portcullis_core::store::Checks;
use portcullis_core::{Gcra, Policy, PolicyName, PolicySettings, Quota};
use portcullis_tower::{
    Global, Header, Identity, KeyWriter, LayerError, LayerOptionError, Limit, OnMissing, Percent,
    PolicyExt as _, RateLimitLayer,
};

use crate::probe::{probed, request, send};
use crate::support::{TestStore, mistake, panic_of, registry, registry_of};

const RULE: LockOut = LockOut::after(3);

fn policy(name: &'static str, burst: u64) -> Policy {
    Policy::gcra(name, Quota::per_minute(1).burst(burst))
}

fn start() -> RateLimitLayer {
    RateLimitLayer::new(registry(), first())
}

fn first() -> Limit {
    policy("first", 3).by(Header::named("x-user"))
}

#[tokio::test]
async fn an_added_policy_inherits_the_key_or_has_its_own() {
    let ada = || request(&[("x-user", "ada")]);
    let bob = || request(&[("x-user", "bob")]);

    let (service, _) = probed(&start().and(policy("second", 1)));
    assert_eq!(send(&service, ada()).await.status, 200);
    assert_eq!(send(&service, ada()).await.status, 429);
    assert_eq!(send(&service, bob()).await.status, 200);

    let (service, _) = probed(&start().and(policy("second", 1).by(Global)));
    assert_eq!(send(&service, ada()).await.status, 200);
    assert_eq!(send(&service, bob()).await.status, 429);
}

#[tokio::test]
async fn all_policies_are_charged_or_none_in_one_call() {
    let store = Arc::<TestStore>::default();
    let layer = RateLimitLayer::new(registry_of(Arc::clone(&store)), policy("wide", 3).by(Global));
    let (service, _) = probed(&layer.and(policy("narrow", 1)));
    for (status, remaining_wide) in [(200, "0"), (429, "0"), (429, "0")] {
        let answer = send(&service, request(&[])).await;
        assert_eq!((answer.status, answer.header("x-ratelimit-remaining")), (status, Some(remaining_wide)));
        assert_eq!(
            answer.header("x-ratelimit-limit"),
            Some("1"),
            "the figures are those of the policy that decided"
        );
    }
    assert_eq!(store.asked.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn cost_and_on_missing_are_those_of_one_limit() {
    let shared = || first().on_missing(OnMissing::Shared);
    let second = Limit::new(policy("second", 4))
        .on_missing(OnMissing::Shared)
        .cost_by(|parts| if parts.uri.path() == "/" { 2 } else { 1 });
    let (service, _) = probed(&RateLimitLayer::new(registry(), shared().cost(0)).and(second));
    for status in [200, 200, 429] {
        assert_eq!(send(&service, request(&[])).await.status, status);
    }
    let (service, _) = probed(&RateLimitLayer::new(registry(), shared()).and(policy("second", 4)));
    assert_eq!(send(&service, request(&[])).await.status, 400, "the second policy rejects for itself");
}

#[tokio::test]
async fn an_inherited_key_is_extracted_once_per_request() {
    let count = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&count);
    let extractor = move |_: &Parts, key: &mut KeyWriter<'_>| {
        seen.fetch_add(1, Ordering::Relaxed);
        key.part("counted", b"");
        Ok(Identity::Found)
    };
    let layer = RateLimitLayer::new(registry(), policy("first", 3).by(extractor)).and(policy("second", 3));
    let (service, _) = probed(&layer);
    assert_eq!(send(&service, request(&[])).await.status, 200);
    assert_eq!(count.load(Ordering::Relaxed), 1);
}

#[test]
fn a_name_identifies_one_policy() {
    let registry = registry();
    let one = || policy("one", 1).by(Global);
    let _layer = RateLimitLayer::new(Arc::clone(&registry), one());
    assert!(RateLimitLayer::try_new(Arc::clone(&registry), [one()]).is_ok());
    let LayerError::Conflict(conflict) = mistake(&registry, [policy("one", 2).by(Global)]) else {
        panic!("another policy has the name");
    };
    assert_eq!((conflict.registered(), conflict.refused()), (&policy("one", 1), &policy("one", 2)));
    assert!(conflict.to_string().starts_with("two different policies are named one:"), "{conflict}");

    let twice = mistake(&registry, [one(), policy("one", 1).into()]);
    assert_eq!(twice, LayerError::Duplicate { policy: PolicyName::literal("one") });
    registry.register(&policy("two", 1)).unwrap();
    assert!(matches!(mistake(&registry, [one(), policy("two", 2).into()]), LayerError::Conflict(_)));
    assert_eq!(registry.policy(&PolicyName::literal("two")), Some(policy("two", 1)));
    assert_eq!(format!("{registry:?}"), r#"Registry { secret: Secret(0), policies: ["one", "two"], .. }"#);
}

#[test]
fn a_policy_that_the_store_refuses_is_an_error_of_the_layer() {
    let store = Arc::new(TestStore::default());
    let registry = registry_of(Arc::clone(&store));
    let one = policy("one", 1).by(Global);
    let _layer = RateLimitLayer::new(Arc::clone(&registry), one.clone());
    store.is_full.store(true, Ordering::Relaxed);
    assert!(registry.register(&policy("one", 1)).is_ok(), "it is registered already");
    for refused in [
        mistake(&registry, [policy("two", 1).by(Global)]),
        mistake(&registry, [one, policy("two", 1).into()]),
    ] {
        assert!(matches!(&refused, LayerError::Refused { policy, .. } if policy.as_str() == "two"));
        assert_eq!(refused.to_string(), "policy two does not fit");
    }
    assert_eq!(registry.policy(&PolicyName::literal("two")), None);
}

#[test]
fn first_limit_without_key_is_an_error() {
    let error = mistake(&registry(), [policy("one", 1).into(), first()]);
    assert_eq!(error, LayerError::NoKey { policy: PolicyName::literal("one") });
    assert_eq!(error.to_string(), "policy one has no key: add `.by(key)`");
    let registry = registry();
    assert_eq!(panic_of(|| RateLimitLayer::new(registry, Limit::new(policy("one", 1)))), error.to_string());
}

#[test]
fn mistakes_of_all_limits_are_reported_together() {
    let first = || first().warn_at(1.5).release_at_headers().on_missing(OnMissing::Shared).lock_out(RULE);
    // It has the key of the limit before it, although that one is refused.
    let second = Limit::new(policy("second", 1)).enforce(Percent::new(10));
    let third = policy("third", 1).by(Global).quota(|_| None);
    let (registry, name) = (registry(), PolicyName::literal);
    let limits = || [first(), second.clone(), third.clone(), Limit::new(policy("fourth", 1))];
    let errors = RateLimitLayer::try_new(Arc::clone(&registry), limits()).unwrap_err();
    let expected = [
        LayerError::NotInFlight { policy: name("first") },
        LayerOptionError::WarnAt { fraction: 1.5 }.into(),
        LayerError::SharedLockOut { policy: name("first") },
        LayerError::UnverifiedKey { policy: name("second") },
        LayerError::QuotasNotDeclared { policy: name("third") },
    ];
    assert!(errors.iter().eq(&expected), "{errors}");
    assert_eq!(errors.to_string(), expected.each_ref().map(ToString::to_string).join("; "));
    assert_eq!(first().mistakes(), expected[..3]);

    let of_first = expected[..3].iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    assert_eq!(panic_of(|| RateLimitLayer::new(Arc::clone(&registry), first())), of_first);
    let fourth = RateLimitLayer::new(Arc::clone(&registry), policy("fourth", 1).by(Global));
    assert_eq!(panic_of(|| fourth.clone().and(first())), of_first);

    // What the limiter refuses is found as well.
    let other = policy("fourth", 2).by(Global).warn_at(1.5);
    let errors: Vec<_> = RateLimitLayer::try_new(registry, [other]).unwrap_err().into_iter().collect();
    assert!(matches!(errors[..], [LayerError::Option(_), LayerError::Conflict(_)]), "{errors:?}");
}

#[tokio::test]
async fn limit_in_two_layers_has_one_budget() {
    let registry = registry();
    let limit = policy("shared", 2).by(Header::named("x-user")).cost(2);
    let layers = [limit.clone(), limit].map(|limit| RateLimitLayer::new(Arc::clone(&registry), limit));
    for (layer, status) in layers.iter().zip([200, 429]) {
        let (service, _) = probed(layer);
        assert_eq!(send(&service, request(&[("x-user", "ada")])).await.status, status);
    }
}

#[test]
fn a_layer_has_as_many_policies_as_a_decision() {
    let name = |index: usize| {
        Policy::try_new(
            &format!("policy {index}"),
            Gcra::new(Quota::per_second(1)),
            PolicySettings::default(),
        )
        .unwrap()
    };
    let full = (1..Checks::MAX).fold(start(), |layer, index| layer.and(name(index)));
    assert_eq!(full.policies().count(), Checks::MAX);
    let more = (1..=Checks::MAX).map(|index| Limit::new(name(index)));
    assert_eq!(mistake(&registry(), [first()].into_iter().chain(more)), LayerError::TooMany);
}

#[test]
#[should_panic(expected = "policy first is in the layer already")]
fn a_policy_twice_in_a_layer_panics() {
    let _ = start().and(policy("first", 3));
}

#[test]
#[should_panic(expected = "two different policies are named first")]
fn a_different_policy_of_a_known_name_panics() {
    let registry = registry();
    registry.register(&policy("first", 1)).unwrap();
    let _ = RateLimitLayer::new(registry, policy("first", 2).by(Global));
}

#[tokio::test]
async fn adding_a_policy_to_a_clone_keeps_the_original() {
    let one = start();
    let two = one.clone().and(policy("second", 1));
    assert_eq!((one.policies().count(), two.policies().count()), (1, 2));
}
