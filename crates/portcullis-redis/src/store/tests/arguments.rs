//! The arguments of a script.

use bytes::Bytes;
use portcullis_core::store::{Check, Checks, Position, Refund, Run, Store as _};
use portcullis_core::{Quota, Timestamp};

use super::{Server, key, name, open, policies};
use crate::protocol::wire::{Operation, arguments};

#[tokio::test]
async fn invalid_arguments_are_rejected_before_any_write() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    for policy in policies(Quota::per_minute(5)) {
        let check = Check { policy: policy.clone(), key: key(&["ada"]), cost: 1 };
        let script = store.0.scripts.for_strategies([policy.strategy()].into_iter());
        let sent =
            || arguments(Operation::Check, Timestamp::EPOCH, [(policy.strategy(), check.cost)].into_iter());
        let name = name(&policy);
        for bad in ["-1", "nan", "inf", "1.5", "9007199254740992", "", "1e3", "0x1", " 1", "1\0", "١"] {
            for position in 3..sent().len() {
                let mut arguments = sent();
                arguments[position] = bad.into();
                let reply = store.0.connection.call(script, vec![name.clone()], arguments).await;
                assert!(reply.is_err(), "{bad:?} at {position} of {}", policy.name());
            }
        }
        for position in 2..sent().len() {
            let short = sent()[..position].to_vec();
            let reply = store.0.connection.call(script, vec![name.clone()], short).await;
            assert!(reply.is_err(), "{position} arguments of {}", policy.name());
        }
        let mut nothing = sent();
        nothing[4] = "0".into();
        let reply = store.0.connection.call(script, vec![name.clone()], nothing).await;
        assert!(reply.is_err(), "a period of nothing under {}", policy.name());
        for bad in ["rest", "", "CHECK"] {
            let mut arguments = sent();
            arguments[0] = bad.into();
            let reply = store.0.connection.call(script, vec![name.clone()], arguments).await;
            assert!(reply.unwrap_err().to_string().contains("PORTCULLIS"), "{bad:?}");
        }
        assert_eq!(server.cli(&["EXISTS", &name]).trim(), "0");
    }
}

#[tokio::test]
async fn runs_belong_to_refunds_and_are_bounded() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    for policy in policies(Quota::per_minute(5)) {
        let script = store.0.scripts.for_strategies([policy.strategy()].into_iter());
        let name = name(&policy);
        let run = |micros| Run { units: 1, position: Position { micros, remainder: 0 } };
        for (count, is_taken) in [(0, true), (1, true), (64, true), (65, false)] {
            let runs: Vec<Run> = (1..=count).map(run).collect();
            let refund = Refund::of(&runs);
            for operation in [Operation::Refund(refund), Operation::Refund(refund.if_newest())] {
                let sent = arguments(operation, Timestamp::EPOCH, [(policy.strategy(), 0)].into_iter());
                let reply = store.0.connection.call(script, vec![name.clone()], sent.clone()).await;
                assert_eq!(reply.is_ok(), is_taken, "{count} runs under {}", policy.name());
                if !is_taken || count == 0 {
                    continue;
                }
                // One number less is not a whole run, and other operations have no runs.
                let numbers: usize = std::str::from_utf8(&sent[3]).unwrap().parse().unwrap();
                let mut short = sent[..sent.len() - 1].to_vec();
                short[3] = (numbers - 1).to_string().into();
                assert!(store.0.connection.call(script, vec![name.clone()], short).await.is_err());
                for operation in ["check", "force", "reset"] {
                    let mut other = sent.clone();
                    other[0] = operation.into();
                    let reply = store.0.connection.call(script, vec![name.clone()], other).await;
                    assert!(reply.is_err(), "{operation} under {}", policy.name());
                }
            }
        }
        assert_eq!(server.cli(&["EXISTS", &name]).trim(), "0");
    }
}

#[tokio::test]
async fn the_largest_arguments_make_no_long_value() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let largest = Bytes::from("9007199254740991");
    for policy in policies(Quota::per_minute(5)) {
        let script = store.0.scripts.for_strategies([policy.strategy()].into_iter());
        let runs = [Run { units: 1, position: Position { micros: 1, remainder: 0 } }; 64];
        let refund = Refund::of(&runs);
        for operation in [
            Operation::Check,
            Operation::Refund(refund),
            Operation::Refund(refund.if_newest()),
            Operation::Force,
            Operation::Reset,
        ] {
            let mut arguments = arguments(operation, Timestamp::EPOCH, [(policy.strategy(), 1)].into_iter());
            arguments[4..].fill(largest.clone());
            // Whatever the reply, the server must survive and the key must be small.
            let _ = store.0.connection.call(script, vec![name(&policy)], arguments).await;
            let length: usize = server.cli(&["STRLEN", &name(&policy)]).trim().parse().unwrap();
            assert!(length <= 2_000_000, "{length} bytes under {}", policy.name());
        }
        store.reset(&policy, key(&["ada"])).await.unwrap();
        assert!(store.check(Checks::one(policy, key(&["ada"]), 1)).await.unwrap().is_allowed());
    }
}
