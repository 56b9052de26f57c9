//! Limits as policies, and the identities that they count.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use portcullis_core::algorithm::{Algorithm, State};
use portcullis_core::{FixedWindow, Key, Policy, PolicyName, Quota, Secret, Timestamp};
use proptest::prelude::*;

use super::{Descriptors, text};
use crate::envoy::{NoPolicy, Unit};

/// Decides about requests, as a store does.
#[derive(Default)]
struct Counts(HashMap<(PolicyName, u128), State>);

impl Counts {
    /// Decides about a descriptor with a limit, at an instant in seconds.
    fn admits(
        &mut self,
        descriptors: &Descriptors,
        domain: &str,
        descriptor: &[(&str, &str)],
        second: u64,
    ) -> bool {
        let found = descriptors.limit(domain, descriptor).expect("it has a limit");
        let policy = match found.limit().policy() {
            Ok(policy) => policy,
            Err(without_state) => return without_state == NoPolicy::Unlimited,
        };
        let id = (policy.name().clone(), key(descriptors, domain, descriptor).fingerprint());
        let decided =
            policy.strategy().decide(self.0.get(&id), Timestamp::from_micros(second * 1_000_000), 1);
        if let Some(state) = decided.after {
            self.0.insert(id, state);
        }
        decided.admitted
    }
}

#[test]
fn shared_and_separate_thresholds_count_as_documented() {
    let descriptors = text(
        "
domain: d
descriptors:
  - {key: files, value: files/*, share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 10}}
  - {key: apart, value: apart/*, rate_limit: {unit: hour, requests_per_unit: 10}}
",
    );
    let mut counts = Counts::default();
    let mut admits =
        |key: &str, value: &str, second: u64| counts.admits(&descriptors, "d", &[(key, value)], second);
    assert!((0..5).all(|_| admits("files", "files/a.pdf", 3_600)));
    assert!((0..5).all(|_| admits("files", "files/b.csv", 3_601)));
    assert!(!admits("files", "files/c.txt", 7_199));
    assert!(admits("files", "files/c.txt", 7_200));
    assert!((0..10).all(|_| admits("apart", "apart/a.pdf", 3_600)));
    assert!(!admits("apart", "apart/a.pdf", 3_600));
    assert!(admits("apart", "apart/b.csv", 3_600));
}

#[test]
fn an_address_is_denied_and_each_other_is_counted() {
    let descriptors = text(
        "
domain: d
descriptors:
  - {key: remote_address, rate_limit: {unit: second, requests_per_unit: 10}}
  - {key: remote_address, value: 50.0.0.5, rate_limit: {unit: second, requests_per_unit: 0}}
  - {key: remote_address, value: 50.0.0.6, rate_limit: {unlimited: true}}
",
    );
    let mut counts = Counts::default();
    let mut admitted = |address: &str| {
        (0..12).filter(|_| counts.admits(&descriptors, "d", &[("remote_address", address)], 5)).count()
    };
    assert_eq!(["50.0.0.1", "50.0.0.2", "50.0.0.5", "50.0.0.6"].map(&mut admitted), [10, 10, 0, 12]);
}

/// What the limit of a descriptor counts.
pub(super) fn key(descriptors: &Descriptors, domain: &str, descriptor: &[(&str, &str)]) -> Key {
    let mut hasher = Secret::published().hasher();
    descriptors.limit(domain, descriptor).expect("it has a limit").write_key(&mut hasher.writer());
    hasher.finish().expect("the identity is short")
}

#[test]
fn units_have_the_lengths_of_the_original() {
    let seconds = Unit::ALL.map(|unit| unit.duration().as_secs());
    assert_eq!(seconds, [1, 60, 3_600, 86_400, 604_800, 2_592_000, 31_536_000]);
    for unit in Unit::ALL {
        let name = unit.as_str();
        let descriptors = text(&format!(
            "{{domain: d, descriptors: [{{key: k, rate_limit: {{unit: {name}, requests_per_unit: 9}}}}]}}"
        ));
        let quota = Quota::new(9, unit.duration(), None).expect("it is valid");
        let policy = Policy::fixed_window("d.k", quota);
        assert_eq!(descriptors.limits()[0].policy(), Ok(&policy), "{name}");
    }
}

#[test]
fn windows_begin_at_multiples_of_their_length() {
    let descriptors =
        text("{domain: d, descriptors: [{key: k, rate_limit: {unit: month, requests_per_unit: 1}}]}");
    let month = Unit::Month.duration();
    let policy = descriptors.limits()[0].policy().expect("it has one");
    let window = FixedWindow::new(Quota::new(1, month, None).expect("it is valid")).expect("it is valid");
    assert_eq!(*policy.strategy(), portcullis_core::Strategy::FixedWindow(window));
    let at = |since: Duration| Timestamp::from_micros(u64::try_from(since.as_micros()).unwrap_or(u64::MAX));
    let state = window.decide(None, at(month * 699 + Duration::from_secs(1)), 1).after;
    assert!(window.decide(state.as_ref(), at(month * 700), 1).admitted);
    let state = window.decide(None, at(month * 700), 1).after;
    assert!(!window.decide(state.as_ref(), at(month * 700 + Duration::from_secs(2_591_999)), 1).admitted);
}

#[test]
fn zero_requests_and_unlimited_need_no_policy() {
    let descriptors = text(
        "
domain: d
descriptors:
  - {key: none, rate_limit: {unit: second, requests_per_unit: 0}}
  - {key: all, rate_limit: {unlimited: true}}
",
    );
    let [none, all] = descriptors.limits() else { panic!("two limits") };
    assert_eq!(none.policy(), Err(NoPolicy::AlwaysDenied));
    assert_eq!(all.policy(), Err(NoPolicy::Unlimited));
    assert_eq!(none.policy_named(PolicyName::literal("x")), Err(NoPolicy::AlwaysDenied));
}

#[test]
fn policies_have_different_valid_names() {
    let long = "x".repeat(80);
    let fields = "rate_limit: {unit: day, requests_per_unit: 1}";
    let file = format!(
        "
domain: d
descriptors:
  - {{key: short, {fields}}}
  - {{key: {long}, value: a, {fields}}}
  - {{key: {long}, value: b, {fields}}}
  - {{key: é, {fields}}}
  - {{key: ü, {fields}}}
  # Two different keys `d.a.b`.
  - {{key: a.b, {fields}}}
  - {{key: a, descriptors: [{{key: b, {fields}}}]}}
"
    );
    let names = |file: &str| -> Vec<String> {
        text(file).limits().iter().map(|limit| limit.policy_name().as_str().to_owned()).collect()
    };
    let all = names(&file);
    assert_eq!(all[0], "d.short");
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), 7, "{all:?}");
    assert!(all[1].starts_with("d.xxxx") && all[1].len() == 64 && all[5].starts_with("d.a.b~"), "{all:?}");
    assert_eq!(names(&file), all);
    // A key that looks like a shortened one.
    let taken = names(&format!("{file}  - {{key: '{}', {fields}}}\n", &all[1][2..]));
    assert_eq!(taken.iter().collect::<HashSet<_>>().len(), 8, "{taken:?}");
    let descriptors = text(&file);
    let other = descriptors.limits()[0].policy_named(PolicyName::literal("other")).expect("it has a policy");
    assert_eq!(other, Policy::fixed_window("other", Quota::per_day(1)));
}

#[test]
fn identities_are_of_clients_unless_the_file_has_all_values() {
    let descriptors = super::file("shared.yaml");
    let own = |descriptor: &[(&str, &str)]| !key(&descriptors, "library", descriptor).is_shared();
    assert!(!own(&[("path", "/books/1")]));
    assert!(!own(&[("file", "scan1")]));
    assert!(own(&[("route", "api/v1"), ("method", "GET")]));
    assert!(own(&[("room", "room/1"), ("seat", "seat/2"), ("lamp", "3")]));
}

#[test]
fn shared_wildcards_share_only_their_own_value() {
    let descriptors = super::file("shared.yaml");
    let key = |descriptor: &[(&str, &str)]| key(&descriptors, "library", descriptor);
    assert_eq!(key(&[("path", "/books/1")]), key(&[("path", "/books/2")]));
    assert_ne!(key(&[("file", "scan1")]), key(&[("file", "scan2")]));
    assert_eq!(key(&[("file", "scan2")]), key(&[("file", "scan3")]));
    assert_eq!(
        key(&[("path", "/rooms/1"), ("path", "/maps/1")]),
        key(&[("path", "/rooms/2"), ("path", "/maps/2")])
    );
    assert_ne!(
        key(&[("room", "room/1"), ("seat", "seat/1"), ("lamp", "1")]),
        key(&[("room", "room/1"), ("seat", "seat/2"), ("lamp", "1")])
    );
    assert_eq!(
        key(&[("room", "room/1"), ("seat", "seat/1"), ("lamp", "1")]),
        key(&[("room", "room/2"), ("seat", "seat/1"), ("lamp", "1")])
    );
}

proptest! {
    #[test]
    fn different_descriptors_have_different_keys(
        left in proptest::collection::vec(("[ab_.]{0,3}", "[ab_.]{0,3}"), 1..3),
        right in proptest::collection::vec(("[ab_.]{0,3}", "[ab_.]{0,3}"), 1..3),
    ) {
        // Wildcards for everything, so that any descriptor has a limit.
        let descriptors = text(
            "{domain: d, descriptors: [{key: '*', rate_limit: {unit: day}, descriptors: [{key: '*', rate_limit: {unit: day}}]}]}",
        );
        let borrow = |entries: &[(String, String)]| -> Key {
            let entries: Vec<_> = entries.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            key(&descriptors, "d", &entries)
        };
        prop_assert_eq!(borrow(&left) == borrow(&right), left == right);
    }
}
