//! To one server.

use anyhow::{Result, ensure};
use portcullis_testing::RedisServer;
use portcullis_tests::faults::checker::Extent;

use crate::field::{Field, wait};

pub(crate) fn frozen(field: &mut Field) -> Result<()> {
    field.harm();
    let server = &field.pair()?.primary;
    server.signal("STOP")?;
    wait(2_000);
    server.signal("CONT")?;
    field.repair();
    Ok(())
}

pub(crate) fn killed(field: &mut Field) -> Result<()> {
    let from = kill_and_restart(field)?;
    field.lost(from, Extent::All);
    Ok(())
}

pub(crate) fn killed_but_kept(field: &mut Field) -> Result<()> {
    kill_and_restart(field).map(drop)
}

fn kill_and_restart(field: &mut Field) -> Result<u64> {
    let from = field.harm();
    let server = &mut field.pair()?.primary;
    server.kill()?;
    wait(1_500);
    server.restart()?;
    field.repair();
    Ok(from)
}

pub(crate) fn paused(field: &mut Field) -> Result<()> {
    field.harm();
    ok(&field.pair()?.primary, &["CLIENT", "PAUSE", "1500", "ALL"])?;
    wait(1_500);
    field.repair();
    Ok(())
}

pub(crate) fn scripts_flushed(field: &mut Field) -> Result<()> {
    field.harm();
    for _ in 0..20 {
        ok(&field.pair()?.primary, &["SCRIPT", "FLUSH"])?;
        wait(80);
    }
    field.repair();
    Ok(())
}

pub(crate) fn flushed(field: &mut Field) -> Result<()> {
    let from = field.harm();
    ok(&field.pair()?.primary, &["FLUSHALL"])?;
    field.repair();
    field.lost(from, Extent::All);
    Ok(())
}

pub(crate) fn full(field: &mut Field) -> Result<()> {
    between(field, &["CONFIG", "SET", "maxmemory", "1"], &["CONFIG", "SET", "maxmemory", "0"])
}

pub(crate) fn no_right_to_write(field: &mut Field) -> Result<()> {
    between(field, &["ACL", "SETUSER", USER, "-set"], &["ACL", "SETUSER", USER, "+set"])
}

pub(crate) fn no_right_to_expire(field: &mut Field) -> Result<()> {
    between(field, &["ACL", "SETUSER", USER, "-pexpire"], &["ACL", "SETUSER", USER, "+pexpire"])
}

pub(crate) fn no_right_to_run(field: &mut Field) -> Result<()> {
    between(field, &["ACL", "SETUSER", USER, "-evalsha"], &["ACL", "SETUSER", USER, "+evalsha"])
}

pub(crate) fn read_only(field: &mut Field) -> Result<()> {
    // Nobody listens there, and so it keeps what it has.
    between(field, &["REPLICAOF", "127.0.0.1", "1"], &["REPLICAOF", "NO", "ONE"])
}

/// Nothing at all: for what is wrong elsewhere.
pub(crate) fn nothing(field: &mut Field) -> Result<()> {
    field.harm();
    wait(2_000);
    field.repair();
    Ok(())
}

fn between(field: &mut Field, harm: &[&str], repair: &[&str]) -> Result<()> {
    field.harm();
    let server = &field.pair()?.primary;
    ok(server, harm)?;
    wait(1_500);
    ok(server, repair)?;
    field.repair();
    Ok(())
}

/// Runs a command that has nothing to say.
pub(super) fn ok(server: &RedisServer, command: &[&str]) -> Result<()> {
    let reply = server.cli(command)?;
    ensure!(reply.starts_with("OK"), "{}: {reply}", command.join(" "));
    Ok(())
}

/// Whom the URL names.
const USER: &str = "portcullis";
