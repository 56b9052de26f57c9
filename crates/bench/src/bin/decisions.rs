//! Measures the decisions that a process gets from one Redis, and the cost of one while that Redis is dead:
//! `cargo xtask bench decisions`.
//!
//! One process with two threads calls its own `redis-server` over one connection, with a given number of concurrent calls.
//! It prints medians over interleaved rounds: decisions per second, latency, and the share of a core that the server uses.
//! Application and server share the machine, so two cores show less than two machines would.

use std::hint::black_box;
use std::time::Duration;

use anyhow::Result;
use clap::Parser as _;
use portcullis::redis::RedisStore;
use portcullis::store::{Checks, Store as _};
use portcullis::{Policy, Quota};
use portcullis_bench::server::{Calls, Server, key};
use portcullis_bench::{BenchOptions, machine, markdown, medians};
use tokio::runtime::{Builder, Runtime};

const HEADER: [&str; 5] =
    ["algorithm", "at a time", "decisions per second", "median latency", "of a core of the server"];
const CONCURRENCY: [usize; 3] = [1, 16, 256];
const KEYS: usize = 10_000;

fn main() -> Result<()> {
    let options = BenchOptions::parse();
    let (rounds, length) =
        if options.quick { (1, Duration::from_millis(50)) } else { (11, Duration::from_millis(600)) };
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut server = Server::start(&[])?;
    let store = runtime.block_on(server.connect())?;
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
            own.push(round(&runtime, &mut server, &store, policy, *tasks, length)?);
        }
    }
    let version = server.version()?;
    let rows = cases.iter().zip(measured).map(|((policy, tasks), mut own)| {
        own.sort_by(|one, other| one.rate.total_cmp(&other.rate));
        let Calls { rate, latency, cpu } = own[own.len() / 2];
        vec![
            policy.name().to_string(),
            tasks.to_string(),
            format!("{rate:.0}"),
            format!("{:.2} ms", latency / 1e3),
            format!("{:.0} %", cpu * rate / 1e6 * 100.0),
        ]
    });
    let rows: Vec<_> = rows.collect();
    server.kill()?;
    let dead = while_dead(&runtime, &store, &policies[0]);
    println!(
        "{}\nMedians of {rounds} interleaved rounds of {} ms, with {KEYS} keys.\n\n{}\n\
         While the server is dead, a check took {:.1} µs.",
        options.heading("decisions", &format!("{}; Redis {version} on the same machine.", machine()?)),
        length.as_millis(),
        markdown(&HEADER, &rows),
        dead / 1_000.0,
    );
    Ok(())
}

/// A round of checks.
fn round(
    runtime: &Runtime,
    server: &mut Server,
    store: &RedisStore,
    policy: &Policy,
    tasks: usize,
    length: Duration,
) -> Result<Calls> {
    let (store, policy) = (store.clone(), policy.clone());
    server.calls(runtime, tasks, length, move |_, number| {
        let (store, policy) = (store.clone(), policy.clone());
        async move {
            let user = key(u32::try_from(number % KEYS)?);
            black_box(store.check(Checks::one(policy, user, 1)).await?.is_allowed());
            Ok(())
        }
    })
}

/// Nanoseconds per check that gets no answer.
fn while_dead(runtime: &Runtime, store: &RedisStore, policy: &Policy) -> f64 {
    let call = || store.check(Checks::one(policy.clone(), key(1), 1));
    // The first checks detect that the server is gone.
    while runtime.block_on(call()).is_ok() {}
    std::thread::sleep(Duration::from_millis(100));
    let run = Box::new(|times| (0..times).for_each(|_| drop(runtime.block_on(call()))));
    medians(&mut [("dead", run)], 11, 10_000)[0]
}
