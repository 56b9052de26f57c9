//! To a cluster.

use anyhow::Result;
use portcullis_testing::{Failover, RedisCluster, SlotMigration};
use portcullis_tests::faults::checker::Extent;

use crate::field::{Field, wait};

/// The replica takes over by itself.
pub(crate) fn primary_killed(field: &mut Field) -> Result<()> {
    let from = field.harm();
    let cluster = field.cluster()?;
    let primary = cluster.primary_of(FIRST)?;
    cluster.kill(primary)?;
    cluster.wait_until_ok()?;
    field.repair();
    field.lost(from, Extent::Latest);
    wait(1_500);
    Ok(field.cluster()?.restart(primary)?)
}

pub(crate) fn promoted_by_hand(field: &mut Field) -> Result<()> {
    let from = field.harm();
    let cluster = field.cluster()?;
    let primary = cluster.primary_of(FIRST)?;
    let replica = cluster.replica_of(primary)?;
    cluster.kill(primary)?;
    wait(300);
    cluster.failover(replica, Failover::Takeover)?;
    cluster.wait_until_ok()?;
    field.repair();
    field.lost(from, Extent::Latest);
    wait(1_500);
    Ok(field.cluster()?.restart(primary)?)
}

pub(crate) fn handed_over(field: &mut Field) -> Result<()> {
    field.harm();
    let cluster = field.cluster()?;
    let replica = cluster.replica_of(cluster.primary_of(FIRST)?)?;
    cluster.failover(replica, Failover::Graceful)?;
    cluster.wait_until_ok()?;
    field.repair();
    Ok(())
}

/// A primary that has no replica, or has lost it, dies and comes back with nothing.
pub(crate) fn primary_gone(field: &mut Field) -> Result<()> {
    let from = field.harm();
    let cluster = field.cluster()?;
    let primary = cluster.primary_of(FIRST)?;
    let replica = cluster.replica_of(primary).ok();
    for node in replica.into_iter().chain([primary]) {
        cluster.kill(node)?;
    }
    wait(2_500);
    for node in [primary].into_iter().chain(replica) {
        cluster.restart(node)?;
    }
    cluster.wait_until_ok()?;
    field.repair();
    // All of one node, and nothing of the others.
    field.lost(from, Extent::Latest);
    Ok(())
}

pub(crate) fn slots_migrated(field: &mut Field) -> Result<()> {
    field.harm();
    let cluster = field.cluster()?;
    migrate(cluster, cluster.primary_of(FIRST)?, cluster.primary_of(MIDDLE)?)?;
    // A replica that takes over before it has heard of it claims the slots back.
    cluster.wait_until_ok()?;
    field.repair();
    Ok(())
}

/// Slots go to a new node, or to the newest if there are many already.
pub(crate) fn node_added(field: &mut Field) -> Result<()> {
    field.harm();
    let cluster = field.cluster()?;
    let many = cluster.nodes().len() >= MANY_NODES;
    let added = if many { cluster.nodes().len() - 1 } else { cluster.add_node()? };
    migrate(cluster, cluster.primary_of(FIRST)?, added)?;
    cluster.wait_until_ok()?;
    field.repair();
    Ok(())
}

/// Moves slots that are in use, each slowly enough for many calls to come across it.
fn migrate(cluster: &RedisCluster, from: usize, to: usize) -> Result<()> {
    let keys = cluster.nodes()[from].cli(&["KEYS", "*"])?;
    let mut slots = Vec::new();
    for key in keys.lines().take(10) {
        slots.push(cluster.slot_of(key)?);
    }
    slots.sort_unstable();
    slots.dedup();
    for slot in slots {
        // A replica that took over may still have keys of a slot that has moved.
        if cluster.primary_of(slot)? != from {
            continue;
        }
        let migration = SlotMigration::begin(cluster, slot, from, to)?;
        wait(50);
        while migration.move_keys(cluster, 1)? > 0 {
            wait(50);
        }
        migration.finish(cluster)?;
    }
    Ok(())
}

/// Slots that stay with the first and the second primary of a new cluster, and their successors.
const FIRST: u16 = 0;
const MIDDLE: u16 = 8_192;
const MANY_NODES: usize = 9;
