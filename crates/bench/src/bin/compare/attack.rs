//! One flooding client, against the published log, the counters that replaced it, and the algorithms of this workspace.
//!
//! The log: <https://github.com/peterkhayes/rolling-rate-limiter>, the package of "Better Rate Limiting With Redis Sorted
//! Sets". It also adds denied requests, so its set holds what the client has sent, not what it was allowed.

use anyhow::Result;
use portcullis_bench::Spread;
use portcullis_bench::redis::{self, Cmd};
use portcullis_bench::server::{BATCH, Server};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng as _, SeedableRng as _};

use crate::contenders::named;
use crate::redis_cpu::{Case, DAY, ROUNDS};
use crate::table::{Table, digits};

/// Server CPU per request of each row at each limit.
pub(crate) fn measure(server: &mut Server) -> Result<Table> {
    let mut rows: Vec<[Vec<f64>; 3]> = vec![Default::default(); PUBLISHED.len() + 2 * OURS.len()];
    for (column, limit) in LIMITS.into_iter().enumerate() {
        let case = |name: &&str| Case::new(server, named(name).strategy(limit, DAY));
        let ours = OURS.iter().map(case).collect::<Result<Vec<_>>>()?;
        for round in 0..ROUNDS {
            for ((_, published), row) in PUBLISHED.iter().zip(&mut rows) {
                // The largest sets are slow, and vary little.
                if round < ROUNDS / 3 || !matches!(published, Published::SortedSet { .. }) {
                    row[column].push(published.cost(server, limit)?);
                }
            }
            for (case, rows) in ours.iter().zip(rows[PUBLISHED.len()..].chunks_mut(2)) {
                rows[0][column].push(case.denied(server, 1, REQUESTS)?);
                rows[1][column].push(case.allowed(server, REQUESTS)?);
            }
        }
    }
    let medians: Vec<_> = rows.into_iter().map(|row| row.map(|rounds| Spread::of(rounds).median)).collect();
    Ok(table(&medians))
}

fn table(rows: &[[f64; 3]]) -> Table {
    let title = "Server CPU per request of one hammering client in microseconds";
    let header = ["", "100 per period", "1 000 per period", "10 000 per period"];
    let mut table = Table::new("attack", title, &header);
    let ours = OURS.iter().flat_map(|name| [format!("our {name}, denied"), format!("our {name}, allowed")]);
    let names: Vec<_> = PUBLISHED.iter().map(|(name, _)| (*name).to_owned()).chain(ours).collect();
    for (name, row) in names.iter().zip(rows) {
        table.push(name, row.map(digits));
    }
    let counters = rows[COUNTERS];
    for (name, row) in names.iter().zip(rows).filter(|(name, _)| name.contains("log")) {
        let times = [0, 1, 2].map(|column| format!("{} ×", digits(row[column] / counters[column])));
        table.push(&format!("{name}, against the counters"), times);
    }
    table
}

/// A published limiter.
#[derive(Clone, Copy, Debug)]
enum Published {
    /// The log, after the client has sent `times` its limit for a period.
    SortedSet { times: u32 },
    /// Two counters. The older one loses weight over time.
    Counters,
    /// One counter: the minimum of a limiter.
    Counter,
}

impl Published {
    /// Server CPU per request.
    fn cost(self, server: &mut Server, limit: u32) -> Result<f64> {
        server.clear()?;
        let (request, before, requests, batch): (fn(u64, u64) -> Vec<Cmd>, _, _, _) = match self {
            Self::SortedSet { times } => {
                let size = u64::from(times * limit);
                (
                    log_request,
                    size,
                    (LISTED / size).clamp(10, 2_000),
                    (LISTED_PER_BATCH / size).clamp(1, BATCH as u64),
                )
            }
            Self::Counters => (counters_request, 0, REQUESTS as u64, BATCH as u64),
            Self::Counter => (counter_request, 0, REQUESTS as u64, BATCH as u64),
        };
        let held: Vec<Cmd> = (0..before).map(|index| add(index, before)).collect();
        if !held.is_empty() {
            server.run(&held, BATCH)?;
        }
        let commands: Vec<Vec<Cmd>> =
            (before..before + requests).map(|index| request(index, before)).collect();
        let per_request = commands[0].len();
        let (spent, _) = server.run(&commands.concat(), batch as usize * per_request)?;
        Ok(spent * per_request as f64)
    }
}

/// The request with this index, at the given number of requests per period.
fn log_request(index: u64, per_period: u64) -> Vec<Cmd> {
    let expired = redis::cmd("ZREMRANGEBYSCORE").arg(KEY).arg(0).arg(stamp(index, per_period) - MINUTE);
    let list = redis::cmd("ZRANGE").arg(KEY).arg(0).arg(-1).arg("WITHSCORES");
    vec![redis::cmd("MULTI"), expired, add(index, per_period), list, expire(KEY, 60), redis::cmd("EXEC")]
}

fn add(index: u64, per_period: u64) -> Cmd {
    redis::cmd("ZADD").arg(KEY).arg(stamp(index, per_period)).arg(member(index))
}

fn stamp(index: u64, per_period: u64) -> u64 {
    1_800_000_000_000_000 + index * MINUTE / per_period
}

/// A random UUID, in its usual form.
pub(crate) fn member(index: u64) -> String {
    let mut random = Pcg64Mcg::seed_from_u64(index);
    let (high, low) = (random.next_u64(), random.next_u64());
    let (a, b, c) = (high >> 32, high >> 16 & 0xffff, high & 0xfff);
    format!("{a:08x}-{b:04x}-4{c:03x}-{:04x}-{:012x}", 0x8000 | low >> 50, low & 0xffff_ffff_ffff)
}

fn counters_request(_: u64, _: u64) -> Vec<Cmd> {
    let previous = redis::cmd("GET").arg("limit:one:29999999");
    let current = redis::cmd("INCR").arg(CURRENT);
    vec![redis::cmd("MULTI"), previous, current, expire(CURRENT, 120), redis::cmd("EXEC")]
}

fn counter_request(_: u64, _: u64) -> Vec<Cmd> {
    vec![redis::cmd("INCR").arg(CURRENT), expire(CURRENT, 60)]
}

fn expire(key: &str, seconds: u32) -> Cmd {
    redis::cmd("EXPIRE").arg(key).arg(seconds)
}

const PUBLISHED: &[(&str, Published)] = &[
    ("log as published, client at 2 × its limit", Published::SortedSet { times: 2 }),
    ("log as published, client at 10 × its limit", Published::SortedSet { times: 10 }),
    ("two counters: MULTI, GET, INCR, EXPIRE, EXEC", Published::Counters),
    ("one counter: INCR, EXPIRE", Published::Counter),
];
/// The row that the logs are compared with.
const COUNTERS: usize = 2;
const OURS: &[&str] = &["sliding log", "sliding window", "fixed window", "token bucket"];
const LIMITS: [u32; 3] = [100, 1_000, 10_000];
const REQUESTS: usize = 5_000;
/// Entries of a sorted set that are listed in total.
const LISTED: u64 = 1_000_000;
/// Entries of a sorted set that are listed in one batch.
const LISTED_PER_BATCH: u64 = 20_000;
const KEY: &str = "limit:one";
/// The counter of the current period.
const CURRENT: &str = "limit:one:30000000";
const MINUTE: u64 = 60_000_000;
