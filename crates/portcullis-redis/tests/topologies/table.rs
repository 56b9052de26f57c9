//! What is combined with what.

use portcullis_testing::RedisServer;

/// Where a store may have to run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) topology: Topology,
    pub(crate) server: Server,
    pub(crate) transport: Transport,
    pub(crate) user: User,
    pub(crate) protocol: Protocol,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topology {
    Single,
    Cluster,
    Sentinels,
}

/// The program, which is the one that `PORTCULLIS_REDIS_SERVER` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    Redis,
    Valkey,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Plain,
    Tls,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    Default,
    Least,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Resp2,
    Resp3,
}

impl Server {
    /// Whether it is what tests run on this time.
    pub(crate) fn is_here(self) -> bool {
        let is_valkey = RedisServer::program().to_string_lossy().ends_with("valkey-server");
        is_valkey == (self == Self::Valkey)
    }

    /// Valkey's Python package is built without.
    pub(crate) fn has_tls(self) -> bool {
        self == Self::Redis
    }
}

const fn row(
    topology: Topology,
    server: Server,
    transport: Transport,
    user: User,
    protocol: Protocol,
) -> Row {
    Row { topology, server, transport, user, protocol }
}

pub(crate) const ROWS: &[Row] = {
    use {Protocol::*, Server::*, Topology::*, Transport::*};
    &[
        row(Single, Redis, Plain, User::Default, Resp3),
        row(Single, Redis, Tls, User::Least, Resp3),
        row(Single, Valkey, Plain, User::Default, Resp2),
        row(Cluster, Redis, Plain, User::Least, Resp3),
        row(Cluster, Redis, Tls, User::Default, Resp2),
        row(Cluster, Valkey, Plain, User::Least, Resp3),
        row(Sentinels, Redis, Tls, User::Least, Resp2),
        row(Sentinels, Valkey, Plain, User::Default, Resp3),
    ]
};

impl Row {
    /// The values of all factors, by name.
    fn values(self) -> [String; 5] {
        let Self { topology, server, transport, user, protocol } = self;
        [
            format!("{topology:?}"),
            format!("{server:?}"),
            format!("{transport:?}"),
            format!("{user:?}"),
            format!("{protocol:?}"),
        ]
    }
}

/// The pairs of values of two factors that can be had, and that no row has.
pub(crate) fn missing_pairs(rows: &[Row]) -> Vec<String> {
    let mut missing = Vec::new();
    for possible in everything() {
        let values = possible.values();
        for (first, one) in values.iter().enumerate() {
            for (second, other) in values.iter().enumerate().skip(first + 1) {
                let has = |row: &Row| row.values()[first] == *one && row.values()[second] == *other;
                let pair = format!("{one} and {other}");
                if !rows.iter().any(has) && !missing.contains(&pair) {
                    missing.push(pair);
                }
            }
        }
    }
    missing
}

fn everything() -> Vec<Row> {
    let mut rows = Vec::new();
    for topology in [Topology::Single, Topology::Cluster, Topology::Sentinels] {
        for server in [Server::Redis, Server::Valkey] {
            for transport in [Transport::Plain, Transport::Tls] {
                for user in [User::Default, User::Least] {
                    for protocol in [Protocol::Resp2, Protocol::Resp3] {
                        rows.push(row(topology, server, transport, user, protocol));
                    }
                }
            }
        }
    }
    rows.retain(|row| row.server.has_tls() || row.transport == Transport::Plain);
    rows
}
