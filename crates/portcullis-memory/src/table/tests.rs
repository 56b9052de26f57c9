use std::collections::HashMap;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};

use proptest::prelude::*;

use super::*;

impl Value for () {
    type Align = ();
}

impl Value for u8 {
    type Align = ();
}

impl Value for u32 {
    type Align = ();
}

impl Value for i32 {
    type Align = ();
}

impl Value for u64 {
    type Align = ();
}

impl Value for [u64; 2] {
    type Align = Align32;
}

#[test]
fn a_bucket_of_32_bytes_lies_in_one_cache_line() {
    assert_eq!((size_of::<Bucket<[u64; 2]>>(), align_of::<Bucket<[u64; 2]>>()), (32, 32));
    assert_eq!((size_of::<Bucket<u64>>(), align_of::<Bucket<u64>>()), (24, 8));
}

/// Few ids, whose homes lie close together: many probes, and clusters that wrap around.
fn ids() -> impl Strategy<Value = u128> {
    (0_u128..4, 0_u128..12).prop_map(|(home, number)| home * u128::from(u64::MAX / 3) + (number << 64))
}

/// Every third entry expires at 5, the others later.
fn expires_at(number: u32) -> u64 {
    if number.is_multiple_of(3) { 5 } else { 6 + u64::from(number) }
}

/// A table in which the homes of ids are in the order of the ids.
fn ordered<V: Value>(capacity: usize) -> Table<V> {
    Table { multiplier: 1, ..Table::new(capacity) }
}

proptest! {
    #[test]
    fn a_table_is_a_map(changes in proptest::collection::vec((ids(), 0_u8..4), 1..300)) {
        let mut table = ordered(1_000);
        let mut map = HashMap::new();
        for (number, (id, change)) in (0_u32..).zip(changes) {
            if change == 0 {
                prop_assert_eq!(table.remove(id), map.remove(&id));
            } else if let Some(value) = table.get_mut(id) {
                *value = number;
                map.insert(id, number);
            } else {
                table.insert(id, number, 0);
                prop_assert_eq!(map.insert(id, number), None);
            }
            prop_assert_eq!(table.len(), map.len());
            for (id, value) in &map {
                prop_assert_eq!(table.get(*id), Some(value));
            }
        }
    }

    #[test]
    fn a_sweep_drops_exactly_what_has_expired(
        ids in proptest::collection::hash_set(ids(), 0..48), count in 1_usize..5
    ) {
        let mut table = ordered(1_000);
        for (number, id) in (0_u32..).zip(&ids) {
            table.insert(*id, number, expires_at(number));
        }
        let mut dropped = 0;
        for _ in 0..100 {
            table.sweep(5, count, |number| expires_at(*number), |_| dropped += 1);
        }
        prop_assert_eq!(dropped + table.len(), ids.len());
        for (number, id) in (0_u32..).zip(&ids) {
            prop_assert_eq!(table.get(*id), (!number.is_multiple_of(3)).then_some(&number));
        }
    }

    #[test]
    fn no_entry_expires_before_the_instant_that_a_table_knows(
        changes in proptest::collection::vec((ids(), 0_u8..5, 0_u64..40, 1_usize..6), 1..300)
    ) {
        let mut table = ordered(1_000);
        for (now, (id, change, lasts, count)) in (0_u64..).zip(changes) {
            let expires_at = now + lasts;
            match (change, table.find(id)) {
                (0, _) => {
                    table.remove(id);
                }
                (1, _) => table.sweep(now, count, |at| *at, |at| assert!(at <= now)),
                (_, Some(index)) => table.replace(index, expires_at, expires_at),
                (_, None) => table.insert(id, expires_at, expires_at),
            }
            for Bucket { id, value, .. } in &table.buckets {
                prop_assert!(*id == VACANT || *value >= table.earliest);
            }
        }
        // Whatever was charged until then, a few passes drop all of it.
        for _ in 0..2_000 {
            table.sweep(1_000, 1, |at| *at, drop);
        }
        prop_assert_eq!(table.len(), 0);
    }
}

#[test]
fn a_table_in_which_nothing_can_have_expired_is_not_walked() {
    let mut table = Table::new(100);
    for id in 0..50_u128 {
        table.insert(id, (), 9);
    }
    let inspected = std::cell::Cell::new(0);
    let later = |(): &()| {
        inspected.set(inspected.get() + 1);
        20
    };
    table.sweep(8, 10, later, drop);
    assert_eq!(inspected.get(), 0);
    // One pass finds that all entries were kept longer.
    for _ in 0..100 {
        table.sweep(19, 10, later, drop);
    }
    assert_eq!(inspected.get(), 50);
    table.sweep(20, 10, later, drop);
    assert_eq!(table.len(), 40);
}

#[test]
fn a_full_table_has_a_fifth_of_vacant_buckets() {
    let mut table = Table::new(1_000);
    for number in 0..1_000_u128 {
        table.insert(number.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835), 0_u8, 0);
        assert!(table.buckets.len() * 4 >= table.len() * 5);
        assert!(table.len() < 16 || table.buckets.len() * 64 <= table.len() * 105, "{table:?}");
    }
    assert_eq!(table.buckets.len(), 1_250);
}

#[test]
fn ids_that_begin_with_the_same_bits_have_homes_far_apart() {
    let mut table = Table::new(10_000);
    // What a client may find by trial that knows the key of the fingerprints.
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let ids: Vec<u128> = (0..10_000).map(|number: u32| u128::from(hasher.hash_one(number) >> 24)).collect();
    for id in &ids {
        table.insert(*id, (), 0);
    }
    let probes = |id: &u128| table.distance(table.home(halves(*id)), table.find(*id).unwrap());
    assert!(ids.iter().map(probes).sum::<usize>() < 50 * ids.len());
}

#[test]
fn the_id_that_reads_as_vacant_is_found() {
    let mut table = Table::new(10);
    table.insert(u128::MAX, 7, 0);
    assert_eq!((table.get(u128::MAX), table.len()), (Some(&7), 1));
    assert_eq!((table.remove(u128::MAX), table.len()), (Some(7), 0));
}
