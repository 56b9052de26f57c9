//! What a script is sent.

use fred::types::Value;
use portcullis_core::{Check, Checks, Quota, Store as _, Timestamp};

use super::{Server, key, name, open, policies};
use crate::wire::{Operation, arguments};

#[tokio::test]
async fn arguments_that_the_store_never_sends_are_refused_before_anything_is_written() {
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
async fn the_largest_arguments_make_no_long_value() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let largest: Value = "9007199254740991".into();
    for policy in policies(Quota::per_minute(5)) {
        let script = store.0.scripts.for_strategies([policy.strategy()].into_iter());
        for operation in [Operation::Check, Operation::Force, Operation::Reset] {
            let mut arguments = arguments(operation, Timestamp::EPOCH, [(policy.strategy(), 1)].into_iter());
            arguments[4..].fill(largest.clone());
            // Whatever it says, the server lives and the key is small.
            let _ = store.0.connection.call(script, vec![name(&policy)], arguments).await;
            let length: usize = server.cli(&["STRLEN", &name(&policy)]).trim().parse().unwrap();
            assert!(length <= 2_000_000, "{length} bytes under {}", policy.name());
        }
        store.reset(&policy, key(&["ada"])).await.unwrap();
        assert!(store.check(Checks::one(policy, key(&["ada"]), 1)).await.unwrap().is_allowed());
    }
}
