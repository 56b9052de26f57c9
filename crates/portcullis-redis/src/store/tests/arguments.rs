//! The arguments of a script.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use portcullis_core::store::{Check, Checks, Position, Refund, Run, Store as _};
use portcullis_core::{Policy, Quota, Strategy, Timestamp};
use portcullis_testing::calendars;

use super::{RedisStore, Server, check, key, name, open, policies_and_permits};
use crate::protocol::value::Value;
use crate::protocol::wire::{Operation, REPEATS, Reply, arguments};
use crate::transport::CallError;

#[tokio::test]
async fn invalid_arguments_are_rejected_before_any_write() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let long = Policy::gcra("debt", Quota::per_minute(5)).allow_debt(7);
    for policy in policies_and_permits(Quota::per_minute(5)).into_iter().chain([long]) {
        let check = Check { policy: policy.clone(), key: key(&["ada"]), cost: 1 };
        let sent = request(Operation::Check, &policy, check.cost);
        let rejected = async |request: &[u8], why: &str| {
            let reply = call(&store, &policy, request).await;
            let error = reply.expect_err(why).to_string();
            assert!(error.contains("PORTCULLIS"), "{why} of {}: {error}", policy.name());
        };
        for bad in [-1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.5, 1e-300, EXACT, 1e300] {
            for position in (PARAMETERS..sent.len()).step_by(DOUBLE) {
                let mut request = sent.clone();
                request[position..position + DOUBLE].copy_from_slice(&bad.to_le_bytes());
                rejected(&request, &format!("{bad} at {position}")).await;
            }
        }
        for length in 0..sent.len() {
            rejected(&sent[..length], &format!("{length} bytes")).await;
        }
        rejected(&[&sent[..], &[0]].concat(), "a byte too much").await;
        rejected(&[&sent[..], &[0; RUN]].concat(), "a run of a check").await;
        let mut nothing = sent.clone();
        nothing[PARAMETERS..PARAMETERS + DOUBLE].fill(0);
        rejected(&nothing, "a period of nothing").await;
        // The operation, the number of checks and of records, the record and the key of the check, and the algorithm.
        for (position, bad) in [
            (0, &[0, 6, 7, 255][..]),
            (1, &[0, 2, 255]),
            (2, &[0, 2, 255]),
            (3, &[1, 129, 255]),
            (4, &[0, 2, 255]),
            (5, &[0, 8, 255]),
        ] {
            for bad in bad {
                let mut request = sent.clone();
                request[position] = *bad;
                rejected(&request, &format!("{bad} at {position}")).await;
            }
        }
        assert_eq!(server.cli(&["EXISTS", &name(&policy)]).trim(), "0");
    }
}

#[tokio::test]
async fn only_decisions_with_one_check_are_repeated() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let quota = Quota::per_minute(5);
    for policy in policies_and_permits(quota) {
        let sent = request(Operation::Check, &policy, 1);
        let times = |flag: u8, times: &[u8]| [&[sent[0] | flag][..], &sent[1..5], times, &sent[5..]].concat();
        let is_repeatable = !matches!(policy.strategy(), Strategy::SlidingLog(_) | Strategy::InFlight(_));
        for (sent, is_valid) in [
            (times(REPEATS, &[2]), is_repeatable),
            (times(REPEATS, &[1]), true),
            (times(REPEATS, &[0]), false),
            (times(REPEATS, &[]), false),
            (times(REPEATS, &[2, 2]), false),
            (times(0, &[2]), false),
        ] {
            let reply = call(&store, &policy, &sent).await;
            assert_eq!(reply.is_ok(), is_valid, "{:?} under {}: {reply:?}", &sent[..7], policy.name());
        }
        for operation in [Operation::Force, Operation::Reset] {
            let mut other = times(REPEATS, &[2]);
            other[0] = request(operation, &policy, 1)[0] | REPEATS;
            assert!(call(&store, &policy, &other).await.is_err(), "{operation:?} under {}", policy.name());
        }
        // Two checks of one decision, of which neither is repeated.
        let record = &sent[5..];
        for times in [[2, 1], [1, 2]] {
            let two = [&[sent[0] | REPEATS, 2, 1, 0, 1, 128, 1][..], &times, record].concat();
            assert!(call(&store, &policy, &two).await.is_err(), "{times:?} under {}", policy.name());
        }
        store.reset(&policy, key(&["ada"])).await.unwrap();
    }
}

#[tokio::test]
async fn runs_belong_to_refunds_and_are_bounded() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    for policy in policies_and_permits(Quota::per_minute(5)) {
        let run = |micros| Run { units: 1, position: Position { micros, remainder: 0 } };
        for (count, is_taken) in [(0, true), (1, true), (64, true), (65, false)] {
            let runs: Vec<Run> = (1..=count).map(run).collect();
            let refund = Refund::of(&runs);
            for operation in [Operation::Refund(refund), Operation::Refund(refund.if_newest())] {
                let sent = request(operation, &policy, 0);
                let reply = call(&store, &policy, &sent).await;
                assert_eq!(reply.is_ok(), is_taken, "{count} runs under {}", policy.name());
                if !is_taken || count == 0 {
                    continue;
                }
                // A number less is not a whole run, each number is whole, and other operations have no runs.
                assert!(call(&store, &policy, &sent[..sent.len() - DOUBLE]).await.is_err());
                for position in (sent.len() - RUN..sent.len()).step_by(DOUBLE) {
                    let mut fraction = sent.clone();
                    fraction[position..position + DOUBLE].copy_from_slice(&1.5_f64.to_le_bytes());
                    assert!(call(&store, &policy, &fraction).await.is_err());
                }
                for operation in [Operation::Check, Operation::Force, Operation::Reset] {
                    let mut other = sent.clone();
                    other[0] = request(operation, &policy, 0)[0];
                    let reply = call(&store, &policy, &other).await;
                    assert!(reply.is_err(), "{operation:?} under {}", policy.name());
                }
            }
        }
        assert_eq!(server.cli(&["EXISTS", &name(&policy)]).trim(), "0");
    }
}

#[tokio::test]
async fn the_largest_arguments_make_no_long_value() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    for policy in policies_and_permits(Quota::per_minute(5)) {
        let runs = [Run { units: 1, position: Position { micros: 1, remainder: 0 } }; 64];
        let refund = Refund::of(&runs);
        for operation in [
            Operation::Check,
            Operation::Refund(refund),
            Operation::Refund(refund.if_newest()),
            Operation::Force,
            Operation::Reset,
        ] {
            let mut request = request(operation, &policy, 1);
            for number in request[PARAMETERS..].chunks_exact_mut(DOUBLE) {
                number.copy_from_slice(&(EXACT - 1.0).to_le_bytes());
            }
            // Whatever the reply, the server must survive and the key must be small.
            let _ = call(&store, &policy, &request).await;
            let length: usize = server.cli(&["STRLEN", &name(&policy)]).trim().parse().unwrap();
            assert!(length <= 2_000_000, "{length} bytes under {}", policy.name());
        }
        store.reset(&policy, key(&["ada"])).await.unwrap();
        assert!(store.check(Checks::one(policy, key(&["ada"]), 1)).await.unwrap().is_allowed());
    }
}

#[tokio::test]
async fn decisions_of_one_call_are_made_one_after_another() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let (bucket, window) = (Policy::gcra("bucket", QUOTA.burst(5)), Policy::fixed_window("window", QUOTA));
    // By record: one unit of the bucket, three of it, and one of the window.
    let records = [(&bucket, 1), (&bucket, 3), (&window, 1)];
    // By check: its record, and its key, of which the first is the bucket's.
    let decisions: [&[(u8, u8)]; 6] =
        [&[(2, 2), (1, 1)], &[(2, 2), (1, 1)], &[(0, 1)], &[(0, 1)], &[(2, 2), (0, 1)], &[(2, 2)]];
    let (mut checks, count) = (Vec::new(), decisions.concat().len());
    for decision in decisions {
        let (last, others) = decision.split_last().unwrap();
        checks.extend(others.iter().flat_map(|(record, key)| [*record, *key]));
        checks.extend([last.0 + 128, last.1]);
    }
    let mut sent = vec![1, u8::try_from(count).unwrap(), 3];
    sent.append(&mut checks);
    for (policy, cost) in records {
        // After three numbers and the check.
        sent.extend(&request(Operation::Check, policy, cost)[5..]);
    }
    let names = vec![name(&bucket), name(&window)];
    server.cli(&["CONFIG", "RESETSTAT"]);
    let reply = store.0.connection.call(&store.0.script, names, vec![sent.into()]).await;
    assert_eq!(["get", "set"].map(|command| server.calls(command)), [2, 2], "each key once");

    let mut reply = Reply::new(reply.unwrap()).unwrap();
    let at = reply.at().unwrap();
    let mut left = Vec::new();
    for (record, _) in decisions.concat() {
        let (policy, cost) = records[usize::from(record)];
        let (fits, _) = reply.done().unwrap();
        let result = reply.stored(policy.strategy()).unwrap().check_result(at, cost, fits);
        left.push((fits, result.snapshot.remaining));
    }
    let first = [(true, 4), (true, 2)];
    // The window's unit is taken back, because three units of the bucket do not fit.
    let second = [(true, 4), (false, 2)];
    let ones = [(true, 1), (true, 0)];
    let fifth = [(true, 4), (false, 0)];
    assert_eq!(left, [&first[..], &second, &ones, &fifth, &[(true, 3)]].concat());
    assert_eq!(check(&store, &bucket, 0).await.decision().remaining(), 0);
    assert_eq!(check(&store, &window, 0).await.decision().remaining(), 3);
}

#[tokio::test]
async fn the_server_picks_the_calendar_window_that_its_clock_is_in() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let policy = Policy::calendar_window("monthly", 9, &calendars()[0]);
    let now = Timestamp::from(SystemTime::now());
    let day = Duration::from_hours(24);
    let ask = async |clock: Timestamp| {
        let checks = [(policy.strategy(), 1)].into_iter();
        let reply = call(&store, &policy, &arguments(Operation::Check, Some(clock), checks)[0]).await?;
        let mut reply = Reply::new(reply).unwrap();
        let (at, _) = (reply.at().unwrap(), reply.done().unwrap());
        let stored = reply.stored(policy.strategy()).unwrap();
        let end = stored.expires_at().unwrap();
        Ok::<_, CallError>((stored.check_result(at, 1, true).snapshot.remaining, end))
    };
    // Clocks two weeks behind and ahead of the server's, and one that is right, charge one window.
    let end = ask(now).await.unwrap().1;
    assert_eq!(ask(now.saturating_sub(13 * day)).await.unwrap(), (7, end));
    assert_eq!(ask(now.saturating_add(13 * day)).await.unwrap(), (6, end));
    for clock in [now.saturating_sub(70 * day), now.saturating_add(70 * day), Timestamp::EPOCH] {
        let error = ask(clock).await.unwrap_err().to_string();
        assert!(error.contains("bad clock: the server is at 1"), "{error}");
        assert!(error.contains(&format!("from {} us to ", clock_windows(clock))), "{error}");
        assert!(error.ends_with("; synchronise the clocks of both machines"), "{error}");
    }
    assert_eq!(ask(now).await.unwrap(), (5, end));
}

/// The start of the windows that are sent by a caller with this clock.
fn clock_windows(clock: Timestamp) -> u64 {
    calendars()[0].nearest_two(clock).1[0].as_micros()
}

/// The request of a call for one key.
fn request(operation: Operation<'_>, policy: &Policy, cost: u64) -> Vec<u8> {
    let arguments = arguments(operation, None, [(policy.strategy(), cost)].into_iter());
    arguments[0].to_vec()
}

async fn call(store: &RedisStore, policy: &Policy, request: &[u8]) -> Result<Value, CallError> {
    store.0.connection.call(&store.0.script, vec![name(policy)], vec![Bytes::copy_from_slice(request)]).await
}

/// No units become available during a test.
const QUOTA: Quota = Quota::per_week(5);
/// The position of the first parameter: after three numbers, a check of two bytes, and the algorithm.
const PARAMETERS: usize = 6;
const DOUBLE: usize = 8;
const RUN: usize = 4 * DOUBLE;
/// Whole numbers below it are exact in a double.
const EXACT: f64 = 9_007_199_254_740_992.0;
