//! What a flood of new keys does to known ones, and to the memory of the process: `cargo xtask bench flood`.
//!
//! One thread checks new keys as fast as it can. Another one checks known keys and measures each check. Every algorithm has a process
//! of its own, so that memory which another one has freed is not used again.

use std::hint::{black_box, spin_loop};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use portcullis::store::{Checks, MemoryStore, Store as _};
use portcullis::{Policy, Quota};
use portcullis_bench::server::key;
use portcullis_bench::{Target, digits, machine, markdown};
use portcullis_core::Key;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench flood", bin_name = "cargo xtask bench flood")]
struct Options {
    #[command(flatten)]
    common: portcullis_bench::BenchOptions,
    /// Measures one algorithm, and prints the cells of its row
    #[arg(long, hide = true)]
    algorithm: Option<String>,
}

fn main() -> Result<()> {
    let Options { common, algorithm } = Options::parse();
    let keys = if common.quick { 1_000_000 } else { 10_000_000 };
    if let Some(name) = &algorithm {
        let policies = policies();
        let policy = policies.iter().find(|policy| policy.name().as_str() == name);
        println!("{}", measure(policy.context("no such algorithm")?, keys)?.join(SEPARATOR));
        return Ok(());
    }
    let mut rows = Vec::new();
    for policy in &policies() {
        rows.push(row(policy.name().as_str(), common.quick)?);
    }
    println!(
        "{}\n## Checks of {KNOWN} known keys during a flood of {keys} others\n\n\
         A store for {} keys. All times are in nanoseconds, and sizes in millions of bytes. A spin does nothing for the median of a \
         check: what its p99.9 exceeds that by are interruptions by the machine.\n\n{}",
        common.heading("flood", &format!("{}.", machine()?)),
        capacity(keys),
        markdown(&HEADER.split(SEPARATOR).collect::<Vec<_>>(), &rows)
    );
    Ok(())
}

/// Runs this program for one algorithm.
fn row(name: &str, quick: bool) -> Result<Vec<String>> {
    let mut program = Command::new(env::current_exe()?);
    program.args(["--algorithm", name]);
    if quick {
        program.arg("--quick");
    }
    let output = program.output()?;
    ensure!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    let cells = String::from_utf8(output.stdout)?;
    Ok(cells.trim_end_matches('\n').split(SEPARATOR).map(str::to_owned).collect())
}

fn measure(policy: &Policy, flood: u32) -> Result<Vec<String>> {
    let capacity = capacity(flood);
    let store = MemoryStore::builder().capacity(capacity).build();
    let known: Vec<Key> = (0..KNOWN).map(key).collect();
    let mut turns = known.iter().cycle();
    let mut check = || {
        let key = turns.next().context("there are known keys")?;
        let start = Instant::now();
        let allowed = is_allowed(&store, policy, *key);
        let elapsed = start.elapsed();
        ensure!(allowed, "a known key was denied");
        while start.elapsed() < PAUSE {
            spin_loop();
        }
        anyhow::Ok(elapsed)
    };
    let (mut quiet, mut during) = (Times::new(), Times::new());
    for _ in 0..2 * KNOWN {
        quiet.record(check()?);
    }
    let before = status("VmRSS:")?;
    thread::scope(|scope| {
        let flooding = scope.spawn(|| {
            for number in KNOWN..KNOWN + flood {
                black_box(is_allowed(&store, policy, key(number)));
            }
        });
        while !flooding.is_finished() {
            during.record(check()?);
        }
        anyhow::Ok(())
    })?;
    let grown = status("VmHWM:")?.saturating_sub(before);
    let stats = store.stats();
    ensure!(stats.overflowed_checks > 0, "the flood did not exceed the capacity");
    let (median, slow) = (during.quantile(0.5), during.quantile(0.999));
    let spin = spins(Duration::from_secs_f64(median / 1e9));
    let (ratio, promised) = (slow / median, millions(bytes(capacity)));
    let (in_time, in_memory) = (Target::AtMost(10.0), Target::AtMost(promised));
    Ok(vec![
        policy.name().to_string(),
        digits(quiet.quantile(0.5)),
        digits(quiet.quantile(0.999)),
        digits(median),
        digits(slow),
        digits(spin.quantile(0.999)),
        digits(ratio),
        in_time.to_string(),
        in_time.verdict(ratio).to_owned(),
        digits(millions(stats.bytes)),
        digits(millions(grown)),
        in_memory.to_string(),
        in_memory.verdict(millions(grown)).to_owned(),
    ])
}

/// Measures waiting as checks are measured, each time for the median of a check: what takes longer is an interruption by the machine.
fn spins(median: Duration) -> Times {
    let mut times = Times::new();
    for _ in 0..SPINS {
        let start = Instant::now();
        while start.elapsed() < median {}
        times.record(start.elapsed());
        while start.elapsed() < PAUSE {
            spin_loop();
        }
    }
    times
}

fn is_allowed(store: &MemoryStore, policy: &Policy, key: Key) -> bool {
    let outcome = store.check(Checks::one(policy.clone(), key, 1)).into_ready();
    matches!(outcome, Ok(Ok(outcome)) if outcome.is_allowed())
}

/// Quotas that the known keys do not use up, and under which a state lives longer than the flood lasts.
fn policies() -> [Policy; 6] {
    let window = Quota::per_week(100_000);
    let rate = window.burst(100_000);
    [
        Policy::token_bucket("token bucket", rate),
        Policy::gcra("GCRA", rate),
        Policy::leaky_bucket("leaky bucket", rate),
        Policy::fixed_window("fixed window", window),
        Policy::sliding_window("sliding window", window),
        Policy::sliding_log("sliding log", window),
    ]
}

/// The default of 250 000 keys for ten million others.
fn capacity(flood: u32) -> usize {
    usize::try_from(flood / 40).unwrap_or(usize::MAX)
}

/// The bytes of a policy with this capacity, as the builder of the store documents them.
fn bytes(capacity: usize) -> usize {
    (256 * capacity).max(8 << 20)
}

/// A figure of this process, in bytes.
fn status(name: &str) -> Result<usize> {
    let status =
        fs::read_to_string("/proc/self/status").context("the memory of a process is read on Linux")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(kibibytes.with_context(|| format!("this process has no {name}"))?.parse::<usize>()? * 1_024)
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn millions(bytes: usize) -> f64 {
    bytes as f64 / 1e6
}

/// How many checks took how long: a fixed size, because the memory of the process is measured as well.
struct Times(Vec<u32>);

impl Times {
    fn new() -> Self {
        Self(vec![0; STEPS])
    }

    fn record(&mut self, elapsed: Duration) {
        let step = usize::try_from(elapsed.as_nanos() / u128::from(STEP)).unwrap_or(STEPS);
        self.0[step.min(STEPS - 1)] += 1;
    }

    /// The time in nanoseconds that this share of the checks does not exceed; a millisecond if it is longer.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    fn quantile(&self, share: f64) -> f64 {
        let all: u64 = self.0.iter().copied().map(u64::from).sum();
        let mut counted = 0;
        let step = self.0.iter().position(|count| {
            counted += u64::from(*count);
            counted as f64 >= share * all as f64
        });
        ((step.unwrap_or(STEPS) + 1) * STEP as usize) as f64
    }
}

const KNOWN: u32 = 10_000;
/// Between the checks of known keys, so that a log of their charges stays small.
const PAUSE: Duration = Duration::from_micros(10);
/// Enough for a quantile of 0.999.
const SPINS: u64 = 50_000;
/// Nanoseconds, and up to a millisecond.
const STEP: u32 = 5;
const STEPS: usize = 200_000;
const SEPARATOR: &str = " | ";
const HEADER: &str = " | median before | p99.9 before | median | p99.9 | p99.9 of a spin | \
    p99.9 by median | target | reached | counted by the store | memory of the process | promised | reached";
