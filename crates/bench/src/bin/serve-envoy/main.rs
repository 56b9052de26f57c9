//! Checks per second of `portcullis serve` over gRPC, and how long they take: `cargo xtask bench serve-envoy`.
//!
//! The server is a process of its own. Both share the first two processors of the machine, so that the figures include what the
//! generator costs.

use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use portcullis_bench::{calls, machine, markdown};
use portcullis_rls::messages::rate_limit_descriptor::Entry;
use portcullis_rls::messages::rate_limit_response::Code;
use portcullis_rls::messages::{RateLimitDescriptor, RateLimitRequest, RateLimitResponse};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};
use tonic::Request;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench serve-envoy", bin_name = "cargo xtask bench serve-envoy")]
struct Options {
    #[command(flatten)]
    common: portcullis_bench::BenchOptions,
    /// The server, by default `portcullis` beside this program
    #[arg(long, value_name = "PATH")]
    server: Option<PathBuf>,
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
    let seconds = Duration::from_secs(if options.common.quick { 1 } else { 10 });
    let server = Server::start(&options)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let rows = runtime.block_on(async {
        let mut rows = Vec::new();
        let _warm_up = measure(&server.addr, Load::Closed(64), Duration::from_secs(1)).await?;
        for load in LOADS {
            rows.push(measure(&server.addr, load, seconds).await?);
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
    Ok(())
}

/// Keeps this process, and those that it starts, on two processors.
fn pin() -> &'static str {
    let id = std::process::id().to_string();
    let pinned = Command::new("taskset").args(["-a", "-c", "-p", "0,1", &id]).stdout(Stdio::null()).status();
    match pinned {
        Ok(status) if status.success() => "The client and the server share two processors.",
        _ => "The client and the server were not pinned to processors.",
    }
}

struct Server {
    process: Child,
    addr: String,
    folder: PathBuf,
}

impl Server {
    fn start(options: &Options) -> Result<Self> {
        let program = match &options.server {
            Some(path) => path.clone(),
            None => env::current_exe()?.with_file_name("portcullis"),
        };
        let folder = env::temp_dir().join(format!("portcullis-serve-envoy-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let file = folder.join("limits.yaml");
        fs::write(&file, LIMITS)?;
        let mut command = Command::new(&program);
        command.arg("serve").arg(&file).args(["--grpc", "127.0.0.1:0", "--http", "off", "--store", "memory"]);
        let mut process =
            command.stdout(Stdio::piped()).spawn().with_context(|| program.display().to_string())?;
        let mut line = String::new();
        BufReader::new(process.stdout.take().context("it is piped")?).read_line(&mut line)?;
        let addr = line.split_once("\"grpc\":\"").and_then(|(_, rest)| rest.split_once('"'));
        let addr = addr.with_context(|| format!("the server has not started: {line}"))?.0.to_owned();
        Ok(Self { process, addr: format!("http://{addr}"), folder })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

type Client = Grpc<Channel>;

async fn measure(addr: &str, load: Load, length: Duration) -> Result<Vec<String>> {
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS {
        clients.push(Grpc::new(Endpoint::new(addr.to_owned())?.connect().await?));
    }
    let start = Instant::now();
    let mut times = match load {
        Load::Closed(tasks) => {
            let clients = clients.clone();
            let call = move |task, number| {
                let mut client = Client::clone(&clients[task % CONNECTIONS]);
                async move { call(&mut client, number, Instant::now()).await.map(drop) }
            };
            calls(tasks, length, call).await?
        }
        Load::Open(per_second) => open(&clients, per_second, length).await?,
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
async fn open(clients: &[Client], per_second: u32, length: Duration) -> Result<Vec<Duration>> {
    let per_tick = per_second / TICKS;
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
        for client in clients.iter().cycle().take(usize::try_from(per_tick)?) {
            let mut client = client.clone();
            next += 1;
            let number = next;
            tasks.spawn(async move { call(&mut client, number, intended).await });
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

/// How long a call for the next user takes, from this instant on.
async fn call(client: &mut Client, number: usize, start: Instant) -> Result<Duration> {
    let entry = Entry { key: "user".to_owned(), value: format!("user-{}", number % USERS) };
    let descriptor = RateLimitDescriptor { entries: vec![entry], ..RateLimitDescriptor::default() };
    let request =
        RateLimitRequest { domain: "shop".to_owned(), descriptors: vec![descriptor], hits_addend: 1 };
    client.ready().await?;
    let codec = ProstCodec::<_, RateLimitResponse>::default();
    let response = client.unary(Request::new(request), PathAndQuery::from_static(METHOD), codec).await?;
    ensure!(response.get_ref().overall_code() == Code::Ok, "a call was denied");
    Ok(start.elapsed())
}

const LIMITS: &str = "domain: shop
descriptors:
  - key: user
    rate_limit:
      unit: hour
      requests_per_unit: 4000000000
";
const METHOD: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const USERS: usize = 10_000;
const CONNECTIONS: usize = 4;
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
