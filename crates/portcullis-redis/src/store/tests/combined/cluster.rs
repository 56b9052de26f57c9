//! Calls in a cluster, where the keys of a call are in one slot.

use std::collections::BTreeSet;

use portcullis_core::Key;
use portcullis_core::store::{Outcome, Store as _};
use portcullis_servers::{RedisCluster, SlotMigration};

use super::{ALONE, DEADLINE, MONTHLY, RedisStore, all, ask, key, of, patient, user};
use crate::protocol::keys::slot;

async fn open(cluster: &RedisCluster) -> RedisStore {
    patient(cluster.url()).deadline(DEADLINE).connect().await.unwrap()
}

fn calls(cluster: &RedisCluster) -> u64 {
    cluster.nodes().iter().map(|node| node.calls("evalsha").unwrap()).sum()
}

/// Different keys of one slot.
fn in_one_slot() -> Vec<Key> {
    let keys: Vec<_> = (0..60).map(|number| key(&["ada", &number.to_string()])).collect();
    assert!(keys.iter().all(|key| slot(*key) == slot(keys[0])));
    keys
}

/// Charges each key once. Returns the calls for that.
async fn charge(cluster: &RedisCluster, store: &RedisStore, keys: &[Key], left: u64) -> u64 {
    let before = calls(cluster);
    let outcomes = all(keys.iter().map(|key| ask(store, of(&MONTHLY, *key, 1))).collect()).await;
    assert!(outcomes.iter().all(Outcome::is_allowed));
    for key in keys {
        let peek = store.check(of(&MONTHLY, *key, 0)).await.unwrap();
        assert_eq!(peek.decision().remaining(), left);
    }
    // One for each peek.
    calls(cluster) - before - u64::try_from(keys.len()).unwrap()
}

#[tokio::test]
async fn only_decisions_of_one_slot_share_a_call() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let store = open(&cluster).await;
    // The first calls load the script.
    let users: Vec<_> = (0..60).map(user).collect();
    let _ = charge(&cluster, &store, &users, 999).await;
    let slots: BTreeSet<u16> = users.iter().map(|user| slot(*user)).collect();
    let made = charge(&cluster, &store, &users, 998).await;
    assert!(made >= u64::try_from(slots.len()).unwrap(), "{made} calls for {} slots", slots.len());
    assert_eq!(charge(&cluster, &store, &in_one_slot(), 999).await, 3);
}

#[tokio::test]
async fn decisions_of_a_call_follow_their_slot() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let store = open(&cluster).await;
    let keys = in_one_slot();
    let number = slot(keys[0]);
    let from = cluster.primary_of(number).unwrap();
    let to = (from + 1) % 3;
    let _ = charge(&cluster, &store, &keys, 999).await;
    cluster.migrate_slot(number, from, to).unwrap();
    let made = charge(&cluster, &store, &keys, 998).await;
    println!("{made} calls after a migration");

    // While the slot migrates, some keys are on one node, some on another, and some on none yet.
    let (from, to) = (to, from);
    let migration = SlotMigration::begin(&cluster, number, from, to).unwrap();
    let _ = migration.move_keys(&cluster, 20).unwrap();
    let made = charge(&cluster, &store, &keys, 997).await;
    println!("{made} calls during a migration");
    assert!(made > u64::try_from(ALONE).unwrap());
    while migration.move_keys(&cluster, 100).unwrap() > 0 {}
    migration.finish(&cluster).unwrap();
    let _ = charge(&cluster, &store, &keys, 996).await;
}
