//! What is done to the servers, one after the other.

use anyhow::Result;
use portcullis_testing::{RedisCluster, RedisServer, ServerSetup};

use crate::act::{cluster, failover, network, server};
use crate::field::{Field, Servers};

/// Where faults happen at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scene {
    /// A server, and one that can take its place, whose clock is an hour ahead, asked by processes with clocks of their own.
    Server,
    Cluster,
    Sentinels,
}

/// Something that goes wrong.
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    /// For the table.
    pub(crate) title: &'static str,
    pub(crate) servers: fn() -> Result<Servers>,
    pub(crate) act: fn(&mut Field) -> Result<()>,
    /// Whether nobody answers meanwhile.
    pub(crate) silences: bool,
    /// Where it can happen again and again, so that the soak has it.
    pub(crate) scene: Option<Scene>,
    /// By how much the clocks of the processes are off, as faketime takes it.
    pub(crate) offsets: &'static [&'static str],
}

const fn fault(
    name: &'static str,
    title: &'static str,
    servers: fn() -> Result<Servers>,
    act: fn(&mut Field) -> Result<()>,
) -> Fault {
    Fault { name, title, servers, act, silences: false, scene: None, offsets: &[] }
}

impl Fault {
    const fn silences(self) -> Self {
        Self { silences: true, ..self }
    }

    const fn again_and_again(self, scene: Scene) -> Self {
        Self { scene: Some(scene), ..self }
    }
}

impl Scene {
    /// All, and how many tenths of the soak each gets.
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

/// All of them.
pub(crate) const ALL: &[Fault] = &[
    fault("late-replies", "replies 30 ms late", one, network::late_replies).again_and_again(Scene::Server),
    fault("too-late-replies", "replies after the deadline", one, network::replies_after_the_deadline)
        .silences()
        .again_and_again(Scene::Server),
    fault("replies-cut", "replies cut off, the call having run", one, network::replies_cut)
        .silences()
        .again_and_again(Scene::Server),
    fault("requests-cut", "requests cut in half", one, network::requests_cut)
        .silences()
        .again_and_again(Scene::Server),
    fault("half-open", "connections half-open", one, network::half_open)
        .silences()
        .again_and_again(Scene::Server),
    fault("slices", "packets of a few bytes", one, network::slices).again_and_again(Scene::Server),
    fault("refused", "connections refused", one, network::refused).silences().again_and_again(Scene::Server),
    fault("frozen", "server frozen (SIGSTOP)", one, server::frozen).silences().again_and_again(Scene::Server),
    fault("killed", "killed, restarted empty", one, server::killed).silences().again_and_again(Scene::Server),
    fault("killed-but-kept", "killed, restarted from its file", kept, server::killed_but_kept).silences(),
    fault("paused", "CLIENT PAUSE", one, server::paused).silences().again_and_again(Scene::Server),
    fault("scripts-flushed", "SCRIPT FLUSH, 20 times", one, server::scripts_flushed)
        .again_and_again(Scene::Server),
    fault("flushed", "FLUSHALL", one, server::flushed).again_and_again(Scene::Server),
    fault("full", "memory full", one, server::full).again_and_again(Scene::Server),
    fault("no-right-to-write", "right to SET lost", one, server::no_right_to_write)
        .again_and_again(Scene::Server),
    fault("no-right-to-expire", "right to PEXPIRE lost", one, server::no_right_to_expire)
        .again_and_again(Scene::Server),
    fault("no-right-to-run", "right to EVALSHA lost", one, server::no_right_to_run)
        .again_and_again(Scene::Server),
    fault("read-only", "server turned replica", one, server::read_only).again_and_again(Scene::Server),
    fault("failover", "failover behind one address", two, failover::behind_one_address)
        .silences()
        .again_and_again(Scene::Server),
    fault("failover-ahead", "failover, new clock 1 h ahead", ahead, failover::behind_one_address).silences(),
    fault("failover-behind", "failover, new clock 1 h behind", behind, failover::behind_one_address)
        .silences(),
    Fault { offsets: CLOCKS, ..fault("callers-clock", "callers' clocks 5 h off", one, server::nothing) },
    fault("cluster-failover", "cluster: primary killed", replicated, cluster::primary_killed)
        .again_and_again(Scene::Cluster),
    fault("cluster-by-hand", "cluster: replica promoted by hand", replicated, cluster::promoted_by_hand)
        .again_and_again(Scene::Cluster),
    fault("cluster-handed-over", "cluster: primary hands over", replicated, cluster::handed_over)
        .again_and_again(Scene::Cluster),
    fault("cluster-gone", "cluster: primary without replica", three, cluster::primary_gone)
        .again_and_again(Scene::Cluster),
    fault("cluster-slots", "cluster: slots migrated", three, cluster::slots_migrated)
        .again_and_again(Scene::Cluster),
    fault("cluster-node-added", "cluster: node added", three, cluster::node_added)
        .again_and_again(Scene::Cluster),
    fault("sentinel-failover", "sentinels: primary killed", sentinels, failover::sentinel_kill)
        .silences()
        .again_and_again(Scene::Sentinels),
    fault("sentinel-by-hand", "sentinels: failover by hand", sentinels, failover::sentinel_by_hand)
        .again_and_again(Scene::Sentinels),
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

/// Of the first two processes, as faketime takes it.
const CLOCKS: &[&str] = &["+5h", "-5h"];
