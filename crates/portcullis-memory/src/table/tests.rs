use portcullis_core::{Policy, Quota};

use super::*;

const BYTES: usize = 1 << 20;

fn table(keys: usize) -> Table {
    Table::new(Bounds { keys, bytes: BYTES, tables: 1, used: None })
}

fn gcra() -> Strategy {
    *Policy::gcra("a", Quota::per_second(1)).strategy()
}

fn charge(table: &mut Table, slot: Slot, strategy: &Strategy, at: u64) {
    let now = Timestamp::from_micros(at);
    table.change(slot, strategy, now, 1, |state| {
        strategy.charge(state, now, 1);
        true
    });
}

fn is_own(table: &mut Table, id: u128, at: u64) -> bool {
    table.slot(id, &gcra(), Timestamp::from_micros(at)) == Slot::Own(id)
}

#[test]
fn a_full_table_drops_expired_entries() {
    let mut table = table(2);
    for id in [1, 2] {
        assert!(is_own(&mut table, id, 0));
        charge(&mut table, Slot::Own(id), &gcra(), 0);
        table.end_decision();
    }
    assert!(!is_own(&mut table, 3, 999_999));
    assert!(is_own(&mut table, 1, 999_999));
    assert!(is_own(&mut table, 3, 1_000_000));
    assert_eq!(table.stats().entries, 0);
}

#[test]
fn the_sweep_reaches_every_entry() {
    let mut table = table(1_000);
    for number in 0..100 {
        let at = if number % 2 == 0 { 0 } else { 5_000_000 };
        charge(&mut table, Slot::Own(number), &gcra(), at);
        charge(&mut table, Slot::Overflow(usize::try_from(number).unwrap()), &gcra(), at);
    }
    assert_eq!((table.stats().entries, table.stats().overflow_states), (100, 100));
    for _ in 0..100 {
        table.sweep(Timestamp::from_micros(2_000_000), 2);
    }
    assert_eq!((table.stats().entries, table.stats().overflow_states), (50, 50));
    assert!(table.get(Slot::Own(1)).is_some() && table.get(Slot::Own(2)).is_none());
    assert!(table.get(Slot::Overflow(1)).is_some() && table.get(Slot::Overflow(2)).is_none());
}

#[test]
fn a_state_changed_to_none_removes_its_entry() {
    let strategy = gcra();
    for slot in [Slot::Own(1), Slot::Overflow(1)] {
        let mut table = table(2);
        charge(&mut table, slot, &strategy, 0);
        table.change(slot, &strategy, Timestamp::EPOCH, 0, |_| false);
        assert!(table.get(slot).is_some(), "nothing has changed");
        table.change(slot, &strategy, Timestamp::EPOCH, 0, |state| state.take().is_some());
        assert_eq!((table.stats().entries, table.stats().overflow_states), (0, 0));
    }
}

#[test]
fn a_reservation_ends_with_its_decision() {
    let mut table = table(2);
    assert!(is_own(&mut table, 1, 0) && is_own(&mut table, 2, 0));
    assert!(!is_own(&mut table, 3, 0));
    table.end_decision();
    assert!(is_own(&mut table, 3, 0));
}

#[test]
fn bytes_are_freed_however_a_state_is_removed() {
    let log = *Policy::sliding_log("log", Quota::per_second(1_000)).strategy();
    let used = Arc::new(BytesUsed::default());
    let mut table = Table::new(Bounds { keys: 100, bytes: BYTES, tables: 1, used: Some(Arc::clone(&used)) });
    for id in 0..10 {
        let slot = table.slot(id, &log, Timestamp::EPOCH);
        (0..100).for_each(|micros| charge(&mut table, slot, &log, micros));
        table.end_decision();
    }
    assert_eq!(used.get(), 10 * (ENTRY_BYTES + 16 * 128));
    table.remove(0);
    table.change(Slot::Own(1), &log, Timestamp::EPOCH, 0, |state| state.take().is_some());
    assert_eq!(used.get(), 8 * (ENTRY_BYTES + 16 * 128));
    table.sweep(Timestamp::from_micros(2_000_000), 100);
    assert_eq!(used.get(), 0);
    // What a decision has reserved and does not use.
    assert_eq!(table.slot(1, &log, Timestamp::EPOCH), Slot::Own(1));
    assert!(used.get() > 0);
    table.end_decision();
    assert_eq!(used.get(), 0);
}

#[test]
fn a_log_without_room_is_compacted_and_keeps_its_units() {
    let log = *Policy::sliding_log("log", Quota::per_second(1_000)).strategy();
    let used = Arc::new(BytesUsed::default());
    let bounds = Bounds { keys: 100, bytes: 8_192, tables: 1, used: Some(Arc::clone(&used)) };
    let max = Division::of(bounds.bytes, &log);
    let mut table = Table::new(bounds);
    for slot in [Slot::Own(1), Slot::Overflow(0)] {
        (0..1_000).for_each(|micros| charge(&mut table, slot, &log, micros));
        let snapshot = log.snapshot(table.get(slot), Timestamp::from_micros(1_000), 1, false);
        assert_eq!(snapshot.remaining, 0, "all units count");
    }
    assert!(used.get() <= max.own, "{} of {max:?}", used.get());
    assert!(table.stats().overflow_bytes <= ENTRY_BYTES + max.overflow_heap, "{:?}", table.stats());
}
