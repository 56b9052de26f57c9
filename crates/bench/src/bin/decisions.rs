//! Measures the decisions that a process gets from one Redis, and the cost of one while that Redis is dead:
//! `cargo xtask bench decisions`.
//!
//! One process with two threads calls its own `redis-server` over one connection, with a given number of concurrent calls.
//! It prints medians over interleaved rounds: decisions per second, latency, and the share of a core that the server uses.
//! Application and server share the machine, so two cores show less than two machines would.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use portcullis::key::Key;
use portcullis::redis::RedisStore;
use portcullis::store::{Check, Checks, Store as _};
use portcullis::{Policy, Quota, Secret};
use portcullis_bench::{machine, markdown, marks_of_quick, medians};
use portcullis_servers::RedisServer;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench decisions", bin_name = "cargo xtask bench decisions")]
struct Options {
    /// A smoke run of a few seconds, whose figures mean nothing
    #[arg(long)]
    quick: bool,
}

const HEADER: [&str; 5] =
    ["algorithm", "at a time", "decisions per second", "median latency", "of a core of the server"];
const CONCURRENCY: [usize; 3] = [1, 16, 256];
const KEYS: u32 = 10_000;
/// Long, because a late answer is not an error here.
const DEADLINE: Duration = Duration::from_secs(10);

/// One round of one case.
#[derive(Clone, Copy, Debug)]
struct Round {
    per_second: f64,
    latency: Duration,
    server_cpu: f64,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let (rounds, length) =
        if options.quick { (1, Duration::from_millis(50)) } else { (11, Duration::from_millis(600)) };
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut server = RedisServer::start().context("a redis-server")?;
    let store =
        runtime.block_on(RedisStore::builder(server.url()).deadline(DEADLINE).denial_memory(0).connect())?;
    let policies = [
        Policy::gcra("GCRA", Quota::per_minute(1_000).burst(1_000)),
        Policy::fixed_window("fixed window", Quota::per_minute(1_000)),
        Policy::sliding_window("sliding window", Quota::per_minute(1_000)),
        Policy::sliding_log("sliding log of 1 000", Quota::per_minute(1_000)),
    ];
    let cases: Vec<_> = policies.iter().flat_map(|policy| CONCURRENCY.map(|tasks| (policy, tasks))).collect();
    let mut measured = vec![Vec::new(); cases.len()];
    for _ in 0..rounds {
        for (own, (policy, tasks)) in measured.iter_mut().zip(&cases) {
            own.push(round(&runtime, &server, &store, policy, *tasks, length)?);
        }
    }
    let version = server.info("server", "redis_version:")?;
    let rows = cases.iter().zip(measured).map(|((policy, tasks), mut own)| {
        own.sort_by(|one, other| one.per_second.total_cmp(&other.per_second));
        let Round { per_second, latency, server_cpu } = own[own.len() / 2];
        let millis = latency.as_secs_f64() * 1_000.0;
        vec![
            policy.name().to_string(),
            tasks.to_string(),
            format!("{per_second:.0}"),
            format!("{millis:.2} ms"),
            format!("{:.0} %", server_cpu * 100.0),
        ]
    });
    let rows: Vec<_> = rows.collect();
    server.kill()?;
    let dead = while_dead(&runtime, &store, &policies[0])?;
    let (quick, warning) = marks_of_quick(options.quick);
    println!(
        "`cargo xtask bench decisions{quick}`\n\n{}; Redis {version} on the same machine.{warning}\n\n\
         Medians of {rounds} interleaved rounds of {} ms, with {KEYS} keys.\n\n{}\n\
         While the server is dead, a check took {:.1} µs.",
        machine()?,
        length.as_millis(),
        markdown(&HEADER, &rows),
        dead / 1_000.0,
    );
    Ok(())
}

fn round(
    runtime: &Runtime,
    server: &RedisServer,
    store: &RedisStore,
    policy: &Policy,
    tasks: usize,
    length: Duration,
) -> Result<Round> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);

    let cpu = cpu(server)?;
    let start = Instant::now();
    let mut latencies = runtime.block_on(async {
        let mut callers = JoinSet::new();
        for _ in 0..tasks {
            let (store, policy) = (store.clone(), policy.clone());
            callers.spawn(async move {
                let mut latencies = Vec::new();
                while start.elapsed() < length {
                    let number = u32::try_from(NEXT.fetch_add(1, Ordering::Relaxed) % KEYS as usize)?;
                    let called = Instant::now();
                    black_box(store.check(Checks::one(policy.clone(), key(number)?, 1)).await?.is_allowed());
                    latencies.push(called.elapsed());
                }
                anyhow::Ok(latencies)
            });
        }
        let mut all = Vec::new();
        for latencies in callers.join_all().await {
            all.extend(latencies?);
        }
        anyhow::Ok(all)
    })?;
    let elapsed = start.elapsed().as_secs_f64();
    ensure!(!latencies.is_empty(), "nothing was decided");
    latencies.sort_unstable();
    #[expect(clippy::cast_precision_loss, reason = "a count far below 2^52")]
    let per_second = latencies.len() as f64 / elapsed;
    let server_cpu = (self::cpu(server)? - cpu) / elapsed;
    Ok(Round { per_second, latency: latencies[latencies.len() / 2], server_cpu })
}

/// User and system time of the server, in seconds.
fn cpu(server: &RedisServer) -> Result<f64> {
    let spent = |prefix| -> Result<f64> { Ok(server.info("cpu", prefix)?.parse()?) };
    Ok(spent("used_cpu_user:")? + spent("used_cpu_sys:")?)
}

/// Nanoseconds per check that gets no answer.
fn while_dead(runtime: &Runtime, store: &RedisStore, policy: &Policy) -> Result<f64> {
    let check = Check { policy: policy.clone(), key: key(1)?, cost: 1 };
    let call = || store.check(Checks::one(check.policy.clone(), check.key, check.cost));
    // The first checks detect that the server is gone.
    while runtime.block_on(call()).is_ok() {}
    std::thread::sleep(Duration::from_millis(100));
    let run = Box::new(|times| (0..times).for_each(|_| drop(runtime.block_on(call()))));
    Ok(medians(&mut [("dead", run)], 11, 10_000)[0])
}

fn key(number: u32) -> Result<Key> {
    let mut hasher = Secret::published().hasher();
    hasher.writer().part("user", &number.to_be_bytes());
    Ok(hasher.finish()?)
}
