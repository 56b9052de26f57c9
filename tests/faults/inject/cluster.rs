//! Faults of a cluster.

use anyhow::Result;
use portcullis_histories::checker::Extent;
use portcullis_servers::{Failover, RedisCluster, SlotMigration};

use crate::environment::{Environment, wait};

/// Kills a primary; its replica takes over by itself.
pub(crate) fn primary_killed(environment: &mut Environment) -> Result<()> {
    let from = environment.begin_fault();
    let cluster = environment.cluster()?;
    let primary = cluster.primary_of(FIRST)?;
    cluster.kill(primary)?;
    cluster.wait_until_ok()?;
    environment.end_fault();
    environment.record_loss(from, Extent::Latest);
    wait(1_500);
    Ok(environment.cluster()?.restart(primary)?)
}

pub(crate) fn promoted_by_hand(environment: &mut Environment) -> Result<()> {
    let from = environment.begin_fault();
    let cluster = environment.cluster()?;
    let primary = cluster.primary_of(FIRST)?;
    let replica = cluster.replica_of(primary)?;
    cluster.kill(primary)?;
    wait(300);
    cluster.failover(replica, Failover::Takeover)?;
    cluster.wait_until_ok()?;
    environment.end_fault();
    environment.record_loss(from, Extent::Latest);
    wait(1_500);
    Ok(environment.cluster()?.restart(primary)?)
}

pub(crate) fn handed_over(environment: &mut Environment) -> Result<()> {
    environment.begin_fault();
    let cluster = environment.cluster()?;
    let replica = cluster.replica_of(cluster.primary_of(FIRST)?)?;
    cluster.failover(replica, Failover::Graceful)?;
    cluster.wait_until_ok()?;
    environment.end_fault();
    Ok(())
}

/// Kills a primary together with its replica, if it has one, and restarts it empty.
pub(crate) fn primary_gone(environment: &mut Environment) -> Result<()> {
    let from = environment.begin_fault();
    let cluster = environment.cluster()?;
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
    environment.end_fault();
    // One node lost everything, the others nothing.
    environment.record_loss(from, Extent::Latest);
    Ok(())
}

pub(crate) fn slots_migrated(environment: &mut Environment) -> Result<()> {
    environment.begin_fault();
    let cluster = environment.cluster()?;
    migrate(cluster, cluster.primary_of(FIRST)?, cluster.primary_of(MIDDLE)?)?;
    // A replica that takes over before it has learned of the migration claims the slots back.
    cluster.wait_until_ok()?;
    environment.end_fault();
    Ok(())
}

/// Migrates slots to a new node, or to the newest one if the cluster has many nodes already.
pub(crate) fn node_added(environment: &mut Environment) -> Result<()> {
    environment.begin_fault();
    let cluster = environment.cluster()?;
    let many = cluster.nodes().len() >= MANY_NODES;
    let added = if many { cluster.nodes().len() - 1 } else { cluster.add_node()? };
    migrate(cluster, cluster.primary_of(FIRST)?, added)?;
    cluster.wait_until_ok()?;
    environment.end_fault();
    Ok(())
}

/// Migrates slots that are in use, each slowly enough that many calls hit it meanwhile.
fn migrate(cluster: &RedisCluster, from: usize, to: usize) -> Result<()> {
    let keys = cluster.nodes()[from].cli(&["KEYS", "*"])?;
    let mut slots = Vec::new();
    for key in keys.lines().take(10) {
        slots.push(cluster.slot_of(key)?);
    }
    slots.sort_unstable();
    slots.dedup();
    for slot in slots {
        // A replica that took over may still hold keys of a slot that has moved.
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

/// Slots of the first and the second primary of a new cluster, and of the replicas that replace them.
const FIRST: u16 = 0;
const MIDDLE: u16 = 8_192;
const MANY_NODES: usize = 9;
