//! Foreign or malformed values in place of the state of a key, in a real server.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use portcullis_core::store::{Checks, Outcome, Store};
use portcullis_core::{
    Clock, Concurrency, Key, Policy, Quota, Receipt, Refill, Secret, SlidingWindow, Strategy, Timestamp,
    TokenBucket,
};
use portcullis_redis::RedisStore;
use tokio::runtime::Runtime;

use crate::sane;
use crate::server::{Reply, Server, name_of, number};

/// Checks the properties of any value under a key. The first byte selects the policy and the first call, the second the type
/// of the value, and the rest is the value.
///
/// Every answer has consistent figures, a client is admitted no more often than without the value, and written keys expire.
pub fn stored_state(input: &[u8]) {
    static SUBJECT: Mutex<Option<StoredStateUnderTest>> = Mutex::new(None);
    let [selector, kind, value @ ..] = input else { return };
    if value.len() > MAX_VALUE {
        return;
    }
    // Ignores poisoning: each run starts with an empty server.
    let mut subject = SUBJECT.lock().unwrap_or_else(PoisonError::into_inner);
    let subject = subject.get_or_insert_with(StoredStateUnderTest::new);
    let policies = policies();
    let policy = &policies[usize::from(selector % 16) % policies.len()];
    subject.limits(policy, selector >> 4, *kind, value);
}

/// A store whose clock does not advance, and its server.
struct StoredStateUnderTest {
    server: Server,
    runtime: Runtime,
    store: RedisStore,
    key: Key,
}

struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        sane::PRESENT
    }
}

impl StoredStateUnderTest {
    fn new() -> Self {
        let server = Server::start();
        let (runtime, store) = server.store(StoppedClock);
        let mut hasher = Secret::published().hasher();
        hasher.writer().part("user", b"ada");
        let key = hasher.finish().expect("a short key");
        Self { server, runtime, store, key }
    }

    fn limits(&mut self, policy: &Policy, first: u8, kind: u8, value: &[u8]) {
        // Serial numbers that end are in the tests of core.
        if matches!(policy.strategy(), Strategy::InFlight(_))
            && let Some(serial) = value.get(8..).and_then(<[u8]>::first_chunk::<8>)
            && f64::from_be_bytes(*serial) > LAST_SERIAL
        {
            return;
        }
        let limit = policy.strategy().limit();
        let name = self.name(policy);
        self.server.call(&[vec![b"FLUSHALL"]]);
        let receipt = if first % 4 < 2 { self.check(policy, 2).into_receipts().next() } else { None };
        let put = self.server.call(&put(&name, kind, value));
        assert!(!put.iter().any(|reply| matches!(reply, Reply::Error(_))), "{put:?}");

        match (first % 4, receipt) {
            (0, Some(receipt)) => self.refund(policy, receipt),
            (1, Some(receipt)) => self.settle(policy, receipt, value.len()),
            (2, _) => {
                self.runtime.block_on(self.store.reset(policy, self.key)).expect("a key can be reset");
                assert_eq!(self.check(policy, 0).decision().remaining(), limit);
            }
            _ => {}
        }
        let left = self.check(policy, 0).decision().remaining();
        for count in 1..=left {
            assert_eq!(self.check(policy, 1).decision().remaining(), left - count);
        }
        if left > 0 {
            self.is_repaired(&name);
        }
        let denied = self.check(policy, 1);
        assert!(!denied.is_allowed(), "{denied:?}");
        assert!(!self.check(policy, limit).is_allowed());
        assert!(self.check(policy, 0).is_allowed());
    }

    fn check(&self, policy: &Policy, cost: u64) -> Outcome {
        let checks = Checks::one(policy.clone(), self.key, cost);
        let outcome = self.runtime.block_on(self.store.check(checks)).expect("the value is repaired");
        sane::decision(outcome.decision(), policy, cost);
        outcome
    }

    /// A refund frees at most what was charged.
    fn refund(&self, policy: &Policy, receipt: Receipt) {
        let (cost, before) = (receipt.cost(), self.check(policy, 0).decision().remaining());
        let decision = self.runtime.block_on(self.store.refund(receipt)).expect("the value is repaired");
        sane::decision(&decision, policy, 0);
        let after = decision.remaining();
        assert!(after >= before && after - before <= cost, "{before} {after}");
    }

    fn settle(&self, policy: &Policy, receipt: Receipt, more: usize) {
        let (more, before) =
            (u64::try_from(more).unwrap_or(u64::MAX), self.check(policy, 0).decision().remaining());
        let cost = receipt.cost() + more;
        let settlement =
            self.runtime.block_on(self.store.settle(receipt, cost)).expect("the value is repaired");
        sane::decision(&settlement.decision, policy, 0);
        let charged = more - settlement.uncharged;
        assert_eq!(settlement.decision.remaining(), before.saturating_sub(charged));
    }

    /// The value is a string that expires.
    fn is_repaired(&mut self, name: &[u8]) {
        let replies = self.server.call(&[vec![b"TYPE", name], vec![b"PTTL", name]]);
        assert_eq!(replies[0], Reply::SimpleString(b"string".to_vec()));
        assert!(number(&replies[1]) > 0, "{replies:?}");
    }

    fn name(&self, policy: &Policy) -> Vec<u8> {
        let (tag, structure) = (policy.strategy().tag(), policy.strategy().structure());
        let dot = if structure.is_empty() { "" } else { "." };
        name_of(policy, self.key, &format!("{tag}{dot}{structure}"))
    }
}

/// The commands that write a value of this kind under a name: they replace the old value, or append to it.
fn put<'a>(name: &'a [u8], kind: u8, value: &'a [u8]) -> Vec<Vec<&'a [u8]>> {
    let put: Vec<&[u8]> = match kind % 8 {
        1 => vec![b"RPUSH", name, value],
        2 => vec![b"SADD", name, value],
        3 => vec![b"HSET", name, b"state", value],
        4 => vec![b"ZADD", name, b"1", value],
        5 => vec![b"XADD", name, b"*", b"state", value],
        6 => vec![b"SETEX", name, b"600", value],
        7 => return vec![vec![b"APPEND", name, value]],
        _ => vec![b"SET", name, value],
    };
    vec![vec![b"DEL", name], put]
}

/// One policy of each kind, with rates that leave remainders, and low limits.
fn policies() -> [Policy; 11] {
    let quota = Quota::new(3, Duration::from_secs(10), None).expect("a quota");
    let interval = TokenBucket::new(quota.burst(4)).expect("a bucket").refilled(Refill::Interval);
    let slots = |slots| {
        let window =
            SlidingWindow::with_slots(Quota::per_minute(4), slots).expect("slots that divide a minute");
        Policy::literal("slots", Strategy::SlidingWindow(window))
    };
    [
        Policy::gcra("p", quota.burst(4)),
        Policy::token_bucket("p", quota),
        Policy::literal("interval", Strategy::TokenBucket(interval)),
        Policy::leaky_bucket("p", quota),
        Policy::fixed_window("p", quota),
        Policy::sliding_window("p", quota),
        slots(3),
        slots(60),
        Policy::sliding_log("p", quota),
        Policy::sliding_log("many", Quota::per_hour(5)),
        Concurrency::new("permits", 3).policy(),
    ]
}

/// 2^52; they end at 2^53.
const LAST_SERIAL: f64 = 4_503_599_627_370_496.0;
/// Several blocks of a log.
const MAX_VALUE: usize = 4_096;
