//! Bytes per key in the memory store.

use std::time::Duration;

use portcullis_bench::server::key;
use portcullis_core::store::{Checks, Store as _};
use portcullis_core::{Policy, Strategy, Timestamp};
use portcullis_memory::MemoryStore;
use portcullis_testing::ManualClock;

use crate::contenders::{CONTENDERS, Contender, PERIOD};

/// Bytes per key under each contender: after the key's first request, then with its whole limit used, at each limit.
pub(crate) fn measure() -> Vec<[f64; 4]> {
    CONTENDERS.iter().map(|contender| SITUATIONS.map(|situation| per_key(situation, contender))).collect()
}

/// What is charged to every key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation {
    pub(crate) limit: u32,
    pub(crate) units: u32,
    /// Fewer where each key takes much.
    pub(crate) keys: u32,
}

pub(crate) const SITUATIONS: [Situation; 4] = [
    Situation { limit: 100, units: 1, keys: 100_000 },
    Situation { limit: 100, units: 100, keys: 100_000 },
    Situation { limit: 1_000, units: 1_000, keys: 10_000 },
    Situation { limit: 10_000, units: 10_000, keys: 1_000 },
];

/// The bytes that are allocated at the end, by the store with all its content.
pub(crate) fn per_key(situation: Situation, contender: &Contender) -> f64 {
    let strategy = contender.strategy(situation.limit, PERIOD);
    let policy = Policy::literal("p", strategy);
    let mut store = None;
    let allocated = allocation_counter::measure(|| {
        let clock = ManualClock::new(Timestamp::from_micros(1_800_000_000_000_000));
        let builder = MemoryStore::builder().clock(clock.clone()).swept_per_check(0);
        let store = store.insert(builder.bytes(PLENTY).total_bytes(PLENTY).build());
        for user in 0..situation.keys {
            let key = key(user);
            for cost in costs(&strategy, situation.units) {
                clock.advance(TICK);
                let outcome = store.check(Checks::one(policy.clone(), key, cost)).into_ready();
                assert!(matches!(outcome, Ok(Ok(outcome)) if outcome.is_allowed()), "all fit");
            }
        }
    });
    allocated.bytes_current as f64 / f64::from(situation.keys)
}

/// More than is needed, so that every key has its own state.
const PLENTY: usize = 1 << 40;

/// The time between two charges. A sliding log stores equal instants once; here all instants differ.
const TICK: Duration = Duration::from_micros(1);

/// Single units for a sliding log, which stores each charge; one charge for the others, where it makes no difference.
fn costs(strategy: &Strategy, units: u32) -> impl Iterator<Item = u64> {
    let units = strategy.limit().min(units.into());
    let (times, cost) = if matches!(strategy, Strategy::SlidingLog(_)) { (units, 1) } else { (1, units) };
    std::iter::repeat_n(cost, times as usize)
}
