//! Forms a cluster without `redis-cli --cluster create`, which is slower and interactive.

use std::io;

use super::view::nodes_of;
use super::{RedisCluster, SLOTS};
use crate::rights::CLUSTER_RIGHTS;
use crate::{HOST, RedisServer, ServerSetup, wait_until};

impl ServerSetup {
    /// Starts a cluster.
    pub fn cluster(self, primaries: usize, replicas_per_primary: usize) -> io::Result<RedisCluster> {
        let mut cluster = RedisCluster { nodes: Vec::new(), setup: self };
        for _ in 0..primaries * (1 + replicas_per_primary) {
            let mut node = cluster.unstarted_node()?;
            node.launch()?;
            cluster.nodes.push(node);
        }
        cluster.nodes.iter_mut().try_for_each(RedisServer::wait_until_ready)?;
        for primary in 0..primaries {
            // Distinct epochs from the start avoid epoch conflicts.
            cluster.ok(primary, &["CLUSTER", "SET-CONFIG-EPOCH", &(primary + 1).to_string()])?;
            let [first, end] = [primary, primary + 1].map(|index| index * SLOTS / primaries);
            let [first, last] = [first, end - 1].map(|slot| slot.to_string());
            cluster.ok(primary, &["CLUSTER", "ADDSLOTSRANGE", &first, &last])?;
        }
        // Every node meets every other, because gossip would take one or two seconds.
        for index in 0..cluster.nodes.len() {
            for other in &cluster.nodes[index + 1..] {
                cluster.ok(index, &["CLUSTER", "MEET", HOST, &other.port().to_string()])?;
            }
        }
        cluster.wait_until_all_known()?;
        for index in primaries..cluster.nodes.len() {
            let id = cluster.nodes[(index - primaries) / replicas_per_primary].cli(&["CLUSTER", "MYID"])?;
            cluster.ok(index, &["CLUSTER", "REPLICATE", &id])?;
        }
        cluster.wait_until_ok()?;
        Ok(cluster)
    }
}

impl RedisCluster {
    /// Waits until every running node knows every other.
    pub(super) fn wait_until_all_known(&self) -> io::Result<()> {
        let running: Vec<_> = self.nodes.iter().filter(|node| node.is_running()).collect();
        wait_until("the nodes know each other", || {
            for node in &running {
                let known = nodes_of(node)?;
                let met = |port| known.iter().any(|known| known.port == port && !known.failed);
                if !running.iter().all(|other| met(other.port())) {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    pub(super) fn unstarted_node(&self) -> io::Result<RedisServer> {
        let timeout = self.setup.node_timeout.as_millis().to_string();
        let options = [
            ["--cluster-enabled", "yes"],
            ["--cluster-node-timeout", &timeout],
            // A primary without slots stays one, so that the steps of a migration do not depend on their speed.
            ["--cluster-allow-replica-migration", "no"],
            ["--cluster-announce-ip", HOST],
            // By default a primary waits for more replicas before it serves the first.
            ["--repl-diskless-sync-delay", "0"],
        ];
        let options = options.concat().iter().map(ToString::to_string).collect();
        RedisServer::new(self.setup.clone(), options, &CLUSTER_RIGHTS)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::{Failover, SlotMigration};

    #[test]
    fn cluster_forms_fails_over_and_recovers() {
        let start = Instant::now();
        let mut cluster = RedisCluster::start(3, 1).unwrap();
        println!("formed in {:?}", start.elapsed());
        assert_eq!(cluster.url().matches("127.0.0.1").count(), 6);
        let owners = [0, 5_461, 10_923].map(|slot| cluster.primary_of(slot).unwrap());
        assert_eq!(owners, [0, 1, 2]);
        let replicas = owners.map(|primary| cluster.replica_of(primary).unwrap());
        assert_eq!(replicas, [3, 4, 5]);

        cluster.failover(3, Failover::Graceful).unwrap();
        cluster.wait_until_ok().unwrap();
        assert_eq!((cluster.primary_of(0).unwrap(), cluster.replica_of(3).unwrap()), (3, 0));

        cluster.kill(3).unwrap();
        cluster.failover(0, Failover::Takeover).unwrap();
        cluster.wait_until_ok().unwrap();
        assert_eq!(cluster.primary_of(0).unwrap(), 0);
        cluster.restart(3).unwrap();
        cluster.wait_until_ok().unwrap();
        assert_eq!(cluster.replica_of(0).unwrap(), 3);

        // Automatic failover, after the node timeout.
        let start = Instant::now();
        cluster.kill(1).unwrap();
        cluster.wait_until_ok().unwrap();
        assert_eq!(cluster.primary_of(5_461).unwrap(), 4);
        println!("failed over in {:?}", start.elapsed());
        assert!(cluster.replica_of(4).is_err());
    }

    #[test]
    fn slot_moves_to_a_new_node_in_steps() {
        let mut cluster = ServerSetup::new().node_timeout(Duration::from_secs(2)).cluster(2, 0).unwrap();
        let slot = cluster.slot_of("{06S}").unwrap();
        assert_eq!((slot, cluster.primary_of(slot).unwrap()), (0, 0));
        for number in 0..5 {
            cluster.nodes()[0].cli(&["SET", &format!("{{06S}}{number}"), "1"]).unwrap();
        }
        let added = cluster.add_node().unwrap();
        let migration = SlotMigration::begin(&cluster, slot, 0, added).unwrap();
        assert_eq!(migration.move_keys(&cluster, 2).unwrap(), 2);
        let keys = |node: usize| cluster.nodes()[node].cli(&["DBSIZE"]).unwrap();
        assert_eq!((keys(0).as_str(), keys(added).as_str()), ("3", "2"));
        assert_eq!(cluster.primary_of(slot).unwrap(), 0);
        assert_eq!(migration.move_keys(&cluster, 100).unwrap(), 3);
        assert_eq!(migration.move_keys(&cluster, 100).unwrap(), 0);
        migration.finish(&cluster).unwrap();
        cluster.wait_until_ok().unwrap();
        assert_eq!(cluster.primary_of(slot).unwrap(), added);

        let back = SlotMigration::begin(&cluster, slot, added, 1).unwrap();
        back.cancel(&cluster).unwrap();
        cluster.migrate_slot(slot, added, 1).unwrap();
        cluster.wait_until_ok().unwrap();
        assert_eq!((cluster.primary_of(slot).unwrap(), keys(1).as_str()), (1, "5"));
    }
}
