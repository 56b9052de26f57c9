//! Checks per second of `portcullis serve` over gRPC, how long they take, and both beside other services: `cargo xtask bench serve-envoy`.
//!
//! Each server is a process of its own. All of them share the first two processors of the machine with the client, so the figures include what
//! that costs.

mod equal;
mod services;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Parser;
use portcullis_bench::process::{self, pin};
use portcullis_bench::{calls, machine, markdown};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use services::{CONNECTIONS, Client, Protocol, Service, USERS};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench serve-envoy", bin_name = "cargo xtask bench serve-envoy")]
struct Options {
    #[command(flatten)]
    common: portcullis_bench::BenchOptions,
    /// Our command, by default `portcullis` beside this program
    #[arg(long, value_name = "PATH")]
    ours: Option<PathBuf>,
    /// Throttlecrab's server, to compare with it as well
    #[arg(long, value_name = "PATH")]
    throttlecrab: Option<PathBuf>,
    /// Limitador's server, built from its source, to compare with it as well
    #[arg(long, value_name = "PATH")]
    limitador: Option<PathBuf>,
}

/// A load.
#[derive(Clone, Copy)]
enum Load {
    /// This number of calls is in flight all the time.
    Closed(usize),
    /// This number of calls begins each second, however long they take.
    Open(u32),
}

fn main() -> Result<()> {
    let options = Options::parse();
    let pinned = pin();
    let is_quick = options.common.quick;
    let seconds = Duration::from_secs(if is_quick { 1 } else { 10 });
    let services = options.services()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let rows = runtime.block_on(async {
        let mut rows = Vec::new();
        let _warm_up = measure(&services[0], Load::Closed(64), Duration::from_secs(1)).await?;
        for load in LOADS {
            rows.push(measure(&services[0], load, seconds).await?);
        }
        anyhow::Ok(rows)
    })?;
    println!(
        "{}\n## Checks over gRPC\n\n`portcullis serve` in memory, with a fixed window \
         of Envoy's file for each of {USERS} users, asked by Tonic's client over {CONNECTIONS} connections for {} s each. {pinned}\n\n{}",
        options.common.heading("serve-envoy", &format!("{}.", machine()?)),
        seconds.as_secs(),
        markdown(&HEADER, &rows)
    );
    if services.len() > 1 {
        let (rounds, length) =
            if is_quick { (1, Duration::from_millis(200)) } else { (7, Duration::from_secs(1)) };
        println!("{}", equal::compare(&runtime, &services, rounds, length)?);
    }
    println!("{}", options.unmeasured());
    Ok(())
}

impl Options {
    /// Ours over gRPC first.
    fn services(&self) -> Result<Vec<Service>> {
        let ours = self.ours.clone().map_or_else(process::portcullis, Ok)?;
        let mut services = vec![Service::portcullis(&ours, Protocol::Envoy)?];
        if let Some(program) = &self.limitador {
            services.push(Service::limitador(program)?);
        }
        if let Some(program) = &self.throttlecrab {
            services.push(Service::throttlecrab(program, Protocol::Throttlecrab)?);
            services.push(Service::throttlecrab(program, Protocol::ThrottlecrabJson)?);
            services.push(Service::portcullis(&ours, Protocol::EnvoyJson)?);
        }
        Ok(services)
    }

    /// Says which services are missing, and why.
    fn unmeasured(&self) -> String {
        let mut text = String::new();
        if self.limitador.is_none() {
            text.push_str("limitador's server was not measured: it is in no registry, and `--limitador PATH` names the program.\n\n");
        }
        if self.throttlecrab.is_none() {
            text.push_str("throttlecrab was not measured: its server could not be installed.\n\n");
        }
        text
    }
}

async fn measure(service: &Service, load: Load, length: Duration) -> Result<Vec<String>> {
    let client = Client::connect(service, CONNECTIONS).await?;
    let start = Instant::now();
    let mut times = match load {
        Load::Closed(tasks) => {
            let call = move |task, number| {
                let client = client.clone();
                async move { client.check(task, number).await }
            };
            calls(tasks, length, call).await?
        }
        Load::Open(per_second) => open(&client, per_second, length).await?,
    };
    let elapsed = start.elapsed();
    times.sort_unstable();
    let at = |percent: usize| {
        let index = (times.len() * percent / 1_000).min(times.len().saturating_sub(1));
        times.get(index).map_or_else(|| "-".to_owned(), |time| format!("{:.2}", time.as_secs_f64() * 1e3))
    };
    let name = match load {
        Load::Closed(calls) => format!("{calls} in flight"),
        Load::Open(per_second) => format!("{per_second} begin per second"),
    };
    #[allow(clippy::cast_precision_loss, reason = "for display")]
    let rate = times.len() as f64 / elapsed.as_secs_f64();
    Ok(vec![name, format!("{rate:.0}"), at(500), at(990), at(999)])
}

/// Calls begin at their time. Their times are measured from then, also if the generator is late.
async fn open(client: &Client, per_second: u32, length: Duration) -> Result<Vec<Duration>> {
    let per_tick = usize::try_from(per_second / TICKS)?;
    let mut ticks = interval(Duration::from_secs(1) / TICKS);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut tasks = JoinSet::new();
    let (mut all, mut next) = (Vec::new(), 0);
    let end = Instant::now() + length;
    loop {
        let intended = ticks.tick().await.into_std();
        if intended >= end {
            break;
        }
        if tasks.len() >= MOST_IN_FLIGHT {
            println!("{per_second} calls per second are more than both processes make.\n");
            break;
        }
        for task in 0..per_tick {
            let client = client.clone();
            next += 1;
            let number = next;
            tasks.spawn(async move { client.check(task, number).await.map(|()| intended.elapsed()) });
        }
        while let Some(time) = tasks.try_join_next() {
            all.push(time??);
        }
    }
    while let Some(time) = tasks.join_next().await {
        all.push(time??);
    }
    Ok(all)
}

const TICKS: u32 = 1_000;
/// Beyond it the generator would measure its own queue.
const MOST_IN_FLIGHT: usize = 50_000;
const LOADS: [Load; 7] = [
    Load::Closed(1),
    Load::Closed(16),
    Load::Closed(64),
    Load::Open(5_000),
    Load::Open(10_000),
    Load::Open(15_000),
    Load::Open(20_000),
];
const HEADER: [&str; 5] = ["load", "checks per second", "p50, ms", "p99, ms", "p99.9, ms"];
