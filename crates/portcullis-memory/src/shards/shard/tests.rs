use portcullis_core::algorithm::Tat;
use portcullis_core::{Policy, PolicyName, Quota};

use super::*;

const BYTES: usize = 1 << 20;

impl Shard {
    fn stats(&self) -> MemoryPolicyStats {
        let mut stats = MemoryPolicyStats {
            policy: PolicyName::literal("a"),
            entries: 0,
            bytes: 0,
            overflow_states: 0,
            overflowed_checks: 0,
            overrides: 0,
        };
        self.add_to(&mut stats);
        stats
    }
}

fn shard(keys: usize) -> Shard {
    Shard::new(&gcra(), Bounds { keys, bytes: BYTES, shards: 1, used: None }, &Unlocked::new())
}

fn gcra() -> Strategy {
    *Policy::gcra("a", Quota::per_second(1)).strategy()
}

fn state(shard: &Shard, entry: EntryId) -> Option<State> {
    match shard.access(entry) {
        Access::Copied(state) => state,
        Access::InPlace => shard.get(entry).cloned(),
    }
}

/// Changes a state as a call does: on a copy or in place.
fn apply(
    shard: &mut Shard,
    entry: EntryId,
    strategy: &Strategy,
    now: Timestamp,
    f: impl FnOnce(&mut Option<State>) -> bool,
) {
    match shard.access(entry) {
        Access::Copied(mut state) => {
            if f(&mut state) {
                shard.replace(entry, strategy, state.as_ref());
            }
        }
        Access::InPlace => shard.apply(entry, strategy, now, 1, f),
    }
}

fn charge(shard: &mut Shard, entry: EntryId, strategy: &Strategy, at: u64) {
    let now = Timestamp::from_micros(at);
    apply(shard, entry, strategy, now, |state| {
        strategy.charge(state, now, 1);
        true
    });
}

fn is_own(shard: &mut Shard, id: u128, at: u64) -> bool {
    shard.find_or_reserve(id, &gcra(), Timestamp::from_micros(at)) == EntryId::Own(id)
}

#[test]
fn a_full_shard_drops_expired_entries() {
    let mut shard = shard(2);
    for id in [1, 2] {
        assert!(is_own(&mut shard, id, 0));
        charge(&mut shard, EntryId::Own(id), &gcra(), 0);
        shard.end_decision();
    }
    assert!(!is_own(&mut shard, 3, 999_999));
    assert!(is_own(&mut shard, 1, 999_999));
    assert!(is_own(&mut shard, 3, 1_000_000));
    assert_eq!(shard.stats().entries, 0);
}

#[test]
fn the_sweep_reaches_every_entry() {
    let mut shard = shard(1_000);
    for number in 0..100 {
        let at = if number % 2 == 0 { 0 } else { 5_000_000 };
        charge(&mut shard, EntryId::Own(number), &gcra(), at);
        charge(&mut shard, EntryId::Overflow(usize::try_from(number).unwrap()), &gcra(), at);
    }
    assert_eq!((shard.stats().entries, shard.stats().overflow_states), (100, 100));
    for _ in 0..100 {
        shard.sweep(&gcra(), Timestamp::from_micros(2_000_000), 2);
    }
    assert_eq!((shard.stats().entries, shard.stats().overflow_states), (50, 50));
    assert!(state(&shard, EntryId::Own(1)).is_some() && state(&shard, EntryId::Own(2)).is_none());
    assert!(state(&shard, EntryId::Overflow(1)).is_some() && state(&shard, EntryId::Overflow(2)).is_none());
}

#[test]
fn a_state_changed_to_none_removes_its_entry() {
    let strategy = gcra();
    for entry in [EntryId::Own(1), EntryId::Overflow(1)] {
        let mut shard = shard(2);
        charge(&mut shard, entry, &strategy, 0);
        apply(&mut shard, entry, &strategy, Timestamp::EPOCH, |_| false);
        assert!(state(&shard, entry).is_some(), "nothing has changed");
        apply(&mut shard, entry, &strategy, Timestamp::EPOCH, |state| state.take().is_some());
        assert_eq!((shard.stats().entries, shard.stats().overflow_states), (0, 0));
    }
}

#[test]
fn a_reservation_ends_with_its_decision() {
    let mut shard = shard(2);
    assert!(is_own(&mut shard, 1, 0) && is_own(&mut shard, 2, 0));
    assert!(!is_own(&mut shard, 3, 0));
    shard.end_decision();
    assert!(is_own(&mut shard, 3, 0));
}

#[test]
fn bytes_are_freed_however_a_state_is_removed() {
    let log = *Policy::sliding_log("log", Quota::per_second(1_000)).strategy();
    let used = Arc::new(BytesUsed::default());
    let bounds = Bounds { keys: 100, bytes: BYTES, shards: 1, used: Some(Arc::clone(&used)) };
    let mut shard = Shard::new(&log, bounds, &Unlocked::new());
    for id in 0..10 {
        let entry = shard.find_or_reserve(id, &log, Timestamp::EPOCH);
        (0..100).for_each(|micros| charge(&mut shard, entry, &log, micros));
        shard.end_decision();
    }
    assert_eq!(used.get(), 10 * (ENTRY_BYTES + 20 * 128));
    shard.remove(0);
    shard.apply(EntryId::Own(1), &log, Timestamp::EPOCH, 0, |state| state.take().is_some());
    assert_eq!(used.get(), 8 * (ENTRY_BYTES + 20 * 128));
    shard.sweep(&log, Timestamp::from_micros(2_000_000), 100);
    assert_eq!(used.get(), 0);
    // What a decision has reserved and does not use.
    assert_eq!(shard.find_or_reserve(1, &log, Timestamp::EPOCH), EntryId::Own(1));
    assert!(used.get() > 0);
    shard.end_decision();
    assert_eq!(used.get(), 0);
}

#[test]
fn a_log_without_room_is_compacted_and_keeps_its_units() {
    let log = *Policy::sliding_log("log", Quota::per_second(1_000)).strategy();
    let used = Arc::new(BytesUsed::default());
    let bounds = Bounds { keys: 100, bytes: 8_192, shards: 1, used: Some(Arc::clone(&used)) };
    let max = Division::of(bounds.bytes, &log);
    let mut shard = Shard::new(&log, bounds, &Unlocked::new());
    for entry in [EntryId::Own(1), EntryId::Overflow(0)] {
        (0..1_000).for_each(|micros| charge(&mut shard, entry, &log, micros));
        let snapshot = log.snapshot(shard.get(entry), Timestamp::from_micros(1_000), 1, false);
        assert_eq!(snapshot.remaining, 0, "all units count");
    }
    assert!(used.get() <= max.own, "{} of {max:?}", used.get());
    assert!(shard.stats().bytes <= ENTRY_BYTES + max.overflow_heap, "{:?}", shard.stats());
}

#[test]
fn first_quota_with_remainders_widens_levels() {
    let (whole, thirds) = (gcra(), *Policy::gcra("a", Quota::per_second(3)).strategy());
    let Strategy::Gcra(algorithm) = &thirds else { panic!("it is made as one") };
    let mut shard = shard(10);
    let [one, other] = [1, 2].map(EntryId::Own);
    for entry in [one, other] {
        charge(&mut shard, entry, &whole, 5);
    }
    let (before, now) = (state(&shard, other), Timestamp::from_micros(2_000_000));
    // There is no room for the remainder, and nothing is changed.
    assert_eq!(shard.decide(1, (&thirds, algorithm), now, 1), None);
    assert_eq!((&state(&shard, one), &state(&shard, other)), (&before, &before));
    assert!(matches!(shard.table, StateTable::WholeLevels(_)));
    shard.locate(1, &thirds, now);
    assert!(matches!(shard.table, StateTable::Levels(_)));
    assert_eq!((&state(&shard, one), &state(&shard, other)), (&before, &before));
    let after = Tat { micros: 2_333_333, remainder: 1 };
    assert_eq!(shard.decide(1, (&thirds, algorithm), now, 1), Some((true, Some(after))));
    assert_eq!(state(&shard, one), Some(State::Tat(after)));
}
