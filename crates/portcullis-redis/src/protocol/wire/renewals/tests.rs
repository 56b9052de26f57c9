use portcullis_core::Secret;
use portcullis_core::store::Position;

use super::*;
use crate::store::tests::in_flight;

fn key(user: usize) -> Key {
    let mut hasher = Secret::published().hasher();
    hasher.writer().part("user", &user.to_be_bytes());
    hasher.finish().unwrap()
}

fn permits(policy: &Policy, user: usize, units: u64) -> PermitRun<'_> {
    PermitRun { policy, key: key(user), run: Run { units, position: Position { micros: 7, remainder: 9 } } }
}

#[test]
fn runs_of_a_key_are_one_check_with_one_key() {
    let layout = Layout::new("shop", "2026").unwrap();
    let (exports, imports) = (in_flight("exports", 5), in_flight("imports", 5));
    let more = in_flight("exports", 6);
    let runs = [
        permits(&exports, 1, 1),
        permits(&exports, 1, 2),
        permits(&more, 1, 1),
        permits(&imports, 1, 1),
        permits(&exports, 2, 1),
    ];
    let RenewalCall { keys, args, sizes } = RenewalCall::new(&layout, None, &runs);
    assert_eq!((keys.len(), args.len(), sizes.as_slice()), (3, 1, &[2, 1, 1, 1][..]));
    let request = &args[0];
    assert_eq!(request.len(), HEAD + 2 * 4 + 2 * RECORD + 5 * RUN);
    // By check: the record and the key. Under another limit the key is the same.
    assert_eq!(request[..HEAD], [6, 4, 2]);
    assert_eq!(request[HEAD..HEAD + 8], [LAST, 1, LAST + 1, 1, LAST, 2, LAST, 3]);
    // A run has its units, the number of its check, the epoch, and the last serial number.
    let (second, _) = request[HEAD + 8 + 2 * RECORD + RUN..].split_at(RUN);
    assert_eq!(second, [2, 1, 7, 9].map(double).concat());
}

#[test]
fn a_call_has_at_most_the_work_of_the_largest_decision() {
    let (small, large) = (in_flight("small", 10), in_flight("large", 1_000));
    let count = |policy, units, users: usize, runs: usize| {
        first_renewals((0..runs).map(|run| permits(policy, run * users / runs, units)))
    };
    // One key, and a key for each run.
    assert_eq!(count(&small, 1, 1, 1_000), MAX_RENEWALS);
    assert_eq!(count(&large, 1, 1, 1_000), MAX_RENEWALS);
    assert_eq!(count(&small, 1, 1_000, 1_000), 113);
    assert_eq!(count(&large, 1, 1_000, 1_000), 9);
    assert_eq!(count(&large, 300, 1, 1_000), 3);
    assert_eq!(count(&large, 2_000, 1, 1_000), 1);
    assert_eq!(count(&small, 1, 2, 2), 2);
}

#[test]
fn a_reply_has_a_number_for_each_run() {
    let reply =
        |numbers: &[f64]| Value::Text(numbers.iter().flat_map(|number| number.to_le_bytes()).collect());
    let whole = [1e15, 9.0, 1.0, 0.0, 9.0, 3.0];
    assert_eq!(RenewalCall::read(&[2, 1], reply(&whole)).unwrap(), [1, 0, 3]);
    for length in 0..whole.len() {
        assert!(RenewalCall::read(&[2, 1], reply(&whole[..length])).is_err(), "{length}");
    }
    assert!(RenewalCall::read(&[1], Value::Null).is_err());
}
