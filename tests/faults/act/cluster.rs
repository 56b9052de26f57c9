//! To a cluster.

use anyhow::Result;
use portcullis_testing::{Failover, RedisCluster, SlotMigration};
use portcullis_tests::faults::checker::Extent;

use crate::field::{Field, wait};

/// The replica takes over by itself.
pub(crate) fn primary_killed(field: &mut Field) -> Result<()> {
    let from = field.harm();
    let cluster = field.cluster()?;
    let primary = cluster.primary_of(0)?;
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
    let primary = cluster.primary_of(0)?;
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
    let replica = cluster.replica_of(cluster.primary_of(0)?)?;
    cluster.failover(replica, Failover::Graceful)?;
    cluster.wait_until_ok()?;
    field.repair();
    Ok(())
}

/// A primary without a replica dies, and comes back with nothing.
pub(crate) fn primary_gone(field: &mut Field) -> Result<()> {
    let from = field.harm();
    let cluster = field.cluster()?;
    cluster.kill(0)?;
    wait(2_500);
    cluster.restart(0)?;
    cluster.wait_until_ok()?;
    field.repair();
    // All of one node, and nothing of the others.
    field.lost(from, Extent::Latest);
    Ok(())
}

pub(crate) fn slots_migrated(field: &mut Field) -> Result<()> {
    field.harm();
    let cluster = field.cluster()?;
    migrate(cluster, 0, 1)?;
    field.repair();
    Ok(())
}

pub(crate) fn node_added(field: &mut Field) -> Result<()> {
    field.harm();
    let cluster = field.cluster()?;
    let added = cluster.add_node()?;
    migrate(cluster, 0, added)?;
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
        let migration = SlotMigration::begin(cluster, slot, from, to)?;
        wait(50);
        while migration.move_keys(cluster, 1)? > 0 {
            wait(50);
        }
        migration.finish(cluster)?;
    }
    Ok(())
}
