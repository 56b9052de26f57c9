//! Requests per second of `portcullis proxy` beside other reverse proxies: `cargo xtask bench proxy`.
//!
//! Each proxy is a process of its own in front of the same upstream, an nginx that answers by itself. All of them and the load generator
//! share the first two processors of the machine, so the rates include what these cost. The processor time is that of the proxy alone.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Parser;
use portcullis_bench::process::{self, Process, free_addr, pin};
use portcullis_bench::{Comparison, Round, Target, interleaved, machine, wrk};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench proxy", bin_name = "cargo xtask bench proxy")]
struct ProxyOptions {
    #[command(flatten)]
    common: portcullis_bench::BenchOptions,
    /// Caddy, to compare with it as well
    #[arg(long, value_name = "PATH")]
    caddy: Option<PathBuf>,
    /// Our command, by default `portcullis` beside this program
    #[arg(long, value_name = "PATH")]
    ours: Option<PathBuf>,
}

fn main() -> Result<()> {
    let options = ProxyOptions::parse();
    println!("{}", options.common.heading("proxy", &format!("{}.", machine()?)));
    if !wrk::is_installed() {
        println!("**NOT MEASURED: proxies under `wrk`, which is not installed.**");
        return Ok(());
    }
    let pinned = pin();
    let upstream = upstream().context("nginx is the upstream of all proxies")?;
    let mut peers = vec![ours(&options, upstream.addr())?];
    let mut notes = Vec::new();
    let others = [
        nginx(upstream.addr()),
        haproxy(upstream.addr()),
        options
            .caddy
            .as_deref()
            .context("it was not installed")
            .and_then(|caddy| caddy_at(caddy, upstream.addr())),
    ];
    for (name, other) in ["nginx", "HAProxy", "Caddy"].into_iter().zip(others) {
        match other {
            Ok(peer) => peers.push(peer),
            Err(reason) => notes.push(format!("{name} was not measured: {reason:#}\n")),
        }
    }
    let (rounds, seconds) = if options.common.quick { (1, 1) } else { (9, 3) };
    let tables = measure(&peers, rounds, seconds)?;
    println!(
        "Medians of {rounds} interleaved rounds of {seconds} s each, by `wrk` with 32 connections that are kept, as those to the upstream are. Each \
         proxy has two workers, limits one client above its rate, and writes the fields that name the client. {pinned}\n\n{tables}\n{}",
        notes.join("\n")
    );
    Ok(())
}

/// A proxy, and the ratio that we want to reach beside it.
struct Peer {
    name: &'static str,
    process: Process,
    target: f64,
}

/// Requests per second, and the processor time of each.
fn measure(peers: &[Peer], rounds: usize, seconds: u32) -> Result<String> {
    let mut cases: Vec<Round<'_, (f64, f64), anyhow::Error>> = Vec::new();
    for peer in peers {
        cases.push(Box::new(move || {
            let before = peer.process.cpu();
            let rate = wrk::rate(peer.process.addr(), "accept: */*", seconds, true);
            let rate = rate.with_context(|| peer.name.to_owned())?;
            Ok((rate, peer.process.micros_since(before) / (rate * f64::from(seconds))))
        }));
    }
    let figures = interleaved(rounds, &mut cases)?;
    let column = |of: fn(&(f64, f64)) -> f64| -> Vec<Vec<f64>> {
        figures.iter().map(|rounds| rounds.iter().map(of).collect()).collect()
    };
    let (rates, times) = (column(|round| round.0), column(|round| round.1));
    let mut by_rate = Comparison::new("Requests per second of reverse proxies");
    let mut by_time = Comparison::new("Processor time of a request in the proxy");
    for (index, peer) in peers.iter().enumerate().skip(1) {
        let target = Target::AtLeast(peer.target);
        by_rate.push("portcullis proxy", peer.name, "requests/s", &rates[0], &rates[index], target);
        by_time.push("portcullis proxy", peer.name, "µs", &times[0], &times[index], Target::None);
    }
    Ok(format!("{by_rate}\n{by_time}"))
}

fn upstream() -> Result<Process> {
    let listening = free_addr()?;
    run_nginx(
        1,
        &format!("server {{ listen {listening}; location / {{ return 200 \"found\"; }} }}"),
        listening,
    )
}

fn ours(options: &ProxyOptions, upstream: SocketAddr) -> Result<Peer> {
    let program = options.ours.clone().map_or_else(process::portcullis, Ok)?;
    let listening = free_addr()?;
    let (to, at) = (format!("http://{upstream}"), listening.to_string());
    let arguments = ["proxy", "limits.toml", "--upstream", &to, "--listen", &at, "--store", "memory"];
    let process = Process::start(&program, listening, &[("limits.toml", RULES.to_owned())], &arguments)?;
    Ok(Peer { name: "portcullis", process, target: 1.0 })
}

fn nginx(upstream: SocketAddr) -> Result<Peer> {
    let listening = free_addr()?;
    let http = format!(
        "limit_req_zone $binary_remote_addr zone=one:10m rate=1000000r/s;
         upstream app {{ server {upstream}; keepalive 64; keepalive_requests 1000000000; }}
         server {{ listen {listening} reuseport; location / {{
             limit_req zone=one burst=1000000 nodelay;
             proxy_pass http://app;
             proxy_http_version 1.1;
             proxy_set_header Connection \"\";
             proxy_set_header Host $http_host;
             proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
             proxy_set_header X-Forwarded-Proto $scheme;
             proxy_set_header X-Forwarded-Host $http_host;
         }} }}"
    );
    Ok(Peer { name: "nginx with `limit_req`", process: run_nginx(2, &http, listening)?, target: 0.8 })
}

fn run_nginx(workers: u32, http: &str, listening: SocketAddr) -> Result<Process> {
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("{kind}_temp_path {kind};\n"))
        .concat();
    let configuration = format!(
        "daemon off;\nworker_processes {workers};\nerror_log stderr crit;\npid nginx.pid;\n\
         events {{ worker_connections 1024; }}\nhttp {{ access_log off; keepalive_requests 1000000000;\n{temporary}{http} }}\n"
    );
    let arguments = ["-e", "stderr", "-p", ".", "-c", "proxy.conf"];
    Process::start(Path::new("nginx"), listening, &[("proxy.conf", configuration)], &arguments)
}

fn haproxy(upstream: SocketAddr) -> Result<Peer> {
    let listening = free_addr()?;
    let configuration = format!(
        "global\n    nbthread 2\n    maxconn 2000\n\
         defaults\n    mode http\n    timeout connect 10s\n    timeout client 60s\n    timeout server 60s\n    http-reuse always\n\
         frontend front\n    bind {listening}\n    option forwardfor\n    \
         stick-table type ip size 100k expire 10s store http_req_rate(1s)\n    http-request track-sc0 src\n    \
         http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt 1000000 }}\n    \
         http-request set-header X-Forwarded-Proto http\n    http-request set-header X-Forwarded-Host %[req.hdr(Host)]\n    \
         default_backend app\n\
         backend app\n    server app {upstream}\n"
    );
    let files = [("haproxy.cfg", configuration)];
    let process = Process::start(Path::new("haproxy"), listening, &files, &["-db", "-f", "haproxy.cfg"])?;
    Ok(Peer { name: "HAProxy with a stick table", process, target: 0.8 })
}

/// Its packages have no limiter, so that it forwards only.
fn caddy_at(program: &Path, upstream: SocketAddr) -> Result<Peer> {
    let listening = free_addr()?;
    let caddyfile = format!(
        "{{\n    admin off\n    auto_https off\n}}\nhttp://{listening} {{\n    reverse_proxy {upstream} {{\n        \
         transport http {{\n            keepalive_idle_conns_per_host 64\n        }}\n    }}\n}}\n"
    );
    let arguments = ["run", "--config", "Caddyfile", "--adapter", "caddyfile"];
    let process = Process::start(program, listening, &[("Caddyfile", caddyfile)], &arguments)?;
    Ok(Peer { name: "Caddy, which limits nothing", process, target: 1.5 })
}

const RULES: &str =
    "[policy.each]\nstrategy = \"gcra\"\nquota = \"1000000/s burst 1000000\"\nkey = \"client_ip\"\n";
