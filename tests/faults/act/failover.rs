//! Another server takes over.

use anyhow::{Context as _, Result, ensure};
use portcullis_testing::{RedisServer, ServerSetup};
use portcullis_tests::faults::checker::Extent;

use super::server::ok;
use crate::field::{Field, Servers, wait};

/// A server and a replica, whose clock is off by `offset` as libfaketime takes it.
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

/// A replica keeps what it is sent on its disk otherwise, and has it again when it is killed and restarted.
pub(crate) fn diskless() -> ServerSetup {
    ServerSetup::new().arguments(&["--repl-diskless-sync-delay", "0", "--repl-diskless-load", "swapdb"])
}

/// The primary dies, the replica is promoted, and the address leads to it; then the old one is its replica.
pub(crate) fn behind_one_address(field: &mut Field) -> Result<()> {
    // After another fault it may still have to be told what the primary has forgotten.
    wait_until_in_step(field.pair()?.replica.as_ref().context("there is a replica")?)?;
    let from = field.harm();
    let pair = field.pair()?;
    let replica = pair.replica.as_mut().context("there is a replica")?;
    pair.primary.kill()?;
    wait(500);
    ok(replica, &["REPLICAOF", "NO", "ONE"])?;
    std::mem::swap(&mut pair.primary, replica);
    pair.proxy.lead_to(pair.primary.port());
    pair.proxy.cut();
    field.repair();
    field.lost(from, Extent::Latest);
    wait(1_000);
    let pair = field.pair()?;
    let replica = pair.replica.as_mut().context("there is a replica")?;
    replica.restart()?;
    replicate(replica, &pair.primary)
}

pub(crate) fn sentinel_kill(field: &mut Field) -> Result<()> {
    // After another failover it may take a while until there is one who can take over.
    field.sentinels()?.wait_until_replicated()?;
    let from = field.harm();
    let sentinels = field.sentinels()?;
    let killed = sentinels.kill_primary()?;
    sentinels.wait_until_ok()?;
    field.repair();
    field.lost(from, Extent::Latest);
    wait(2_000);
    Ok(field.sentinels()?.server_mut(killed).restart()?)
}

pub(crate) fn sentinel_by_hand(field: &mut Field) -> Result<()> {
    field.sentinels()?.wait_until_replicated()?;
    let from = field.harm();
    let sentinels = field.sentinels()?;
    let former = sentinels.primary()?;
    sentinels.failover()?;
    // Until the sentinels set it right, the former primary takes itself for one, and what it is told is lost.
    let has_heard = |reply: String| reply.starts_with("slave");
    while !has_heard(field.sentinels()?.servers()[former].cli(&["ROLE"])?) {
        wait(50);
    }
    field.repair();
    field.lost(from, Extent::Latest);
    Ok(())
}

fn replicate(replica: &RedisServer, primary: &RedisServer) -> Result<()> {
    ok(replica, &["REPLICAOF", "127.0.0.1", &primary.port().to_string()])?;
    wait_until_in_step(replica)
}

fn wait_until_in_step(replica: &RedisServer) -> Result<()> {
    for _ in 0..200 {
        if replica.cli(&["INFO", "replication"])?.contains("master_link_status:up") {
            return Ok(());
        }
        wait(50);
    }
    anyhow::bail!("the replica does not reach the primary")
}

/// What the command of that name preloads, for a server.
fn faketime_library() -> Result<String> {
    let output = std::process::Command::new("faketime").args(["-f", "+0", "printenv", "LD_PRELOAD"]).output();
    let output = output.context("faketime is not installed: `cargo xtask faults` installs it")?;
    let library = String::from_utf8(output.stdout)?.trim().to_owned();
    ensure!(!library.is_empty(), "faketime preloads nothing");
    // Its allocation must not ask for the time while the library is about to find out who tells it: the one of the C
    // library does not.
    Ok(format!("{library} libc.so.6"))
}
