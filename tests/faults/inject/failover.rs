//! Faults in which another server takes over.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use portcullis_histories::checker::Extent;
use portcullis_servers::{RedisServer, ServerSetup};

use super::server::ok;
use crate::environment::{Environment, Servers, wait};

/// Starts a server and a replica whose clock is shifted by `offset`, in libfaketime's format.
pub(crate) fn pair(offset: Option<&str>) -> Result<Servers> {
    let primary = diskless().server()?;
    let mut setup = diskless();
    if let Some(offset) = offset {
        let library = faketime_library()?;
        setup = setup
            .environment("LD_PRELOAD", &library)
            .environment("FAKETIME", offset)
            .environment("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }
    let replica = setup.server()?;
    replicate(&replica, &primary)?;
    let mut servers = Servers::single(primary)?;
    if let Servers::Pair(pair) = &mut servers {
        pair.replica = Some(replica);
    }
    Ok(servers)
}

/// The setup of servers without state on disk. By default a replica stores the primary's snapshot on disk, and loads it when it
/// is killed and restarted.
pub(crate) fn diskless() -> ServerSetup {
    ServerSetup::new().arguments(&["--repl-diskless-sync-delay", "0", "--repl-diskless-load", "swapdb"])
}

/// Kills the primary, promotes the replica behind the same address, and restarts the former primary as a replica.
pub(crate) fn behind_one_address(environment: &mut Environment) -> Result<()> {
    // After an earlier fault the replica may not have synchronized with the primary yet.
    wait_until_in_sync(environment.pair()?.replica.as_ref().context("the pair has no replica")?)?;
    let from = environment.begin_fault();
    let pair = environment.pair()?;
    let replica = pair.replica.as_mut().context("the pair has no replica")?;
    pair.primary.kill()?;
    wait(500);
    ok(replica, &["REPLICAOF", "NO", "ONE"])?;
    std::mem::swap(&mut pair.primary, replica);
    pair.proxy.set_target(pair.primary.port());
    pair.proxy.close_connections();
    environment.end_fault();
    environment.record_loss(from, Extent::Latest);
    wait(1_000);
    let pair = environment.pair()?;
    let replica = pair.replica.as_mut().context("the pair has no replica")?;
    replica.restart()?;
    replicate(replica, &pair.primary)
}

pub(crate) fn sentinel_kill(environment: &mut Environment) -> Result<()> {
    // After an earlier failover there may be no replica yet that can take over.
    environment.sentinels()?.wait_until_replicated()?;
    let from = environment.begin_fault();
    let sentinels = environment.sentinels()?;
    let killed = sentinels.kill_primary()?;
    sentinels.wait_until_ok()?;
    environment.end_fault();
    environment.record_loss(from, Extent::Latest);
    wait(2_000);
    Ok(environment.sentinels()?.server_mut(killed).restart()?)
}

pub(crate) fn sentinel_by_hand(environment: &mut Environment) -> Result<()> {
    environment.sentinels()?.wait_until_replicated()?;
    let from = environment.begin_fault();
    let sentinels = environment.sentinels()?;
    let former = sentinels.primary()?;
    sentinels.failover()?;
    // Until the sentinels reconfigure it, the former primary acts as a primary, and what it receives is lost.
    let is_replica = |reply: String| reply.starts_with("slave");
    let begun = Instant::now();
    while !is_replica(environment.sentinels()?.servers()[former].cli(&["ROLE"])?) {
        ensure!(begun.elapsed() < Duration::from_secs(60), "the former primary does not become a replica");
        wait(50);
    }
    environment.end_fault();
    environment.record_loss(from, Extent::Latest);
    Ok(())
}

fn replicate(replica: &RedisServer, primary: &RedisServer) -> Result<()> {
    ok(replica, &["REPLICAOF", "127.0.0.1", &primary.port().to_string()])?;
    wait_until_in_sync(replica)
}

fn wait_until_in_sync(replica: &RedisServer) -> Result<()> {
    for _ in 0..200 {
        if replica.cli(&["INFO", "replication"])?.contains("master_link_status:up") {
            return Ok(());
        }
        wait(50);
    }
    anyhow::bail!("the replica does not reach the primary")
}

/// The libraries that the `faketime` command preloads, for use with a server.
fn faketime_library() -> Result<String> {
    let output = std::process::Command::new("faketime").args(["-f", "+0", "printenv", "LD_PRELOAD"]).output();
    let output = output.context("faketime is not installed: `cargo xtask faults` installs it")?;
    let library = String::from_utf8(output.stdout)?.trim().to_owned();
    ensure!(!library.is_empty(), "faketime preloads nothing");
    // The allocator must not read the clock while libfaketime looks up the clock functions. The C library's allocator does not.
    Ok(format!("{library} libc.so.6"))
}
