use portcullis_core::store::Run;

use super::super::Family;
use super::*;

#[test]
fn operations_round_trip_through_lines() {
    let key_id = KeyId { rotation: 2, family: Family::Log, caller: 9 };
    let answer = Answer {
        at: 1_767_225_600_000_000,
        charged: false,
        by: AnsweredBy::Server,
        blocked: false,
        position: Position::default(),
        uncharged: 0,
        delay: Some(0),
        retry: Some(Retry::After(Duration::from_micros(17))),
        limit: 10,
        remaining: 1,
        reset_after: 3_000_000,
        next_after: 17,
    };
    let never = Answer {
        retry: Some(Retry::Never),
        delay: None,
        by: AnsweredBy::DenialMemory,
        blocked: true,
        ..answer
    };
    let position = Position { micros: 1_767_225_600_000_017, remainder: 2 };
    let fits = Answer { retry: None, charged: true, by: AnsweredBy::Lease, position, ..answer };
    let runs = vec![Run { units: 3, position }, Run { units: 1, position: Position::default() }];
    let calls = [
        Call::Check(3),
        Call::Settle(Correction { to: 0, charged: 4, runs: runs.clone() }),
        Call::Settle(Correction { to: 7, charged: 0, runs: Vec::new() }),
        Call::Renew(runs),
        Call::Block(20_000_000),
        Call::Unblock,
        Call::Grant { limit: 60, length: 20_000_000 },
        Call::Revoke,
        Call::Reset,
    ];
    let local = Answer { by: AnsweredBy::Fallback, ..fits };
    let mut outcomes: Vec<Outcome> = [answer, never, fits, local].map(Outcome::Answered).to_vec();
    outcomes.push(Outcome::of_error(StoreErrorKind::TimedOut));
    outcomes.push(Outcome::of_error(StoreErrorKind::Forbidden));
    outcomes.push(Outcome::Unknown(Failure::Dropped));
    outcomes.push(Outcome::Done(2));
    for (outcome, call) in outcomes.iter().flat_map(|outcome| calls.iter().map(move |call| (outcome, call))) {
        let (outcome, call) = (outcome.clone(), call.clone());
        let op = Op { process: 0, key_id, call, invoked: 5, completed: 80, outcome };
        assert_eq!(op.to_string().parse(), Ok(op));
    }
    assert!("8 1 5".parse::<Op>().is_err(), "a line cut off by a kill");
}

#[test]
fn only_errors_of_unknown_fate_leave_units_in_doubt() {
    use StoreErrorKind::{Failed, Forbidden, Overloaded, Overtaken, TimedOut, Unavailable, Unsupported};

    let key_id = KeyId { rotation: 0, family: Family::Bucket, caller: 0 };
    for kind in [Failed, Forbidden, Overloaded, Overtaken, TimedOut, Unavailable, Unsupported] {
        let outcome = Outcome::of_error(kind);
        let op = Op { process: 0, key_id, call: Call::Check(3), invoked: 5, completed: 80, outcome };
        assert_eq!(
            (op.charged(), op.doubtful()),
            (0, if kind.is_fate_unknown() { 3 } else { 0 }),
            "{kind:?}"
        );
    }
}

#[test]
fn monotonic_micros_advance() {
    let before = monotonic_micros();
    std::thread::sleep(Duration::from_millis(2));
    assert!(monotonic_micros() >= before + 2_000);
}
