//! The servers of a row.

use std::time::{Duration, Instant};

use portcullis_testing::{RedisCluster, RedisSentinels, RedisServer, ServerSetup};

use crate::table::{Protocol, Row, Topology, Transport, User};

/// Servers that run, and how to reach them.
pub(crate) struct Running {
    servers: Servers,
    url: String,
}

enum Servers {
    Single(RedisServer),
    Cluster(RedisCluster),
    Sentinels(RedisSentinels),
}

impl Running {
    pub(crate) fn start(row: Row) -> Self {
        let setup = ServerSetup::new();
        let setup = if row.transport == Transport::Tls { setup.tls() } else { setup };
        let servers = match row.topology {
            Topology::Single => Servers::Single(setup.server().unwrap()),
            Topology::Cluster => Servers::Cluster(setup.cluster(3, 1).unwrap()),
            Topology::Sentinels => Servers::Sentinels(setup.sentinels(3, 1).unwrap()),
        };
        let [least, default] = match &servers {
            Servers::Single(server) => [server.url(), server.admin_url()],
            Servers::Cluster(cluster) => [cluster.url(), cluster.admin_url()],
            Servers::Sentinels(group) => [group.url(), group.admin_url()],
        };
        let url = if row.user == User::Least { least } else { default };
        let separator = if url.contains('?') { '&' } else { '?' };
        let version = if row.protocol == Protocol::Resp3 { 3 } else { 2 };
        Self { servers, url: format!("{url}{separator}protocol={version}") }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn root_certificate(&self) -> Option<&'static str> {
        self.data()[0].root_certificate()
    }

    /// The servers that hold keys.
    fn data(&self) -> &[RedisServer] {
        match &self.servers {
            Servers::Single(server) => std::slice::from_ref(server),
            Servers::Cluster(cluster) => cluster.nodes(),
            Servers::Sentinels(group) => group.servers(),
        }
    }

    fn sentinels(&self) -> &[RedisServer] {
        if let Servers::Sentinels(group) = &self.servers { group.sentinels() } else { &[] }
    }

    /// Whoever sent scripts did so as the user of the row, in its protocol.
    pub(crate) fn is_connected_as(&self, row: Row) {
        let lists: Vec<_> =
            self.data().iter().map(|server| server.cli(&["CLIENT", "LIST"]).unwrap()).collect();
        let ours: Vec<_> =
            lists.iter().flat_map(|list| list.lines()).filter(|line| line.contains("cmd=evalsha")).collect();
        assert!(!ours.is_empty(), "{row:?}: {lists:?}");
        let user = if row.user == User::Least { " user=portcullis " } else { " user=default " };
        let version = if row.protocol == Protocol::Resp3 { " resp=3" } else { " resp=2" };
        assert!(ours.iter().all(|line| line.contains(user) && line.contains(version)), "{row:?}: {ours:?}");
    }

    /// How many keys there are, all of which must expire.
    pub(crate) fn keys_that_expire(&self) -> usize {
        // A replica in a cluster gives nothing to scripts.
        let is_primary = |server: &&RedisServer| server.cli(&["ROLE"]).unwrap().starts_with("master");
        let counted = self.data().iter().filter(is_primary).map(|server| {
            let counted = server.cli(&["EVAL", COUNT, "0"]).unwrap();
            counted.parse::<usize>().unwrap_or_else(|_| panic!("without an expiry: {counted}"))
        });
        counted.sum()
    }

    /// Neither to a server nor to a sentinel.
    pub(crate) fn wait_until_nobody_is_connected(&self, row: Row) {
        let end = Instant::now() + Duration::from_secs(10);
        for server in self.data().iter().chain(self.sentinels()) {
            while server.clients().unwrap() > 0 {
                assert!(Instant::now() < end, "{row:?}: {}", server.cli(&["CLIENT", "LIST"]).unwrap());
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// The number of keys, or the name of one that stays for ever.
const COUNT: &str = "local keys = redis.call('KEYS', '*')
for _, key in ipairs(keys) do if redis.call('PTTL', key) < 0 then return key end end
return #keys";
