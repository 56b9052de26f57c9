//! Equal decisions about one key.

use std::sync::Arc;

use super::*;

/// The words of a decision with one check.
fn words(key: &'static str, policy: &Policy, cost: u64) -> Arc<CallWords> {
    let (keys, request) = decision(&[(key, policy, cost)]);
    let replay = Replay::of(policy.strategy(), cost);
    CallWords::of_decision(keys.into(), [request].into_iter().collect(), replay)
}

fn request_of(decisions: &[Arc<CallWords>]) -> CombinedRequest {
    let mut combined = CombinedRequest::default();
    for words in decisions {
        combined.add(words, 1);
    }
    combined
}

/// By check: its record and key, and how often it is made.
fn checks(combined: &CombinedRequest) -> Vec<([u8; 2], u8)> {
    combined.checks.iter().map(|check| ([check.record & !LAST, check.key], check.times)).collect()
}

#[test]
fn equal_decisions_are_one_check_between_those_of_other_keys() {
    let gcra = Policy::gcra("gcra", MINUTE);
    let shared = words("a", &gcra, 1);
    let decisions =
        [shared.clone(), shared.clone(), words("b", &gcra, 1), words("a", &gcra, 1), shared.clone(), shared];
    let combined = request_of(&decisions);
    assert_eq!(checks(&combined), [([0, 1], 5), ([0, 2], 1)]);
    let request = combined.request();
    assert_eq!(request[..HEAD + 6], [1 | REPEATS, 2, 1, LAST, 1, LAST, 2, 5, 1]);
    assert_eq!(request.len(), HEAD + 6 + RECORD);
    assert_eq!(combined.decisions, [0, 0, 1, 0, 0, 0]);
}

#[test]
fn several_times_are_as_many_decisions() {
    let shared = words("a", &Policy::gcra("gcra", MINUTE), 1);
    let mut combined = request_of(std::slice::from_ref(&shared));
    combined.add(&shared, 299);
    // A number of times is a byte.
    assert_eq!(checks(&combined), [([0, 1], 255), ([0, 1], 45)]);
    assert_eq!(combined.decisions.len(), 300);
}

#[test]
fn other_decisions_about_the_key_split_a_series() {
    let (gcra, window) = (Policy::gcra("gcra", MINUTE), Policy::fixed_window("window", MINUTE));
    let one = words("a", &gcra, 1);
    let costs = [one.clone(), one.clone(), words("a", &gcra, 2), one.clone(), one.clone()];
    assert_eq!(checks(&request_of(&costs)), [([0, 1], 2), ([1, 1], 1), ([0, 1], 2)]);
    let (keys, request) = decision(&[("b", &window, 1), ("a", &gcra, 1)]);
    let both = CallWords::new(keys.into(), [request].into_iter().collect());
    let several = [one.clone(), both.clone(), one.clone(), one.clone(), both];
    let expected = [([0, 1], 1), ([1, 2], 1), ([0, 1], 1), ([0, 1], 2), ([1, 2], 1), ([0, 1], 1)];
    assert_eq!(checks(&request_of(&several)), expected);
}

#[test]
fn logs_and_permits_are_not_repeated() {
    for policy in policies_and_permits(MINUTE) {
        let is_repeated = !matches!(policy.strategy(), Strategy::SlidingLog(_) | Strategy::InFlight(_));
        let shared = words("a", &policy, 1);
        let combined = request_of(&[shared.clone(), shared]);
        assert_eq!(checks(&combined).len() == 1, is_repeated, "{}", policy.name());
    }
}

/// Costs that no quota admits have equal parameters, and other figures.
#[test]
fn decisions_are_repeated_only_at_equal_costs() {
    let window = Policy::fixed_window("window", MINUTE);
    let combined = request_of(&[u64::MAX, u64::MAX - 1, u64::MAX - 1].map(|cost| words("a", &window, cost)));
    assert_eq!(checks(&combined), [([0, 1], 1), ([0, 1], 1), ([0, 1], 1)]);
}

#[test]
fn each_decision_of_a_series_gets_its_own_reply() {
    let (window, gcra) = (Policy::fixed_window("window", MINUTE), Policy::gcra("gcra", MINUTE));
    let shared = words("a", &window, 2);
    let combined = request_of(&[shared.clone(), words("b", &gcra, 1), shared.clone(), shared]);
    // A unit is held before, and after two decisions five. The third is denied, and 120 s are the expiry.
    let (at, end) = (1e15, 1e15 + 20e6);
    let numbers =
        |status, before: [f64; 2]| [&[at, status, end, 5.0][..], &before, &[1.0, 1e15 + 12e6, 0.0]].concat();
    let parts = combined.split(&bytes(&numbers(240.0, [end, 1.0]))).unwrap();
    let expected =
        [[at, 1.0, end, 3.0], [at, 1.0, 1e15 + 12e6, 0.0], [at, 1.0, end, 5.0], [at, 240.0, end, 5.0]];
    let own: Vec<_> = parts.iter().map(|part| part.as_bytes().unwrap().to_vec()).collect();
    assert_eq!(own, expected.map(|numbers| bytes(&numbers)));
    // States that do not follow from each other, and an answer that does not follow from the state: what is decided about another key
    // stays.
    let others = [Value::Null, parts[1].clone(), Value::Null, Value::Null];
    for (status, before) in
        [(240.0, [end, 2.0]), (240.0, [end - 1.0, 1.0]), (240.0, [0.0, 0.0]), (241.0, [end, 1.0])]
    {
        let parts = combined.split(&bytes(&numbers(status, before))).unwrap();
        assert_eq!(parts, others, "{status} {before:?}");
    }
    let whole = numbers(240.0, [end, 1.0]);
    for length in 0..whole.len() {
        assert_eq!(combined.split(&bytes(&whole[..length])), None, "{length} numbers");
    }
}

#[test]
fn the_largest_series_fits_into_a_request() {
    let gcra = Policy::gcra("gcra", MINUTE);
    let shared = words("a", &gcra, 1);
    let most = MAX_LOAD / load_of(std::iter::once(gcra.strategy())).unwrap();
    let combined = request_of(&vec![shared; usize::try_from(most).unwrap()]);
    assert_eq!(checks(&combined), [([0, 1], 128)]);
}
