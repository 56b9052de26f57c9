use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};

use proptest::prelude::*;

use super::*;

/// Few ids, whose homes lie close together: many probes, and clusters that wrap around.
fn ids() -> impl Strategy<Value = u128> {
    (0_u128..4, 0_u128..12).prop_map(|(home, number)| home * u128::from(u64::MAX / 3) + (number << 64))
}

/// A table in which the homes of ids are in the order of the ids.
fn ordered(capacity: usize) -> Table<u32> {
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
                table.insert(id, number);
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
            table.insert(*id, number);
        }
        for _ in 0..100 {
            table.sweep(count, |number| number.is_multiple_of(3));
        }
        for (number, id) in (0_u32..).zip(&ids) {
            prop_assert_eq!(table.get(*id), (!number.is_multiple_of(3)).then_some(&number));
        }
    }
}

#[test]
fn a_full_table_has_a_fifth_of_vacant_buckets() {
    let mut table = Table::new(1_000);
    for number in 0..1_000_u128 {
        table.insert(number.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835), 0_u8);
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
        table.insert(*id, ());
    }
    let probes = |id: &u128| table.distance(table.home(halves(*id)), table.find(*id).unwrap());
    assert!(ids.iter().map(probes).sum::<usize>() < 50 * ids.len());
}

#[test]
fn the_id_that_reads_as_vacant_is_found() {
    let mut table = Table::new(10);
    table.insert(u128::MAX, 7);
    assert_eq!((table.get(u128::MAX), table.len()), (Some(&7), 1));
    assert_eq!((table.remove(u128::MAX), table.len()), (Some(7), 0));
}
