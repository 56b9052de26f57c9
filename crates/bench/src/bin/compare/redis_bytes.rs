//! Bytes per key in Redis.

use anyhow::{Result, bail, ensure};
use portcullis_bench::redis::{self, Cmd, Value};
use portcullis_bench::server::{Server, admits};

use crate::attack::member;
use crate::contenders::{CONTENDERS, Contender, PERIOD};
use crate::memory_bytes::{SITUATIONS, Situation};
use crate::table::{Table, thousands};

/// Bytes per key in one situation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes {
    /// The result of `MEMORY USAGE`.
    pub(crate) reported: f64,
    /// By how much the server's `used_memory` grew.
    pub(crate) grown: f64,
}

/// By the names of the limiters, in four situations.
pub(crate) type BytesOfLimiters = Vec<(&'static str, [Bytes; 4])>;

/// Measures all contenders in all situations, and finally the sorted set of the published log.
pub(crate) fn measure(server: &mut Server) -> Result<BytesOfLimiters> {
    let mut rows = Vec::new();
    for contender in CONTENDERS {
        rows.push((contender.name, each(|situation| per_key(server, contender, situation))?));
    }
    rows.push(("sorted set, as published", each(|situation| sorted_set(server, situation))?));
    Ok(rows)
}

pub(crate) fn table(memory: &[[f64; 4]], redis: &[(&str, [Bytes; 4])]) -> Table {
    let title = "Bytes per key: in memory / in Redis by MEMORY USAGE / in Redis by used_memory";
    let header = ["", "100/min, 1 used", "100/min, all used", "1 000/min, all used", "10 000/min, all used"];
    let mut table = Table::new("bytes", title, &header);
    for (row, (name, redis)) in redis.iter().enumerate() {
        let cell = |situation: usize| {
            let memory = memory.get(row).map_or("-".to_owned(), |memory| thousands(memory[situation]));
            let Bytes { reported, grown } = redis[situation];
            format!("{memory} / {} / {}", thousands(reported), thousands(grown))
        };
        table.push(name, (0..SITUATIONS.len()).map(cell));
    }
    table
}

fn each(mut measure: impl FnMut(Situation) -> Result<Bytes>) -> Result<[Bytes; 4]> {
    let [a, b, c, d] = SITUATIONS;
    Ok([measure(a)?, measure(b)?, measure(c)?, measure(d)?])
}

fn per_key(server: &mut Server, contender: &Contender, situation: Situation) -> Result<Bytes> {
    // Long enough that nothing expires during the measurement.
    let strategy = contender.strategy(situation.limit, PERIOD * 60);
    let cost = strategy.limit().min(situation.units.into());
    let recorded = server.recorded(strategy, 0, cost)?;
    grown(server, situation.keys, |server, users| {
        let commands: Vec<_> = users.map(|user| recorded.of(user)).collect();
        let (_, replies) = server.run(&commands, 100)?;
        ensure!(replies.iter().all(admits), "all fit");
        Ok(())
    })
}

fn sorted_set(server: &mut Server, situation: Situation) -> Result<Bytes> {
    // Slow to create, and all of the same size.
    grown(server, situation.keys / 20, |server, users| {
        let add = |user: u32| {
            let command = redis::cmd("ZADD").arg(format!("limit:{user:032x}"));
            (0..u64::from(situation.units))
                .fold(command, |command, unit| command.arg(1_800_000_000_000_000 + unit).arg(member(unit)))
        };
        let expire = |user: u32| redis::cmd("EXPIRE").arg(format!("limit:{user:032x}")).arg(3_600);
        let commands: Vec<Cmd> = users.flat_map(|user| [add(user), expire(user)]).collect();
        server.run(&commands, 100)?;
        Ok(())
    })
}

/// Fills an empty server by steps of users, and measures what it holds.
pub(crate) fn grown(
    server: &mut Server,
    keys: u32,
    mut fill: impl FnMut(&mut Server, std::ops::Range<u32>) -> Result<()>,
) -> Result<Bytes> {
    server.clear()?;
    let before: f64 = server.info("memory", "used_memory")?.parse()?;
    for first in (0..keys).step_by(STEP as usize) {
        fill(server, first..(first + STEP).min(keys))?;
    }
    let after: f64 = server.info("memory", "used_memory")?.parse()?;
    let keys_held = redis::cmd("DBSIZE").query(&mut server.connection)?;
    ensure!(keys_held == Value::Integer(keys.into()), "{keys_held:?} keys instead of {keys}");
    let scanned = redis::cmd("SCAN").arg(0).arg("COUNT").arg(SAMPLE).query(&mut server.connection)?;
    let Value::Array(scanned) = scanned else { bail!("{scanned:?} is no cursor with names") };
    let [_, Value::Array(names)] = &scanned[..] else { bail!("{scanned:?} is no cursor with names") };
    let usage = |name: &Value| {
        let name = redis::text(name.clone())?;
        Ok(redis::cmd("MEMORY").arg("USAGE").arg(name).arg("SAMPLES").arg(0))
    };
    let (_, usages) = server.run(&names.iter().map(usage).collect::<Result<Vec<_>>>()?, 10)?;
    let sum: i64 =
        usages.iter().map(|usage| if let Value::Integer(bytes) = usage { *bytes } else { 0 }).sum();
    Ok(Bytes { reported: sum as f64 / usages.len() as f64, grown: (after - before) / f64::from(keys) })
}

/// The number of users whose commands are in memory at a time.
const STEP: u32 = 100;
const SAMPLE: u32 = 500;
