//! The list of faults and of the topologies that they run on.

use anyhow::Result;
use portcullis_servers::{RedisCluster, RedisServer, ServerSetup};

use crate::environment::{Environment, Servers};
use crate::inject::{cluster, failover, network, server};

/// A topology for random faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topology {
    /// A server with a replica whose clock is an hour ahead, called by workers with shifted clocks.
    Server,
    Cluster,
    Sentinels,
}

/// A fault that can be injected.
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    /// The title in the table.
    pub(crate) title: &'static str,
    pub(crate) servers: fn() -> Result<Servers>,
    pub(crate) inject: fn(&mut Environment) -> Result<()>,
    /// Whether no server answers during the fault.
    pub(crate) is_outage: bool,
    /// The topology on which the fault is repeatable, so that the soak includes it.
    pub(crate) topology: Option<Topology>,
    /// The shifts of the workers' clocks, in faketime's format.
    pub(crate) offsets: &'static [&'static str],
    /// Whether a run with `--sample` has it: one of each kind.
    pub(crate) is_sample: bool,
}

const fn fault(
    name: &'static str,
    title: &'static str,
    servers: fn() -> Result<Servers>,
    inject: fn(&mut Environment) -> Result<()>,
) -> Fault {
    Fault { name, title, servers, inject, is_outage: false, topology: None, offsets: &[], is_sample: false }
}

impl Fault {
    const fn outage(self) -> Self {
        Self { is_outage: true, ..self }
    }

    const fn in_soak(self, topology: Topology) -> Self {
        Self { topology: Some(topology), ..self }
    }

    const fn in_sample(self) -> Self {
        Self { is_sample: true, ..self }
    }
}

impl Topology {
    /// All topologies, each with its share of the soak in tenths.
    pub(crate) const ALL: [(Self, u64); 3] = [(Self::Server, 5), (Self::Cluster, 3), (Self::Sentinels, 2)];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Server => "soak-server",
            Self::Cluster => "soak-cluster",
            Self::Sentinels => "soak-sentinels",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Server => "at random: a server, and another that is 1 h ahead",
            Self::Cluster => "at random: a cluster",
            Self::Sentinels => "at random: sentinels",
        }
    }

    pub(crate) fn servers(self) -> Result<Servers> {
        match self {
            Self::Server => ahead(),
            Self::Cluster => replicated(),
            Self::Sentinels => sentinels(),
        }
    }

    pub(crate) fn offsets(self) -> &'static [&'static str] {
        if self == Self::Server { CLOCKS } else { &[] }
    }
}

/// All faults.
pub(crate) const ALL: &[Fault] = &[
    fault("late-replies", "replies 30 ms late", one, network::late_replies).in_soak(Topology::Server),
    fault("too-late-replies", "replies after the deadline", one, network::replies_after_the_deadline)
        .outage()
        .in_soak(Topology::Server),
    fault("replies-cut", "replies cut off, the call having run", one, network::replies_cut)
        .outage()
        .in_soak(Topology::Server)
        .in_sample(),
    fault("requests-cut", "requests cut in half", one, network::requests_cut)
        .outage()
        .in_soak(Topology::Server),
    fault("half-open", "connections half-open", one, network::half_open).outage().in_soak(Topology::Server),
    fault("slices", "packets of a few bytes", one, network::slices).in_soak(Topology::Server),
    fault("refused", "connections refused", one, network::refused).outage().in_soak(Topology::Server),
    fault("frozen", "server frozen (SIGSTOP)", one, server::frozen)
        .outage()
        .in_soak(Topology::Server)
        .in_sample(),
    fault("killed", "killed, restarted empty", one, server::killed).outage().in_soak(Topology::Server),
    fault("killed-but-kept", "killed, restarted from its file", kept, server::killed_but_kept).outage(),
    fault("paused", "CLIENT PAUSE", one, server::paused).outage().in_soak(Topology::Server),
    fault("scripts-flushed", "SCRIPT FLUSH, 20 times", one, server::scripts_flushed)
        .in_soak(Topology::Server),
    fault("flushed", "FLUSHALL", one, server::flushed).in_soak(Topology::Server),
    fault("full", "memory full", one, server::full).in_soak(Topology::Server).in_sample(),
    fault("no-right-to-write", "right to SET lost", one, server::no_right_to_write).in_soak(Topology::Server),
    fault("no-right-to-expire", "right to PEXPIRE lost", one, server::no_right_to_expire)
        .in_soak(Topology::Server),
    fault("no-right-to-run", "right to EVALSHA lost", one, server::no_right_to_run).in_soak(Topology::Server),
    fault("read-only", "server turned replica", one, server::read_only).in_soak(Topology::Server),
    fault("failover", "failover behind one address", two, failover::behind_one_address)
        .outage()
        .in_soak(Topology::Server),
    fault("failover-ahead", "failover, new clock 1 h ahead", ahead, failover::behind_one_address)
        .outage()
        .in_sample(),
    fault("failover-behind", "failover, new clock 1 h behind", behind, failover::behind_one_address).outage(),
    Fault { offsets: CLOCKS, ..fault("callers-clock", "callers' clocks 5 h off", one, server::nothing) },
    fault("cluster-failover", "cluster: primary killed", replicated, cluster::primary_killed)
        .in_soak(Topology::Cluster)
        .in_sample(),
    fault("cluster-by-hand", "cluster: replica promoted by hand", replicated, cluster::promoted_by_hand)
        .in_soak(Topology::Cluster),
    fault("cluster-handed-over", "cluster: primary hands over", replicated, cluster::handed_over)
        .in_soak(Topology::Cluster),
    fault("cluster-gone", "cluster: primary without replica", three, cluster::primary_gone)
        .in_soak(Topology::Cluster),
    fault("cluster-slots", "cluster: slots migrated", three, cluster::slots_migrated)
        .in_soak(Topology::Cluster),
    fault("cluster-node-added", "cluster: node added", three, cluster::node_added).in_soak(Topology::Cluster),
    fault("sentinel-failover", "sentinels: primary killed", sentinels, failover::sentinel_kill)
        .outage()
        .in_soak(Topology::Sentinels)
        .in_sample(),
    fault("sentinel-by-hand", "sentinels: failover by hand", sentinels, failover::sentinel_by_hand)
        .in_soak(Topology::Sentinels),
];

fn one() -> Result<Servers> {
    Servers::single(RedisServer::start()?)
}

fn kept() -> Result<Servers> {
    Servers::single(ServerSetup::new().persistent().server()?)
}

fn two() -> Result<Servers> {
    failover::pair(None)
}

fn ahead() -> Result<Servers> {
    failover::pair(Some("+1h"))
}

fn behind() -> Result<Servers> {
    failover::pair(Some("-1h"))
}

fn three() -> Result<Servers> {
    Ok(Servers::Cluster(RedisCluster::start(3, 0)?))
}

fn replicated() -> Result<Servers> {
    Ok(Servers::Cluster(failover::diskless().cluster(3, 1)?))
}

fn sentinels() -> Result<Servers> {
    Ok(Servers::Sentinels(failover::diskless().sentinels(3, 1)?))
}

/// The shifts of the clocks of the first two workers, in faketime's format.
const CLOCKS: &[&str] = &["+5h", "-5h"];
