use alloc::string::ToString as _;

use super::*;
use crate::{Gcra, PolicySettings, Quota, Secret, SlidingWindow, Strategy};

fn key(user: &str) -> Key {
    let mut hasher = Secret::published().hasher();
    hasher.writer().part("user", user.as_bytes());
    hasher.finish().unwrap()
}

fn policy(name: &str) -> Policy {
    Policy::try_new(name, Gcra::new(Quota::per_second(1)), PolicySettings::default()).unwrap()
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
fn only_the_same_policy_and_key_are_a_duplicate() {
    let checks = Checks::one(policy("a"), key("ada"), 1);
    assert!(checks.clone().and(policy("a"), key("grace"), 1).is_ok());
    assert!(checks.clone().and(policy("b"), key("ada"), 1).is_ok());
    let twice = ChecksError::Duplicate { policy: PolicyName::literal("a") };
    assert_eq!(checks.and(policy("a"), key("ada"), 7), Err(twice));
}

#[test]
fn a_decision_has_at_most_16_checks() {
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

fn window(name: &str, slots: u32) -> Policy {
    let window = SlidingWindow::with_slots(Quota::per_hour(9), slots).unwrap();
    Policy::new(PolicyName::new(name).unwrap(), Strategy::SlidingWindow(window))
}

#[test]
fn sixteen_windows_of_1000_slots_do_not_fit_a_decision() {
    let first = Checks::one(window("w1", 1_000), key("ada"), 1);
    let error = first.and(window("w2", 1_000), key("ada"), 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "2000 slots of work in one decision, which may have 1024: policy w1 has 1000, policy w2 has 1000; \
         use fewer slots per sliding window, or lower limits of sliding logs (100 units are a slot)"
    );
    let windows: alloc::vec::Vec<_> =
        (0..16).map(|number| window(&alloc::format!("w{number}"), 1_000)).collect();
    let error = TooMuchWork::check(&windows).unwrap_err();
    assert_eq!((error.work(), error.policies().len()), (16_000, 16));
}

#[test]
fn a_decision_has_at_most_1024_slots_of_work() {
    let mut checks = Checks::one(window("fine", 1_000), key("ada"), 1);
    for number in 0..14 {
        checks = checks.and(policy(&alloc::format!("{number}")), key("ada"), 1).unwrap();
    }
    assert!(checks.clone().and(window("ten", 10), key("ada"), 1).is_ok(), "1024 in all");
    let error = checks.and(window("twelve", 12), key("ada"), 1).unwrap_err();
    let ChecksError::TooMuchWork(work) = &error else { panic!("{error:?}") };
    assert_eq!((work.work(), work.policies().len()), (1_026, 16));
}

#[test]
fn the_work_of_a_log_grows_with_its_limit() {
    let log = |limit| Policy::sliding_log("log", Quota::per_hour(limit));
    assert_eq!([1, 100, 101, 100_000].map(|limit| log(limit).strategy().work()), [1, 1, 2, 1_000]);
    assert!(TooMuchWork::check(&[log(100_000), window("small", 24)]).is_ok());
    assert_eq!(TooMuchWork::check(&[log(100_000), window("small", 25)]).unwrap_err().work(), 1_025);
}
