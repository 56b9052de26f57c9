//! What is done to the servers, one after the other.

use anyhow::Result;
use portcullis_testing::{RedisCluster, RedisSentinels, RedisServer, ServerSetup};

use crate::act::{cluster, failover, network, server};
use crate::field::{Field, Servers};

/// Something that goes wrong.
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    /// For the table.
    pub(crate) title: &'static str,
    pub(crate) servers: fn() -> Result<Servers>,
    pub(crate) act: fn(&mut Field) -> Result<()>,
    /// Whether nobody answers meanwhile.
    pub(crate) silences: bool,
    /// Whether it can happen to one server at any time, so that the soak has it.
    pub(crate) is_for_the_soak: bool,
    /// By how much the clocks of the processes are off, as faketime takes it.
    pub(crate) offsets: &'static [&'static str],
}

const fn fault(
    name: &'static str,
    title: &'static str,
    servers: fn() -> Result<Servers>,
    act: fn(&mut Field) -> Result<()>,
) -> Fault {
    Fault { name, title, servers, act, silences: false, is_for_the_soak: false, offsets: &[] }
}

impl Fault {
    const fn silences(self) -> Self {
        Self { silences: true, ..self }
    }

    const fn in_the_soak(self) -> Self {
        Self { is_for_the_soak: true, ..self }
    }
}

/// All of them.
pub(crate) const ALL: &[Fault] = &[
    fault("late-replies", "replies 30 ms late", one, network::late_replies).in_the_soak(),
    fault("too-late-replies", "replies after the deadline", one, network::replies_after_the_deadline)
        .silences()
        .in_the_soak(),
    fault("replies-cut", "replies cut off, the call having run", one, network::replies_cut)
        .silences()
        .in_the_soak(),
    fault("requests-cut", "requests cut in half", one, network::requests_cut).silences().in_the_soak(),
    fault("half-open", "connections half-open", one, network::half_open).silences().in_the_soak(),
    fault("slices", "packets of a few bytes", one, network::slices).in_the_soak(),
    fault("refused", "connections refused", one, network::refused).silences().in_the_soak(),
    fault("frozen", "server frozen (SIGSTOP)", one, server::frozen).silences().in_the_soak(),
    fault("killed", "killed, restarted empty", one, server::killed).silences().in_the_soak(),
    fault("killed-but-kept", "killed, restarted from its file", kept, server::killed_but_kept).silences(),
    fault("paused", "CLIENT PAUSE", one, server::paused).silences().in_the_soak(),
    fault("scripts-flushed", "SCRIPT FLUSH, 20 times", one, server::scripts_flushed).in_the_soak(),
    fault("flushed", "FLUSHALL", one, server::flushed).in_the_soak(),
    fault("full", "memory full", one, server::full).in_the_soak(),
    fault("no-right-to-write", "right to SET lost", one, server::no_right_to_write).in_the_soak(),
    fault("no-right-to-expire", "right to PEXPIRE lost", one, server::no_right_to_expire).in_the_soak(),
    fault("no-right-to-run", "right to EVALSHA lost", one, server::no_right_to_run).in_the_soak(),
    fault("read-only", "server turned replica", one, server::read_only).in_the_soak(),
    fault("failover", "failover behind one address", two, failover::behind_one_address)
        .silences()
        .in_the_soak(),
    fault("failover-ahead", "failover, new clock 1 h ahead", ahead, failover::behind_one_address).silences(),
    fault("failover-behind", "failover, new clock 1 h behind", behind, failover::behind_one_address)
        .silences(),
    Fault {
        offsets: &["+5h", "-5h"],
        ..fault("callers-clock", "callers' clocks 5 h off", one, server::nothing)
    },
    fault("cluster-failover", "cluster: primary killed", replicated, cluster::primary_killed),
    fault("cluster-by-hand", "cluster: replica promoted by hand", replicated, cluster::promoted_by_hand),
    fault("cluster-handed-over", "cluster: primary hands over", replicated, cluster::handed_over),
    fault("cluster-gone", "cluster: primary without replica", three, cluster::primary_gone),
    fault("cluster-slots", "cluster: slots migrated", three, cluster::slots_migrated),
    fault("cluster-node-added", "cluster: node added", three, cluster::node_added),
    fault("sentinel-failover", "sentinels: primary killed", sentinels, failover::sentinel_kill).silences(),
    fault("sentinel-by-hand", "sentinels: failover by hand", sentinels, failover::sentinel_by_hand),
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
    Ok(Servers::Cluster(RedisCluster::start(3, 1)?))
}

fn sentinels() -> Result<Servers> {
    Ok(Servers::Sentinels(RedisSentinels::start(3, 1)?))
}
