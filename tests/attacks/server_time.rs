//! Decisions that keep Redis busy: many sliding windows with many slots, or large logs, charged together.
//!
//! Redis serves one call at a time, so every request of such a layer delays all other users of the server. A decision over
//! 16 sliding windows of 1 000 slots, which no layer may make, takes 16 ms.

use std::time::Duration;

use portcullis::key::{Global, Key};
use portcullis::redis::RedisStore;
use portcullis::store::{Checks, Gcra, SlidingLog, SlidingWindow, Store as _, Strategy};
use portcullis::{LayerError, Limiter, Policy, PolicyExt as _, PolicyName, Quota, Secret};
use portcullis_memory::MemoryStore;
use portcullis_servers::RedisServer;

/// Longer than a reply takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(10);

fn windows(count: usize, slots: u32) -> Vec<Policy> {
    let quota = Quota::per_hour(4_000_000_000);
    policies(count, Strategy::SlidingWindow(SlidingWindow::with_slots(quota, slots).unwrap()))
}

fn logs(count: usize, limit: u64) -> Vec<Policy> {
    policies(count, Strategy::SlidingLog(SlidingLog::new(Quota::per_hour(limit)).unwrap()))
}

fn policies(count: usize, strategy: Strategy) -> Vec<Policy> {
    (0..count).map(|index| Policy::new(PolicyName::new(&format!("p{index}")).unwrap(), strategy)).collect()
}

/// Builds a layer with these policies. Returns the error, if there is one.
fn layer_error(policies: &[Policy]) -> Option<LayerError> {
    let limiter = Limiter::new(MemoryStore::new(), Secret::published());
    let built = limiter.try_layer(policies.iter().map(|policy| policy.clone().by(Global)));
    built.err()?.into_iter().next()
}

fn checks(policies: &[Policy], key: Key) -> Checks {
    let first = Checks::one(policies[0].clone(), key, 1);
    policies[1..].iter().fold(first, |checks, policy| checks.and(policy.clone(), key, 1).unwrap())
}

#[test]
fn a_layer_of_sixteen_1000_slot_windows_is_rejected() {
    let error = layer_error(&windows(16, 1_000)).unwrap();
    assert!(matches!(&error, LayerError::TooMuchWork(work) if work.work() == 2_000), "{error:?}");
    assert_eq!(
        error.to_string(),
        "2000 slots of work in one decision, which may have 1024: policy p0 has 1000, policy p1 has 1000; \
         use fewer slots per sliding window, or lower limits of sliding logs (100 units are a slot)"
    );
    assert_eq!(layer_error(&windows(16, 64)), None, "1 024 slots");
    assert!(layer_error(&windows(16, 80)).is_some());
    assert_eq!(layer_error(&windows(1, 1_000)), None);
}

#[test]
fn a_layer_of_sixteen_logs_of_100_000_units_is_rejected() {
    assert!(matches!(layer_error(&logs(16, 100_000)), Some(LayerError::TooMuchWork(_))));
    assert_eq!(layer_error(&logs(16, 6_400)), None, "1 024 slots");
    assert!(layer_error(&logs(16, 6_401)).is_some());
    assert_eq!(layer_error(&logs(1, 100_000)), None);
}

#[test]
#[should_panic(expected = "policy p0 has 1000, policy p1 has 1000; use fewer slots per sliding window")]
fn a_layer_beyond_the_budget_panics_where_it_is_built() {
    let windows = windows(2, 1_000);
    let limiter = Limiter::new(MemoryStore::new(), Secret::published());
    let _ = limiter.layer(windows[0].clone().by(Global)).and(windows[1].clone());
}

/// The time of a decision grows with its slots, so the attack takes as long as 16 decisions over one window of 1 000 slots.
#[tokio::test]
async fn largest_decisions_take_under_a_third_of_16_large_windows() {
    let server = RedisServer::start().unwrap();
    let store = RedisStore::builder(server.url()).deadline(DEADLINE).connect().await.unwrap();
    let limiter = Limiter::new(store, Secret::published());
    let key = |user: &[u8]| limiter.key(|key| key.part("user", user)).unwrap();

    let gcra = Gcra::new(Quota::per_second(1_000_000).burst(1_000_000)).unwrap();
    let mixed = [windows(1, 1_000), policies(16, Strategy::Gcra(gcra)).split_off(1)].concat();
    let decisions = [windows(1, 1_000), windows(16, 64), mixed];
    let keys = [key(b"one"), key(b"sixteen"), key(b"one")];
    for (policies, key) in decisions[..2].iter().zip(keys) {
        assert!(limiter.store().check(checks(policies, key)).await.unwrap().is_allowed());
    }
    charge_every_slot(&server);
    let mut micros = [f64::MAX; 3];
    for _ in 0..ROUNDS {
        for ((policies, key), least) in decisions.iter().zip(keys).zip(&mut micros) {
            server.cli(&["CONFIG", "RESETSTAT"]).unwrap();
            for _ in 0..CALLS {
                assert!(limiter.store().check(checks(policies, key)).await.unwrap().is_allowed());
            }
            *least = least.min(micros_per_call(&server));
        }
    }
    let [one, sixteen, mixed] = micros;
    let attack = 16.0 * one;
    assert!(sixteen < attack / 3.0 && mixed < attack / 3.0, "{sixteen} and {mixed} of {attack} us");
}

/// Extends the states of new sliding windows to all slots: charges would take a whole period to reach every slot. The key by which
/// the connection was tried may exist as well.
fn charge_every_slot(server: &RedisServer) {
    let keys = server.cli(&["KEYS", "*:sliding_window.*"]).unwrap();
    assert!(keys.lines().count() >= 17, "one window with 1 000 slots, and 16 with 64:\n{keys}");
    for key in keys.lines() {
        assert_eq!(server.cli(&["EVAL", CHARGE_EVERY_SLOT, "1", key]).unwrap().trim(), "OK");
    }
}

/// Server time per script call since the statistics were reset.
fn micros_per_call(server: &RedisServer) -> f64 {
    let info = server.cli(&["INFO", "commandstats"]).unwrap();
    let line = info.lines().find(|line| line.starts_with("cmdstat_evalsha:")).unwrap();
    let (_, rest) = line.split_once("usec_per_call=").unwrap();
    rest.split(',').next().unwrap().trim().parse().unwrap()
}

/// The state has three numbers, of which the last is the number of slots, the length of a count in bytes, and the counts.
const CHARGE_EVERY_SLOT: &str = "
local finish, width, slots = struct.unpack('<ddd', redis.call('GET', KEYS[1]))
local counts = string.rep(struct.pack('<I3', 1234567), slots + 1)
local state = struct.pack('<dddB', finish, width, slots, 3) .. counts
return redis.call('SET', KEYS[1], state, 'KEEPTTL')";
const ROUNDS: u32 = 5;
const CALLS: u32 = 20;
