//! Migrates a slot from one node to another.

use std::io;

use super::RedisCluster;
use crate::HOST;

/// A slot that is migrated in steps while both nodes serve it. The source node answers `ASK` for keys that it no longer has,
/// and `TRYAGAIN` for commands with several keys of which only some are left.
#[must_use = "a slot stays between two nodes until the migration is finished or cancelled"]
#[derive(Clone, Copy, Debug)]
pub struct SlotMigration {
    slot: u16,
    from: usize,
    to: usize,
}

impl SlotMigration {
    /// Marks the slot as migrating on both nodes. The source must own it and the target must not.
    pub fn begin(cluster: &RedisCluster, slot: u16, from: usize, to: usize) -> io::Result<Self> {
        let migration = Self { slot, from, to };
        let [source, target] = migration.ids(cluster)?;
        migration.set_slot(cluster, to, &["IMPORTING", &source])?;
        migration.set_slot(cluster, from, &["MIGRATING", &target])?;
        Ok(migration)
    }

    /// Moves up to `count` keys, and returns the number of keys to move that were found.
    pub fn move_keys(&self, cluster: &RedisCluster, count: usize) -> io::Result<usize> {
        let (slot, count) = (self.slot.to_string(), count.to_string());
        let keys = cluster.nodes[self.from].cli(&["CLUSTER", "GETKEYSINSLOT", &slot, &count])?;
        let keys: Vec<_> = keys.lines().filter(|key| !key.is_empty()).collect();
        if !keys.is_empty() {
            let port = cluster.nodes[self.to].port().to_string();
            let command = ["MIGRATE", HOST, &port, "", "0", TIMEOUT_MS, "KEYS"];
            let reply = cluster.nodes[self.from].cli(&[&command, &keys[..]].concat())?;
            // All keys may have expired in the meantime.
            if !["OK", "NOKEY"].contains(&reply.as_str()) {
                return Err(io::Error::other(format!("node {} replied to MIGRATE: {reply}", self.from)));
            }
        }
        Ok(keys.len())
    }

    /// Assigns the slot to the target on all running primaries. It fails if keys are left.
    pub fn finish(self, cluster: &RedisCluster) -> io::Result<()> {
        let [_, target] = self.ids(cluster)?;
        let others = (0..cluster.nodes.len()).filter(|index| ![self.from, self.to].contains(index));
        for index in [self.to, self.from].into_iter().chain(others) {
            let node = &cluster.nodes[index];
            // Replicas receive it from their primaries.
            if node.is_running() && node.info("replication", "role:")? == "master" {
                self.set_slot(cluster, index, &["NODE", &target])?;
            }
        }
        Ok(())
    }

    /// Cancels the migration. The slot stays at the source; keys that were moved are not moved back.
    pub fn cancel(self, cluster: &RedisCluster) -> io::Result<()> {
        self.set_slot(cluster, self.from, &["STABLE"])?;
        self.set_slot(cluster, self.to, &["STABLE"])
    }

    fn set_slot(&self, cluster: &RedisCluster, index: usize, words: &[&str]) -> io::Result<()> {
        cluster.ok(index, &[&["CLUSTER", "SETSLOT", &self.slot.to_string()], words].concat())
    }

    fn ids(&self, cluster: &RedisCluster) -> io::Result<[String; 2]> {
        let id = |index: usize| cluster.nodes[index].cli(&["CLUSTER", "MYID"]);
        Ok([id(self.from)?, id(self.to)?])
    }
}

const TIMEOUT_MS: &str = "5000";
