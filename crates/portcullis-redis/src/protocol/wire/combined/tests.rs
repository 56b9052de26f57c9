mod repeated;

use portcullis_core::{Policy, Quota, SlidingWindow};

use super::super::record::RECORD;
use super::super::{Reply, arguments};
use super::*;
use crate::store::tests::policies_and_permits;

const MINUTE: Quota = Quota::per_minute(5);

/// The keys and the request of one decision.
fn decision(checks: &[(&'static str, &Policy, u64)]) -> (Vec<Bytes>, Bytes) {
    let keys = checks.iter().map(|(key, ..)| Bytes::from_static(key.as_bytes())).collect();
    let own = checks.iter().map(|(_, policy, cost)| (policy.strategy(), *cost));
    (keys, arguments(Operation::Check, None, own).swap_remove(0))
}

fn combined(decisions: &[(Vec<Bytes>, Bytes)]) -> CombinedRequest {
    let mut combined = CombinedRequest::default();
    for (keys, request) in decisions {
        add(&mut combined, keys, request);
    }
    combined
}

fn add(combined: &mut CombinedRequest, keys: &[Bytes], request: &Bytes) {
    combined.add(&CallWords::new(keys.into(), [request.clone()].into_iter().collect()), 1);
}

fn bytes(numbers: &[f64]) -> Bytes {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

#[test]
fn one_decision_is_sent_as_it_is() {
    let (gcra, window) = (Policy::gcra("gcra", MINUTE), Policy::fixed_window("window", MINUTE));
    let one = decision(&[("a", &gcra, 1), ("b", &window, 2), ("c", &gcra, 1)]);
    let combined = combined(std::slice::from_ref(&one));
    assert_eq!((combined.keys(), combined.request()), (&one.0[..], one.1));
}

#[test]
fn decisions_share_keys_and_records() {
    let (gcra, window) = (Policy::gcra("gcra", MINUTE), Policy::fixed_window("window", MINUTE));
    let decisions = [
        decision(&[("a", &gcra, 1)]),
        decision(&[("b", &window, 1), ("a", &gcra, 1)]),
        decision(&[("a", &gcra, 2)]),
        decision(&[("c", &gcra, 1), ("b", &window, 1)]),
    ];
    let combined = combined(&decisions);
    assert_eq!(combined.keys(), ["a", "b", "c"]);
    let request = combined.request();
    assert_eq!(request.len(), HEAD + 2 * 6 + 3 * RECORD);
    // By check: the record and the key.
    let checks = [[LAST, 1], [1, 2], [LAST, 1], [LAST + 2, 1], [0, 3], [LAST + 1, 2]];
    assert_eq!(request[..HEAD], [1, 6, 3]);
    assert_eq!(request[HEAD..HEAD + 12], checks.concat());
    let first = [&decisions[0], &decisions[1], &decisions[2]].map(|(_, request)| &request[..]);
    let record = |request: &[u8], checks: usize| request[HEAD + 2 * checks..][..RECORD].to_vec();
    let records = [record(first[0], 1), record(first[1], 2), record(first[2], 1)].concat();
    assert_eq!(request[HEAD + 12..], records);
}

#[test]
fn one_long_record_makes_all_records_long() {
    let (gcra, debt) = (Policy::gcra("gcra", MINUTE), Policy::gcra("debt", MINUTE).allow_debt(7));
    let decisions = [decision(&[("a", &gcra, 1)]), decision(&[("b", &debt, 1), ("a", &gcra, 1)])];
    let both = combined(&decisions).request();
    let together = decision(&[("a", &gcra, 1), ("b", &debt, 1)]).1;
    assert_eq!(both[..HEAD], [1 | 128, 3, 2]);
    assert_eq!(both[HEAD + 6..], together[HEAD + 4..]);
    assert_eq!(combined(&decisions[..1]).request(), decisions[0].1);
}

#[test]
fn a_reply_is_divided_by_decision() {
    let (gcra, sliding) = (Policy::gcra("gcra", MINUTE), Policy::sliding_window("sliding", MINUTE));
    let decisions = [
        decision(&[("a", &gcra, 1)]),
        decision(&[("b", &sliding, 1), ("a", &gcra, 1)]),
        decision(&[("c", &sliding, 1)]),
    ];
    let combined = combined(&decisions);
    let at = 1e15;
    let (one, slots, two, none) =
        ([9.0, 5e15, 0.0], [1.0, 2.0, 120e6, 4.0, 3.0], [0.0, 6e15, 1.0], [1.0, 0.0]);
    let whole = [&[at][..], &one, &slots, &two, &none].concat();
    let parts = combined.split(&bytes(&whole)).unwrap();
    let expected =
        [[&[at][..], &one].concat(), [&[at][..], &slots, &two].concat(), [&[at][..], &none].concat()];
    let own: Vec<_> = parts.iter().map(|part| part.as_bytes().unwrap().to_vec()).collect();
    assert_eq!(own, expected.map(|numbers| bytes(&numbers)));
    let mut reply = Reply::new(parts[1].clone()).unwrap();
    assert_eq!(reply.at().unwrap().as_micros(), 1_000_000_000_000_000);
    assert!(reply.done().unwrap().0 && reply.stored(sliding.strategy()).is_ok());
    assert!(!reply.done().unwrap().0 && reply.stored(gcra.strategy()).is_ok());
    // No other length is that of a reply.
    for length in 0..whole.len() {
        assert_eq!(combined.split(&bytes(&whole[..length])), None, "{length} numbers");
    }
    assert_eq!(combined.split(&bytes(&[&whole[..], &[0.0]].concat())), None);
    let endless = [&[at][..], &one, &[1.0, 2_f64.powi(63)]].concat();
    assert_eq!(combined.split(&bytes(&endless)), None);
}

#[test]
fn a_reply_with_a_length_beyond_every_address_is_rejected() {
    let sliding = Policy::sliding_window("sliding", MINUTE);
    let combined = combined(&[decision(&[("a", &sliding, 1)]), decision(&[("b", &sliding, 1)])]);
    // The bytes of the second state fit into a number, and together with those before them they do not.
    let numbers = [&[1e15, 1.0, 300.0][..], &[1.0; 301], &[1.0, 2_f64.powi(61) - 256.0]].concat();
    assert_eq!(combined.split(&bytes(&numbers)), None);
}

#[test]
fn a_load_is_the_work_and_a_share_of_the_call() {
    let gcra = Policy::gcra("gcra", MINUTE);
    let slots = Strategy::SlidingWindow(SlidingWindow::with_slots(MINUTE, 600).unwrap());
    assert_eq!(load_of([gcra.strategy(), &slots].into_iter()), Some(8 + 607));
    for policy in policies_and_permits(MINUTE) {
        let is_log = matches!(policy.strategy(), Strategy::SlidingLog(_));
        assert_eq!(load_of([gcra.strategy(), policy.strategy()].into_iter()).is_none(), is_log);
    }
}

#[test]
fn the_most_load_fits_into_a_request() {
    let checks = MAX_LOAD / load_of([Policy::gcra("gcra", MINUTE).strategy()].into_iter()).unwrap();
    let mut combined = CombinedRequest::default();
    // Each check has parameters and a key of its own.
    for limit in 1..=u64::from(checks) {
        let (_, request) = decision(&[("", &Policy::gcra("gcra", Quota::per_minute(limit)), 1)]);
        add(&mut combined, &[Bytes::from(limit.to_string())], &request);
    }
    let request = combined.request();
    assert_eq!((request[1], request[2], combined.keys().len()), (128, 128, 128));
}

#[test]
fn keys_are_kept_apart() {
    let names: Vec<_> = (0..128).map(|number: u32| Bytes::from(format!("{number:08}"))).collect();
    let (_, request) = decision(&[("", &Policy::gcra("gcra", MINUTE), 1)]);
    let mut combined = CombinedRequest::default();
    for key in names.iter().chain(&names[..8]) {
        add(&mut combined, std::slice::from_ref(key), &request);
    }
    assert_eq!(combined.keys(), names);
    let positions = combined.checks.iter().map(|check| check.key);
    assert!(positions.eq((1..=128).chain(1..=8)));
}
