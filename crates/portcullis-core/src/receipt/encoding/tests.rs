use super::*;
use crate::{FailureMode, InFlight, Secret};

fn key() -> Key {
    let mut hasher = Secret::published().hasher();
    hasher.writer().part("user", b"ada");
    hasher.finish().unwrap()
}

fn charged(policy: &Policy, costs: &[u64]) -> Receipt {
    let (mut receipt, mut state) = (Receipt::blank(policy.clone(), key(), Timestamp::EPOCH), None);
    for (second, cost) in (0_u64..).zip(costs) {
        let now = Timestamp::from_micros(1_767_225_600_000_000 + second * 1_000_000);
        policy.strategy().charge(&mut state, now, *cost);
        let position = policy.strategy().position(state.as_ref(), now);
        let more = Receipt::new(policy.clone(), key(), Run { units: *cost, position }, now, None);
        assert_eq!(receipt.absorb(more), None);
    }
    receipt
}

fn policies() -> [Policy; 6] {
    let quota = Quota::per_hour(1_000);
    [
        Policy::token_bucket("p", quota),
        Policy::gcra("p", Quota::per_second(7).burst(100)),
        Policy::leaky_bucket("p", quota),
        Policy::fixed_window("p", quota),
        Policy::sliding_window("p", quota),
        Policy::sliding_log("p", quota),
    ]
}

#[test]
fn receipt_of_each_strategy_is_read_as_written() {
    for policy in policies() {
        for costs in [&[][..], &[1], &[3, 1, 4]] {
            let receipt = charged(&policy, costs);
            let bytes = receipt.encode().unwrap();
            let found = |name: &PolicyName, limit| {
                assert_eq!((name, limit), (policy.name(), policy.strategy().limit()));
                Some(policy.clone())
            };
            assert_eq!(Receipt::decode(&bytes, found), Some(receipt));
        }
        let newest = charged(&policy, &[2]).if_newest();
        let bytes = newest.encode().unwrap();
        assert_eq!(Receipt::decode(&bytes, |_, _| Some(policy.clone())), Some(newest));
    }
}

#[test]
fn quota_of_caller_comes_back() {
    let (free, pro) = (Quota::per_minute(60), Quota::per_minute(600).burst(90));
    let policy = Policy::token_bucket("p", free).caller_quotas(free, pro);
    for quota in [pro, Quota::UNLIMITED] {
        let own = policy.with_quota(quota).unwrap();
        let receipt = charged(&own, &[5]);
        let read = Receipt::decode(&receipt.encode().unwrap(), |_, _| Some(policy.clone())).unwrap();
        assert_eq!((read.policy().caller_quota(), &read), (Some(quota), &receipt));
    }
}

#[test]
fn charge_of_this_process_alone_is_not_written() {
    let in_flight = Policy::new(PolicyName::new("p").unwrap(), Strategy::InFlight(InFlight::new(3).unwrap()));
    assert_eq!(Receipt::blank(in_flight, key(), Timestamp::EPOCH).encode(), None);
    let local = Policy::fixed_window("p", Quota::per_hour(9)).on_store_failure(FailureMode::local(1));
    let receipt = charged(&local, &[1]).charged_by(core::num::NonZeroU64::new(7));
    assert_eq!(receipt.encode(), None);
}

#[test]
fn policy_with_other_states_is_refused() {
    let bytes = charged(&Policy::fixed_window("p", Quota::per_hour(9)), &[1]).encode().unwrap();
    for other in [Policy::fixed_window("p", Quota::per_minute(9)), Policy::gcra("p", Quota::per_hour(9))] {
        assert_eq!(Receipt::decode(&bytes, |_, _| Some(other)), None);
    }
    assert!(Receipt::decode(&bytes, |_, _| Some(Policy::fixed_window("p", Quota::per_hour(5)))).is_some());
    assert_eq!(Receipt::decode(&bytes, |_, _| Some(Policy::fixed_window("q", Quota::per_hour(9)))), None);
    assert_eq!(Receipt::decode(&bytes, |_, _| None), None);
}

/// Whatever bytes are read, a receipt that comes of them frees no more than it says.
#[test]
fn policy_with_another_rate_is_refused() {
    for (policy, slower) in [
        (Policy::gcra("p", Quota::per_minute(1_000)), Policy::gcra("p", Quota::per_minute(10))),
        (
            Policy::token_bucket("p", Quota::per_hour(9)),
            Policy::token_bucket("p", Quota::per_hour(9).burst(3)),
        ),
        (Policy::leaky_bucket("p", Quota::per_hour(9)), Policy::leaky_bucket("p", Quota::per_day(9))),
    ] {
        let bytes = charged(&policy, &[2]).encode().unwrap();
        assert_eq!(Receipt::decode(&bytes, |_, _| Some(slower)), None, "{policy:?}");
    }
    // A window counts what it counted, whatever its limit is.
    let bytes = charged(&Policy::fixed_window("p", Quota::per_hour(9)), &[2]).encode().unwrap();
    assert!(Receipt::decode(&bytes, |_, _| Some(Policy::fixed_window("p", Quota::per_hour(5)))).is_some());
}

#[test]
fn other_bytes_are_none_or_consistent() {
    let policy = Policy::gcra("p", Quota::per_second(7).burst(100));
    let bytes = charged(&policy, &[3, 1]).encode().unwrap();
    let find = |_: &PolicyName, _| Some(policy.clone());
    for length in 0..bytes.len() {
        if let Some(shorter) = Receipt::decode(&bytes[..length], find) {
            assert!(shorter.runs().len() < 2, "whole runs were cut off");
        }
    }
    for index in 0..bytes.len() {
        for bit in 0..8 {
            let mut other = bytes.clone();
            other[index] ^= 1 << bit;
            if let Some(read) = Receipt::decode(&other, find) {
                let held: u64 = read.runs().iter().map(|run| run.units).sum();
                assert!(held <= read.cost());
            }
        }
    }
}
