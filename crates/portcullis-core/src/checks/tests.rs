use super::*;
use crate::{Quota, Secret};

fn key(user: &str) -> Key {
    let mut hasher = Secret::published().hasher();
    hasher.writer().part("user", user.as_bytes());
    hasher.finish().unwrap()
}

fn policy(name: &str) -> Policy {
    Policy::try_gcra(name, Quota::per_second(1)).unwrap()
}

#[test]
fn checks_keep_their_order_and_their_costs() {
    let checks = Checks::one(policy("a"), key("ada"), 1).and(policy("b"), key("ada"), 2).unwrap();
    let costs = || (&checks).into_iter().map(|check| (check.policy.name().as_str(), check.cost));
    assert!(costs().eq([("a", 1), ("b", 2)]));
    assert!(checks.iter().eq(&checks));
    assert_eq!(checks.len(), 2);
    assert_eq!(Checks::one(policy("a"), key("ada"), 1).len(), 1);
}

#[test]
fn only_the_same_policy_and_the_same_key_are_the_same_question() {
    let checks = Checks::one(policy("a"), key("ada"), 1);
    assert!(checks.clone().and(policy("a"), key("grace"), 1).is_ok());
    assert!(checks.clone().and(policy("b"), key("ada"), 1).is_ok());
    let twice = ChecksError::Twice { policy: PolicyName::literal("a") };
    assert_eq!(checks.and(policy("a"), key("ada"), 7), Err(twice));
}

#[test]
fn sixteen_checks_are_the_most() {
    let mut checks = Checks::one(policy("0"), key("ada"), 1);
    for number in 1..Checks::MAX {
        checks = checks.and(policy(&alloc::format!("{number}")), key("ada"), 1).unwrap();
    }
    assert_eq!(checks.len(), 16);
    assert_eq!(checks.and(policy("16"), key("ada"), 1), Err(ChecksError::TooMany));
}

#[test]
fn the_narrowest_key_is_never_a_shared_one() {
    let make = |shared: &[&str], own: &[&str]| {
        let mut hasher = Secret::published().hasher();
        for value in shared {
            hasher.writer().shared_part("route", value.as_bytes());
        }
        for value in own {
            hasher.writer().part("user", value.as_bytes());
        }
        hasher.finish().unwrap()
    };
    let (route, user, pair) = (make(&["/"], &[]), make(&["/"], &["ada"]), make(&[], &["ada", "phone"]));
    assert_eq!([route, user, pair].map(|key| key.own_parts()), [0, 1, 2]);
    let checks = Checks::one(policy("a"), route, 1);
    assert_eq!(checks.narrowest_key(), None);
    let checks = checks.and(policy("b"), user, 1).unwrap().and(policy("c"), key("ada"), 1).unwrap();
    assert_eq!(checks.narrowest_key(), Some(user));
    assert_eq!(checks.and(policy("d"), pair, 1).unwrap().narrowest_key(), Some(pair));
}
