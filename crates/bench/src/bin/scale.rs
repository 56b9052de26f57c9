//! How many instances share a Redis before something limits them, and what removes that: `cargo xtask bench scale`.
//!
//! The costs of the server are measured, and the rest is a simulation of them: `portcullis_bench::scale`.

use anyhow::Result;
use clap::Parser;
use portcullis::Quota;
use portcullis::store::{Checks, Gcra, Store as _, Strategy};
use portcullis_bench::redis::Cmd;
use portcullis_bench::scale::{Costs, Load, Setup, simulate};
use portcullis_bench::server::{Server, key};
use portcullis_bench::{digits, machine, markdown, marks_of_quick};
use portcullis_core::Policy;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench scale", bin_name = "cargo xtask bench scale")]
struct Options {
    /// A smoke run of a few seconds, whose figures mean nothing
    #[arg(long)]
    quick: bool,
}

/// A way to run the same instances.
type Way = (&'static str, bool, bool, u16);

fn main() -> Result<()> {
    let options = Options::parse();
    let costs = costs(if options.quick { 960 } else { 19_200 })?;
    let instances: &[u32] = if options.quick { &[1, 10] } else { &[1, 3, 10, 30, 100, 300, 1_000] };
    let (quick, warning) = marks_of_quick(options.quick);
    println!(
        "`cargo xtask bench scale{quick}`\n\n{}.{warning}\n\n## Instances that share servers, simulated\n\n\
         Measured: {} µs of the server for a call, and {} µs for each decision in it. Assumed: a round trip of {} µs, {} decisions \
         per second of each instance, and {KEYS} keys under Zipf's law, of which the most frequent one has a share of {} %.\n",
        machine()?,
        digits(costs.call),
        digits(costs.decision),
        digits(ROUND_TRIP),
        digits(RATE),
        digits(100.0 * 2_f64.ln() / f64::from(KEYS).ln()),
    );
    let (mut rows, mut conclusions) = (Vec::new(), Vec::new());
    for instances in instances {
        let loads = WAYS.map(|way| load(costs, *instances, way));
        for ((name, ..), load) in WAYS.iter().zip(&loads) {
            rows.push(row(*instances, name, load));
        }
        conclusions.push(conclusion(*instances, &loads));
    }
    let header = ["instances", "", "calls per second", "busiest server", "average", "p99", "bottleneck"];
    println!("{}\n{}", markdown(&header, &rows), conclusions.concat());
    Ok(())
}

fn load(costs: Costs, instances: u32, (_, combined, leases, nodes): Way) -> Load {
    let (rate, keys) = (RATE * f64::from(instances), KEYS.into());
    simulate(costs, Setup { instances, rate, keys, combined, leases, nodes })
}

fn row(instances: u32, name: &str, load: &Load) -> Vec<String> {
    vec![
        instances.to_string(),
        name.to_owned(),
        digits(load.calls),
        format!("{} %", digits(100.0 * load.busiest)),
        format!("{} %", digits(100.0 * load.mean)),
        format!("{} ms", digits(load.p99)),
        load.bottleneck().unwrap_or("none").to_owned(),
    ]
}

/// What limits the simplest way, and the first one without a bottleneck.
fn conclusion(instances: u32, loads: &[Load]) -> String {
    let Some(bottleneck) = loads.first().and_then(Load::bottleneck) else {
        return format!("- {instances} instances: nothing limits {}.\n", WAYS[0].0);
    };
    let remedy = WAYS.iter().zip(loads).find(|(_, load)| load.bottleneck().is_none());
    let remedy = remedy.map_or("no simulated setup", |((name, ..), _)| *name);
    format!("- {instances} instances: {bottleneck} limit {}; what removes that: {remedy}.\n", WAYS[0].0)
}

/// Microseconds of a server, for a call over the network and for a further decision in a call.
fn costs(decisions: u32) -> Result<Costs> {
    let mut server = Server::start(&[])?;
    let strategy = Strategy::Gcra(Gcra::new(Quota::per_day(LIMIT).burst(LIMIT))?);
    let recorded = server.recorded(strategy, 0, 1)?;
    let single: Vec<Cmd> = (0..decisions).map(|user| recorded.of(user)).collect();
    let groups = (0..decisions).step_by(AT_ONCE as usize);
    let combined: Vec<Cmd> = groups.map(|first| recorded.for_each(first..first + AT_ONCE)).collect();
    // Once before it counts, so that the server's memory has grown, and both find the same keys.
    server.run(&single, BATCH)?;
    let (one, _) = server.run(&single, BATCH)?;
    let (several, _) = server.run(&combined, BATCH)?;
    let decision = (several - one) / f64::from(AT_ONCE - 1);
    let policy = Policy::literal("p", strategy);
    let before = server.cpu()?;
    for user in 0..decisions {
        let checks = Checks::one(policy.clone(), key(user), 1);
        drop(server.runtime.block_on(server.store.check(checks))?);
    }
    let alone = (server.cpu()? - before) / f64::from(decisions);
    Ok(Costs { call: alone - decision, decision, round_trip: ROUND_TRIP })
}

/// From the simplest to the one with most parts: whether calls are combined, whether keys are leased, and the number of servers.
const WAYS: [Way; 5] = [
    ("one server, a call for each decision", false, false, 1),
    ("one server, combined calls", true, false, 1),
    ("one server, combined calls and leases", true, true, 1),
    ("a cluster of 6, combined calls", true, false, 6),
    ("a cluster of 6, combined calls and leases", true, true, 6),
];
const KEYS: u32 = 10_000_000;
/// Decisions per second of an instance.
const RATE: f64 = 1_000.0;
/// Microseconds between two machines of a data centre.
const ROUND_TRIP: f64 = 500.0;
const LIMIT: u64 = 100;
const AT_ONCE: u32 = 32;
/// Commands per write.
const BATCH: usize = 100;
