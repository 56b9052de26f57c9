//! Faults of a single server.

use anyhow::{Result, ensure};
use portcullis_histories::checker::Extent;
use portcullis_servers::RedisServer;

use crate::environment::{Environment, wait};

pub(crate) fn frozen(environment: &mut Environment) -> Result<()> {
    environment.begin_fault();
    let server = &environment.pair()?.primary;
    server.signal("STOP")?;
    wait(2_000);
    server.signal("CONT")?;
    environment.end_fault();
    Ok(())
}

pub(crate) fn killed(environment: &mut Environment) -> Result<()> {
    let from = kill_and_restart(environment)?;
    environment.record_loss(from, Extent::All);
    Ok(())
}

pub(crate) fn killed_but_kept(environment: &mut Environment) -> Result<()> {
    kill_and_restart(environment).map(drop)
}

fn kill_and_restart(environment: &mut Environment) -> Result<u64> {
    let from = environment.begin_fault();
    let server = &mut environment.pair()?.primary;
    server.kill()?;
    wait(1_500);
    server.restart()?;
    environment.end_fault();
    Ok(from)
}

pub(crate) fn paused(environment: &mut Environment) -> Result<()> {
    environment.begin_fault();
    ok(&environment.pair()?.primary, &["CLIENT", "PAUSE", "1500", "ALL"])?;
    wait(1_500);
    environment.end_fault();
    Ok(())
}

pub(crate) fn scripts_flushed(environment: &mut Environment) -> Result<()> {
    environment.begin_fault();
    for _ in 0..20 {
        ok(&environment.pair()?.primary, &["SCRIPT", "FLUSH"])?;
        wait(80);
    }
    environment.end_fault();
    Ok(())
}

pub(crate) fn flushed(environment: &mut Environment) -> Result<()> {
    let from = environment.begin_fault();
    ok(&environment.pair()?.primary, &["FLUSHALL"])?;
    environment.end_fault();
    environment.record_loss(from, Extent::All);
    Ok(())
}

pub(crate) fn full(environment: &mut Environment) -> Result<()> {
    between(environment, &["CONFIG", "SET", "maxmemory", "1"], &["CONFIG", "SET", "maxmemory", "0"])
}

pub(crate) fn no_right_to_write(environment: &mut Environment) -> Result<()> {
    between(environment, &["ACL", "SETUSER", USER, "-set"], &["ACL", "SETUSER", USER, "+set"])
}

pub(crate) fn no_right_to_expire(environment: &mut Environment) -> Result<()> {
    between(environment, &["ACL", "SETUSER", USER, "-pexpire"], &["ACL", "SETUSER", USER, "+pexpire"])
}

pub(crate) fn no_right_to_run(environment: &mut Environment) -> Result<()> {
    between(environment, &["ACL", "SETUSER", USER, "-evalsha"], &["ACL", "SETUSER", USER, "+evalsha"])
}

pub(crate) fn read_only(environment: &mut Environment) -> Result<()> {
    // No server listens on that port, so the replica keeps its data.
    between(environment, &["REPLICAOF", "127.0.0.1", "1"], &["REPLICAOF", "NO", "ONE"])
}

/// Changes nothing, for a fault that is not in the servers.
#[expect(clippy::unnecessary_wraps, reason = "it is one of the faults, which may fail")]
pub(crate) fn nothing(environment: &mut Environment) -> Result<()> {
    environment.begin_fault();
    wait(2_000);
    environment.end_fault();
    Ok(())
}

fn between(environment: &mut Environment, fault: &[&str], repair: &[&str]) -> Result<()> {
    environment.begin_fault();
    let server = &environment.pair()?.primary;
    ok(server, fault)?;
    wait(1_500);
    ok(server, repair)?;
    environment.end_fault();
    Ok(())
}

/// Runs a command whose reply must be `OK`.
pub(super) fn ok(server: &RedisServer, command: &[&str]) -> Result<()> {
    let reply = server.cli(command)?;
    ensure!(reply.starts_with("OK"), "{}: {reply}", command.join(" "));
    Ok(())
}

/// The user in the URL.
const USER: &str = "portcullis";
