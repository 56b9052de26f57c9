//! Several policies in one layer, several layers on one registry.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::request::Parts;
use portcullis_core::store::Checks;
use portcullis_core::{Policy, PolicyName, Quota};
use portcullis_tower::{
    Global, Header, Identity, KeyWriter, LayerBuilder, LayerError, OnMissing, RateLimitLayer,
};

use crate::probe::{probed, request, send};
use crate::support::{TestStore, registry, registry_of};

fn policy(name: &'static str, burst: u64) -> Policy {
    Policy::gcra(name, Quota::per_minute(1).burst(burst))
}

fn start() -> RateLimitLayer {
    LayerBuilder::new(registry(), policy("first", 3)).by(Header::named("x-user"))
}

#[tokio::test]
async fn an_added_policy_inherits_the_key_or_has_its_own() {
    let ada = || request(&[("x-user", "ada")]);
    let bob = || request(&[("x-user", "bob")]);

    let (service, _) = probed(&start().and_policy(policy("second", 1)));
    assert_eq!(send(&service, ada()).await.status, 200);
    assert_eq!(send(&service, ada()).await.status, 429);
    assert_eq!(send(&service, bob()).await.status, 200);

    let (service, _) = probed(&start().and_policy(policy("second", 1)).by(Global));
    assert_eq!(send(&service, ada()).await.status, 200);
    assert_eq!(send(&service, bob()).await.status, 429);
}

#[tokio::test]
async fn all_policies_are_charged_or_none_in_one_call() {
    let store = Arc::<TestStore>::default();
    let layer = LayerBuilder::new(registry_of(Arc::clone(&store)), policy("wide", 3)).by(Global);
    let (service, _) = probed(&layer.and_policy(policy("narrow", 1)));
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
async fn cost_and_on_missing_are_those_of_the_last_policy_alone() {
    let layer = start()
        .on_missing(OnMissing::Shared)
        .cost(|_| 0)
        .and_policy(policy("second", 4))
        .on_missing(OnMissing::Shared)
        .cost(|parts| if parts.uri.path() == "/" { 2 } else { 1 });
    let (service, _) = probed(&layer);
    for status in [200, 200, 429] {
        assert_eq!(send(&service, request(&[])).await.status, status);
    }
    let (service, _) = probed(&start().on_missing(OnMissing::Shared).and_policy(policy("second", 4)));
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
    let layer =
        LayerBuilder::new(registry(), policy("first", 3)).by(extractor).and_policy(policy("second", 3));
    let (service, _) = probed(&layer);
    assert_eq!(send(&service, request(&[])).await.status, 200);
    assert_eq!(count.load(Ordering::Relaxed), 1);
}

#[test]
fn a_name_identifies_one_policy() {
    let registry = registry();
    let first = LayerBuilder::new(Arc::clone(&registry), policy("one", 1)).by(Global);
    assert!(LayerBuilder::try_new(Arc::clone(&registry), policy("one", 1)).is_ok());
    let Err(LayerError::Conflict(conflict)) = LayerBuilder::try_new(Arc::clone(&registry), policy("one", 2))
    else {
        panic!("another policy has the name");
    };
    assert_eq!((conflict.registered(), conflict.refused()), (&policy("one", 1), &policy("one", 2)));
    assert!(conflict.to_string().starts_with("two different policies are named one:"), "{conflict}");

    let twice = first.clone().try_and_policy(policy("one", 1)).unwrap_err();
    assert_eq!(twice, LayerError::Duplicate { policy: PolicyName::literal("one") });
    registry.register(&policy("two", 1)).unwrap();
    assert!(matches!(first.clone().try_and_policy(policy("two", 2)), Err(LayerError::Conflict(_))));
    assert_eq!(registry.policy(&PolicyName::literal("two")), Some(policy("two", 1)));
    assert_eq!(format!("{registry:?}"), r#"Registry { secret: Secret(0), policies: ["one", "two"], .. }"#);
}

#[test]
fn a_policy_that_the_store_refuses_is_an_error_of_the_layer() {
    let store = Arc::new(TestStore::default());
    let registry = registry_of(Arc::clone(&store));
    let first = LayerBuilder::new(Arc::clone(&registry), policy("one", 1)).by(Global);
    store.is_full.store(true, Ordering::Relaxed);
    assert!(registry.register(&policy("one", 1)).is_ok(), "it is registered already");
    for refused in [
        LayerBuilder::try_new(Arc::clone(&registry), policy("two", 1)).unwrap_err(),
        first.try_and_policy(policy("two", 1)).unwrap_err(),
    ] {
        assert!(matches!(&refused, LayerError::Refused { policy, .. } if policy.as_str() == "two"));
        assert_eq!(refused.to_string(), "policy two does not fit");
    }
    assert_eq!(registry.policy(&PolicyName::literal("two")), None);
}

#[test]
fn a_layer_has_as_many_policies_as_a_decision() {
    let name = |index: usize| Policy::try_gcra(&format!("policy {index}"), Quota::per_second(1)).unwrap();
    let full = (1..Checks::MAX).fold(start(), |layer, index| layer.and_policy(name(index)));
    assert_eq!(full.policies().count(), Checks::MAX);
    assert_eq!(full.try_and_policy(name(Checks::MAX)).unwrap_err(), LayerError::TooMany);
}

#[test]
#[should_panic(expected = "policy first is in the layer already")]
fn a_policy_twice_in_a_layer_panics() {
    let _ = start().and_policy(policy("first", 3));
}

#[test]
#[should_panic(expected = "two different policies are named first")]
fn a_different_policy_of_a_known_name_panics() {
    let registry = registry();
    registry.register(&policy("first", 1)).unwrap();
    let _ = LayerBuilder::new(registry, policy("first", 2));
}

#[tokio::test]
async fn adding_a_policy_to_a_clone_keeps_the_original() {
    let one = start();
    let two = one.clone().and_policy(policy("second", 1));
    assert_eq!((one.policies().count(), two.policies().count()), (1, 2));
}
