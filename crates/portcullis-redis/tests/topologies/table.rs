//! The combinations that are tested.

use portcullis_servers::RedisServer;

/// One deployment: a value of each factor.
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

/// The server program: the one that `PORTCULLIS_REDIS_SERVER` names.
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
    LeastRights,
    /// The least rights where `SCRIPT LOAD` is refused.
    LeastRightsWithEval,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Resp2,
    Resp3,
}

impl Server {
    /// Whether this run of the tests uses this program.
    pub(crate) fn is_under_test(self) -> bool {
        let is_valkey = RedisServer::program().to_string_lossy().ends_with("valkey-server");
        is_valkey == (self == Self::Valkey)
    }

    /// Valkey's Python package is built without TLS.
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
        row(Single, Redis, Tls, User::LeastRights, Resp3),
        row(Single, Valkey, Plain, User::Default, Resp2),
        row(Single, Valkey, Plain, User::LeastRightsWithEval, Resp3),
        row(Cluster, Redis, Plain, User::LeastRights, Resp3),
        row(Cluster, Redis, Plain, User::LeastRightsWithEval, Resp2),
        row(Cluster, Redis, Tls, User::Default, Resp2),
        row(Cluster, Valkey, Plain, User::LeastRights, Resp3),
        row(Sentinels, Redis, Tls, User::LeastRights, Resp2),
        row(Sentinels, Redis, Tls, User::LeastRightsWithEval, Resp3),
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

/// The possible pairs of values of two factors that no row contains.
pub(crate) fn missing_pairs(rows: &[Row]) -> Vec<String> {
    let mut missing = Vec::new();
    for possible in all_rows() {
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

fn all_rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for topology in [Topology::Single, Topology::Cluster, Topology::Sentinels] {
        for server in [Server::Redis, Server::Valkey] {
            for transport in [Transport::Plain, Transport::Tls] {
                for user in [User::Default, User::LeastRights, User::LeastRightsWithEval] {
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
