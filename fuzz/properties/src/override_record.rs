//! Any bytes as the record of an override.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use portcullis_core::overrides::{Effect, LockOut, MAX_LENGTH, Override};
use portcullis_core::store::{Checks, Store as _};
use portcullis_core::{Policy, PolicyName, Quota, Secret, Timestamp};
use portcullis_redis::RedisStore;
use portcullis_testing::ManualClock;
use tokio::runtime::Runtime;

use crate::bytes::Bytes;
use crate::sane;
use crate::server::{Server, name_of};

/// Checks the properties of a record. The first bytes select a strategy and an instant; the rest is the encoding of an override.
///
/// What decodes has one encoding, changes without panicking, and what is left of it decodes to itself. Under a window of ten
/// seconds, Redis decides by the same bytes as core does, and by other bytes without an error.
///
/// # Panics
///
/// If a property does not hold.
pub fn override_record(input: &[u8]) {
    static SUBJECT: Mutex<Option<RecordUnderTest>> = Mutex::new(None);
    let mut bytes = Bytes(input);
    let Some(strategy) = crate::state::strategy(&mut bytes) else { return };
    let now = Timestamp::from_micros(bytes.near(sane::PRESENT.as_micros(), SECOND));
    let encoded = bytes.0;
    let decoded = Override::decode(encoded);
    match decoded {
        Ok(record) => {
            assert_eq!(record.encode(), encoded, "{record:?}");
            assert!(encoded.len() <= MOST_BYTES, "{record:?}");
            for policy in [Policy::new(PolicyName::literal("p"), strategy), window()] {
                has_an_effect(record, &policy.allow_overrides(), now);
            }
            changes(record, now);
        }
        Err(error) => sane::message(&error.to_string()),
    }
    // Ignores poisoning: each run has its own key.
    let mut subject = SUBJECT.lock().unwrap_or_else(PoisonError::into_inner);
    subject.get_or_insert_with(RecordUnderTest::new).decides(now, encoded, decoded.ok());
}

/// Exactly one of a block, a grant and none, for as long as it states.
fn has_an_effect(record: Override, policy: &Policy, now: Timestamp) {
    let effect = record.effect(policy, now);
    match &effect {
        Effect::Blocked(left) => {
            assert!(!left.is_zero() && record.block().is_some_and(|block| *left <= block.length()));
            assert_eq!(record.block_until(now), Some(now.saturating_add(*left)), "{record:?}");
        }
        Effect::Granted(granted, grant) => {
            assert!(granted.is_granted() && grant.left(now).is_some_and(|left| left <= grant.length()));
            sane::policy(granted);
        }
        Effect::None => {}
    }
    let is_blocked = matches!(effect, Effect::Blocked(_));
    assert!(is_blocked || record.block_until(now).is_none(), "{record:?}");

    let mut repaired = record;
    assert_eq!(repaired.repair(now), repaired != record, "{record:?}");
    assert!(!repaired.repair(now), "{record:?}");
    assert_eq!(is_blocked, matches!(repaired.effect(policy, now), Effect::Blocked(_)), "{record:?}");
    assert!(repaired.expires_at() <= now.saturating_add(MAX_LENGTH), "{record:?}");
    let end = now.max(repaired.expires_at());
    assert_eq!(repaired.effect(policy, end), Effect::None, "{record:?}");
    assert_eq!((repaired.denials(end), repaired.strikes(end)), (0, 0), "{record:?}");
}

/// Each change leaves a record that decodes to itself and that needs no repair.
fn changes(record: Override, now: Timestamp) {
    let lock_out = LockOut::after(3).within(MINUTE).block_for(MINUTE).up_to(10 * MINUTE);
    let [mut granted, mut blocked, mut unblocked, mut denied] = [record; 4];
    granted.set_grant(now, Some((Quota::per_second(1), MINUTE)));
    blocked.set_block(now, MINUTE);
    unblocked.unblock();
    unblocked.repair(now);
    let begun = denied.record_denials(now, 3, &lock_out);
    assert_eq!(begun.is_none(), record.block_until(now).is_some(), "{record:?}");
    assert!(begun.is_none_or(|block| block.length() <= 10 * MINUTE), "{record:?}");
    assert!(blocked.block_until(now).is_some() || now == Timestamp::MAX);
    assert!(unblocked.block().is_none());
    for mut changed in [granted, blocked, unblocked, denied] {
        assert_eq!(Override::decode(&changed.encode()).as_ref(), Ok(&changed));
        assert!(!changed.repair(now), "{changed:?}");
    }
}

/// A store whose clock the test sets, and its server.
struct RecordUnderTest {
    server: Server,
    runtime: Runtime,
    store: RedisStore,
    clock: ManualClock,
    runs: u64,
}

impl RecordUnderTest {
    fn new() -> Self {
        let (server, clock) = (Server::start(), ManualClock::default());
        let (runtime, store) = server.store(clock.clone());
        Self { server, runtime, store, clock, runs: 0 }
    }

    fn decides(&mut self, now: Timestamp, encoded: &[u8], decoded: Option<Override>) {
        if now > LATEST || encoded.len() > 2 * MOST_BYTES {
            return;
        }
        self.runs += 1;
        self.clock.set(now);
        self.server.call(&[vec![b"FLUSHALL"]]);
        let mut hasher = Secret::published().hasher();
        hasher.writer().part("run", &self.runs.to_be_bytes());
        let (key, policy) = (hasher.finish().expect("a short key"), window().allow_overrides());
        if !encoded.is_empty() {
            let name = name_of(&policy, key, &format!("{}:override", policy.strategy().tag()));
            self.server.call(&[vec![b"SETEX", &name, b"600", encoded]]);
        }
        let checks = Checks::one(policy.clone(), key, 1);
        let outcome = self.runtime.block_on(self.store.check(checks)).expect("a record is no error");
        let decision = outcome.decision();
        let Some(record) = decoded else { return };
        let (is_blocked, limit) = match record.effect(&policy, now) {
            Effect::Blocked(_) => (true, policy.strategy().limit()),
            Effect::Granted(granted, _) => (false, granted.strategy().limit()),
            Effect::None => (false, policy.strategy().limit()),
        };
        assert_eq!((decision.is_blocked(), decision.limit()), (is_blocked, limit), "{record:?} {decision:?}");
        assert_eq!(decision.is_allowed(), !is_blocked && limit > 0, "{record:?} {decision:?}");
        let kept = self.runtime.block_on(self.store.overrides(&policy, key)).expect("a record is no error");
        assert_eq!(
            matches!(kept.effect(&policy, now), Effect::Blocked(_)),
            is_blocked,
            "{record:?} {kept:?}"
        );
    }
}

fn window() -> Policy {
    Policy::fixed_window("window", Quota::per(3, Duration::from_secs(10)))
}

const SECOND: u64 = 1_000_000;
const MINUTE: Duration = Duration::from_secs(60);
/// The most bytes of an encoding.
const MOST_BYTES: usize = 106;
/// Windows that begin later end after the last instant that Redis keeps.
const LATEST: Timestamp = Timestamp::from_micros(1 << 52);
