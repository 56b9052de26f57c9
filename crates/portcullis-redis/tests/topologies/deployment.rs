//! Starts and inspects the servers of a row.

use std::time::{Duration, Instant};

use portcullis_servers::{RedisCluster, RedisSentinels, RedisServer, ServerSetup};

use crate::table::{Protocol, Row, Topology, Transport, User};

/// The running servers of a row, and the URL that reaches them.
pub(crate) struct Deployment {
    servers: Servers,
    url: String,
}

enum Servers {
    Single(RedisServer),
    Cluster(RedisCluster),
    Sentinels(RedisSentinels),
}

impl Deployment {
    pub(crate) fn start(row: Row) -> Self {
        let setup = ServerSetup::new();
        let setup = if row.transport == Transport::Tls { setup.tls() } else { setup };
        let setup = if row.user == User::LeastRightsWithEval { setup.without_script_load() } else { setup };
        let servers = match row.topology {
            Topology::Single => Servers::Single(setup.server().unwrap()),
            Topology::Cluster => Servers::Cluster(setup.cluster(3, 1).unwrap()),
            Topology::Sentinels => Servers::Sentinels(setup.sentinels(3, 1).unwrap()),
        };
        let [least_rights, default] = match &servers {
            Servers::Single(server) => [server.url(), server.admin_url()],
            Servers::Cluster(cluster) => [cluster.url(), cluster.admin_url()],
            Servers::Sentinels(group) => [group.url(), group.admin_url()],
        };
        let url = if row.user == User::Default { default } else { least_rights };
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

    /// Asserts that every connection that has run scripts uses the row's user and protocol.
    pub(crate) fn assert_connected_as(&self, row: Row) {
        let lists: Vec<_> =
            self.data().iter().map(|server| server.cli(&["CLIENT", "LIST"]).unwrap()).collect();
        let script_clients: Vec<_> =
            lists.iter().flat_map(|list| list.lines()).filter(|line| line.contains("cmd=evalsha")).collect();
        assert!(!script_clients.is_empty(), "{row:?}: {lists:?}");
        let user = if row.user == User::Default { " user=default " } else { " user=portcullis " };
        let version = if row.protocol == Protocol::Resp3 { " resp=3" } else { " resp=2" };
        assert!(
            script_clients.iter().all(|line| line.contains(user) && line.contains(version)),
            "{row:?}: {script_clients:?}"
        );
    }

    /// Returns the number of keys on all primaries.
    ///
    /// # Panics
    ///
    /// If a key has no expiry.
    pub(crate) fn count_expiring_keys(&self) -> usize {
        // A replica of a cluster serves no keys to scripts.
        let is_primary = |server: &&RedisServer| server.cli(&["ROLE"]).unwrap().starts_with("master");
        let counted = self.data().iter().filter(is_primary).map(|server| {
            let counted = server.cli(&["EVAL", COUNT, "0"]).unwrap();
            counted.parse::<usize>().unwrap_or_else(|_| panic!("key without an expiry: {counted}"))
        });
        counted.sum()
    }

    /// Waits until no client is connected to any server or sentinel.
    pub(crate) fn wait_until_disconnected(&self, row: Row) {
        let end = Instant::now() + Duration::from_secs(10);
        for server in self.data().iter().chain(self.sentinels()) {
            while server.clients().unwrap() > 0 {
                assert!(Instant::now() < end, "{row:?}: {}", server.cli(&["CLIENT", "LIST"]).unwrap());
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// Returns the number of keys, or the name of a key without an expiry.
const COUNT: &str = "local keys = redis.call('KEYS', '*')
for _, key in ipairs(keys) do if redis.call('PTTL', key) < 0 then return key end end
return #keys";
