//! A worker process, which calls a store and records every operation.

use std::fs::File;
use std::io::{BufRead as _, BufWriter, Write as _, stdin, stdout};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use fastrand::Rng;
use portcullis_core::Receipt;
use portcullis_core::store::{Checks, Outcome as Decided, Position, Store};
use portcullis_histories::{
    Answer, AnsweredBy, Call, Correction, Failure, Family, KeyId, Op, Outcome, ROTATION_MICROS,
    monotonic_micros,
};
use portcullis_memory::Fallback;
use portcullis_redis::RedisStore;
use tokio::runtime::{Builder, Handle};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::blocks;
use crate::grants;
use crate::in_flight::Requests;
use crate::layered::{CLIENTS, Client, Recorder};
use crate::mixed::{self, Mix};
use crate::single_key::SingleKey;

/// The options of a worker. It prints `ready` and calls the store until it reads a line, then prints `stopped`. At the next
/// line it drops the store and prints the tasks left and the longest scheduling delay. At the third line it exits.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[arg(long)]
    pub(crate) url: String,
    #[arg(long)]
    pub(crate) process: u16,
    #[arg(long)]
    pub(crate) seed: u64,
    /// The monotonic instant at which the first rotation of keys begins
    #[arg(long)]
    pub(crate) start: u64,
    #[arg(long)]
    pub(crate) history: PathBuf,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(work(options))
}

async fn work(options: &Options) -> Result<()> {
    let alive = || Handle::current().metrics().num_alive_tasks();
    let before = alive();
    // No denial memory: the checker expects the server's answers only.
    let store = RedisStore::builder(&options.url).deadline(DEADLINE).denial_memory(0).connect().await?;
    let remembering = RedisStore::builder(&options.url).deadline(DEADLINE).connect().await?;
    let fallback = Arc::new(Fallback::new(remembering.clone()));
    let mixed_fallback = Arc::new(Fallback::new(store.clone()));
    let stopped = Arc::new(AtomicBool::new(false));
    let stall = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for (index, load) in (0_u64..).zip(loads(options.process)?) {
        let seed = options.seed ^ (u64::from(options.process) << 32) ^ (index << 48);
        let store: Arc<dyn Store> = match load {
            Load::Leased(Family::LeasedLocal) => Arc::<Fallback<RedisStore>>::clone(&fallback),
            Load::Mixed(Mix::Local) => Arc::<Fallback<RedisStore>>::clone(&mixed_fallback),
            Load::Remembered => Arc::new(remembering.clone()),
            Load::Busy | Load::Slow(_) | Load::Leased(_) | Load::Mixed(_) => Arc::new(store.clone()),
        };
        let stopped = Arc::clone(&stopped);
        let (random, ops, held) = (Rng::with_seed(seed), Vec::new(), Vec::new());
        let caller = Caller { store, stopped, start: options.start, random, ops, held };
        tasks.spawn(caller.run(load));
    }
    let task = |index: u64| {
        let seed = options.seed ^ (u64::from(options.process) << 32) ^ (index << 48);
        (store.clone(), Arc::clone(&stopped), Rng::with_seed(seed))
    };
    for index in 0..IN_FLIGHT {
        let ((store, stopped, random), start) = (task(200 + index), options.start);
        let (ops, running) = (Vec::new(), Vec::new());
        tasks.spawn(Requests { store, stopped, start, random, ops, running }.run());
    }
    let caller = u8::try_from(options.process)?;
    let single_key = |index: u64, family: Family| {
        let (store, stopped, random) = task(index);
        (store, SingleKey::new(stopped, options.start, random, family, caller))
    };
    let (store_to_block, client) = single_key(300, Family::Blocked);
    tasks.spawn(blocks::run(store_to_block, client));
    let (store_to_grant, client) = single_key(301, Family::Granted);
    tasks.spawn(grants::run(store_to_grant, client));
    let recorder = Recorder::new(store.clone());
    let client = Arc::new(Client::new(recorder.clone()));
    for index in 0..CLIENTS {
        let random =
            Rng::with_seed(options.seed ^ (u64::from(options.process) << 32) ^ ((100 + index) << 48));
        tasks.spawn(send_requests(Arc::clone(&client), Arc::clone(&stopped), options.start, random));
    }
    let stall_task = tokio::spawn(measure_stall(Arc::clone(&stall)));
    print_line("ready")?;
    read_line().await?;
    stopped.store(true, Ordering::Relaxed);
    let mut file = BufWriter::new(File::create(&options.history)?);
    while let Some(ops) = tasks.join_next().await {
        ops?.iter().try_for_each(|op| writeln!(file, "{op}"))?;
    }
    client.drain().await;
    drop(client);
    recorder.take_ops().iter().try_for_each(|op| writeln!(file, "{op}"))?;
    drop(recorder);
    file.flush()?;
    stall_task.abort();
    let _ = stall_task.await;
    print_line("stopped")?;
    read_line().await?;
    drop((store, remembering, fallback, mixed_fallback));
    let end = Instant::now() + Duration::from_secs(5);
    while alive() > before && Instant::now() < end {
        sleep(Duration::from_millis(10)).await;
    }
    print_line(&format!("{} {}", alive() - before, stall.load(Ordering::Relaxed)))?;
    read_line().await
}

/// What a task calls.
#[derive(Clone, Copy)]
enum Load {
    /// Makes random checks, refunds and settlements.
    Busy,
    /// Checks one key of this caller, below its rate.
    Slow(u8),
    /// Checks, refunds and settles the one key of this family, which all processes share, with breaks in which leases expire.
    Leased(Family),
    /// Checks several keys of such families and of others at once, and refunds and settles them.
    Mixed(Mix),
    /// Checks, refunds and settles a few keys, whose denials are remembered.
    Remembered,
}

/// What the tasks of a process call.
fn loads(process: u16) -> Result<Vec<Load>> {
    let first = 100 + u8::try_from(process)? * 16;
    let busy = (0..BUSY).map(|_| Load::Busy);
    let slow = (BUSY..BUSY + SLOW).map(|index| Load::Slow(first + index));
    let leased = Family::LEASED.into_iter().flat_map(|family| [Load::Leased(family); LEASED]);
    let mixed = Mix::ALL.into_iter().flat_map(|mix| [Load::Mixed(mix); LEASED]);
    let remembered = [Load::Remembered; REMEMBERED];
    Ok(busy.chain(slow).chain(leased).chain(mixed).chain(remembered).collect())
}

/// Sends requests to the layers of a client. Their store records the calls.
async fn send_requests(
    client: Arc<Client>,
    stopped: Arc<AtomicBool>,
    start: u64,
    mut random: Rng,
) -> Vec<Op> {
    while !stopped.load(Ordering::Relaxed) {
        let rotation = u32::try_from((monotonic_micros() - start) / ROTATION_MICROS).unwrap_or_default();
        let caller = u8::try_from(random.u64(..CALLERS)).unwrap_or_default();
        client.request(rotation, caller, &mut random).await;
        sleep(Duration::from_millis(10 + random.u64(..40))).await;
    }
    Vec::new()
}

struct Caller {
    store: Arc<dyn Store>,
    stopped: Arc<AtomicBool>,
    start: u64,
    random: Rng,
    ops: Vec<Op>,
    /// The receipts of some charges, to be refunded or settled later.
    held: Vec<(KeyId, Receipt)>,
}

impl Caller {
    async fn run(mut self, load: Load) -> Vec<Op> {
        while !self.stopped.load(Ordering::Relaxed) && self.ops.len() < MAX_OPS {
            let rotation = (monotonic_micros() - self.start) / ROTATION_MICROS;
            let rotation = u32::try_from(rotation).unwrap_or_default();
            // The history of a key ends with its rotation.
            self.held.retain(|(key_id, _)| key_id.rotation == rotation);
            let corrects = !matches!(load, Load::Slow(_)) && !self.held.is_empty();
            if corrects && self.random.u64(..100) < CORRECTIONS {
                self.correct().await;
            } else {
                let (checks, patience) = self.next(load, rotation);
                self.check(&checks, patience).await;
            }
            sleep(self.pause(load)).await;
        }
        self.ops
    }

    /// The next checks, and how long the caller waits for an answer.
    fn next(&mut self, load: Load, rotation: u32) -> (Vec<(KeyId, u64)>, Duration) {
        match load {
            Load::Busy => (self.random_checks(rotation), PATIENT),
            Load::Slow(caller) => (vec![(KeyId { rotation, family: Family::Slow, caller }, 1)], PATIENT),
            Load::Leased(family) => (vec![(KeyId { rotation, family, caller: 0 }, 1)], PATIENT),
            Load::Mixed(mix) => {
                let checks = mixed::checks(mix, rotation, &mut self.random);
                (checks, mixed::patience(mix, &mut self.random).unwrap_or(PATIENT))
            }
            Load::Remembered => (self.remembered_checks(rotation), PATIENT),
        }
    }

    /// The time until the next checks. Leases expire in some of these pauses.
    fn pause(&mut self, load: Load) -> Duration {
        let (least, spread) = match load {
            Load::Slow(_) => (60, 20),
            Load::Leased(_) | Load::Mixed(_) if self.random.u64(..CALLS_PER_BREAK) == 0 => (150, 600),
            Load::Leased(_) | Load::Mixed(_) | Load::Remembered | Load::Busy => (10, 40),
        };
        Duration::from_millis(least + self.random.u64(..spread))
    }

    fn random_checks(&mut self, rotation: u32) -> Vec<(KeyId, u64)> {
        let caller = u8::try_from(self.random.u64(..CALLERS)).unwrap_or_default();
        let family = *self.random.choice(&Family::BUSY).expect("there is one");
        let cost = 1 + self.random.u64(..family.max_cost());
        let busy = (KeyId { rotation, family, caller }, cost);
        let count = (KeyId { rotation, family: Family::Count, caller }, 1);
        match self.random.u64(..100) {
            0..5 => vec![(busy.0, 0)],
            5..30 => vec![count],
            30..40 => vec![count, busy],
            _ => vec![busy],
        }
    }

    fn remembered_checks(&mut self, rotation: u32) -> Vec<(KeyId, u64)> {
        let (family, caller) = (Family::Remembered, self.random.u64(..REMEMBERED_CALLERS));
        let caller = u8::try_from(caller).unwrap_or_default();
        vec![(KeyId { rotation, family, caller }, 1 + self.random.u64(..family.max_cost()))]
    }

    /// Makes one check of these keys. After `patience` the caller goes away.
    async fn check(&mut self, requested: &[(KeyId, u64)], patience: Duration) {
        let mut checks: Option<Checks> = None;
        for (key_id, cost) in requested {
            let (policy, key) = (key_id.family.policy(), key_id.key());
            checks = Some(match checks {
                None => Checks::one(policy, key, *cost),
                Some(checks) => checks.and(policy, key, *cost).expect("each family has its own name"),
            });
        }
        let Some(checks) = checks else { return };
        let invoked = monotonic_micros();
        let answer = timeout(patience, self.store.check(checks)).await;
        let completed = monotonic_micros();
        let Ok(answer) = answer else {
            let outcome = Outcome::Unknown(Failure::Dropped);
            self.ops.extend(requested.iter().map(|(key_id, cost)| {
                let call = Call::Check(*cost);
                Op { process: 0, key_id: *key_id, call, invoked, completed, outcome: outcome.clone() }
            }));
            return;
        };
        let receipts: Vec<Receipt> =
            answer.as_ref().ok().cloned().into_iter().flat_map(Decided::into_receipts).collect();
        for (index, (key_id, cost)) in requested.iter().enumerate() {
            let name = key_id.family.policy().name().clone();
            let run = receipts.iter().find(|receipt| *receipt.policy().name() == name);
            let position = run.map_or(Position::default(), |receipt| receipt.runs()[0].position);
            let outcome = match &answer {
                Ok(outcome) => {
                    let answer = Answer::new(&outcome.decisions()[index], outcome.is_allowed());
                    // The longest delay of a call is that of its decisive decision.
                    let delay = answer.delay.filter(|_| requested.len() == 1);
                    let by = if outcome.is_leased() || mixed::is_spent(outcome, index) {
                        AnsweredBy::Lease
                    } else if outcome.is_remembered() {
                        AnsweredBy::DenialMemory
                    } else {
                        answer.by
                    };
                    Outcome::Answered(Answer { by, position, delay, ..answer })
                }
                Err(error) => Outcome::of_error(error.kind()),
            };
            let call = Call::Check(*cost);
            self.ops.push(Op { process: 0, key_id: *key_id, call, invoked, completed, outcome });
        }
        for receipt in receipts {
            let charged =
                |(key_id, _): &&(KeyId, u64)| key_id.family.policy().name() == receipt.policy().name();
            if let Some((key_id, _)) = requested.iter().find(charged) {
                self.hold(*key_id, receipt);
            }
        }
    }

    /// Keeps a random share of the receipts.
    fn hold(&mut self, key_id: KeyId, receipt: Receipt) {
        if key_id.family != Family::Slow && self.random.u64(..100) < HELD {
            self.held.push((key_id, receipt));
        }
        if self.held.len() > MAX_HELD {
            drop(self.held.remove(0));
        }
    }

    /// Refunds or settles a charge, or all held charges of its key at once.
    async fn correct(&mut self) {
        let index = self.random.usize(..self.held.len());
        let (key_id, mut receipt) = self.held.remove(index);
        if self.random.u64(..2) == 0 {
            let held = std::mem::take(&mut self.held);
            self.held = held
                .into_iter()
                .filter_map(|(other_id, other)| {
                    if other_id == key_id { receipt.absorb(other) } else { Some(other) }
                        .map(|left| (other_id, left))
                })
                .collect();
        }
        let more = 1 + self.random.u64(..3);
        let to = match self.random.u64(..4) {
            0 => receipt.cost() + more,
            1 => receipt.cost() / 2,
            _ => 0,
        };
        let call = Call::Settle(Correction::new(&receipt, to));
        let invoked = monotonic_micros();
        let answer = self.store.settle(receipt, to).await;
        let completed = monotonic_micros();
        let outcome = match answer {
            Ok(settlement) => {
                let left = settlement.receipt.filter(|receipt| receipt.cost() > 0);
                if let Some(receipt) = left {
                    self.hold(key_id, receipt);
                }
                let answer = Answer::new(&settlement.decision, true);
                Outcome::Answered(Answer { uncharged: settlement.uncharged, ..answer })
            }
            Err(error) => Outcome::of_error(error.kind()),
        };
        self.ops.push(Op { process: 0, key_id, call, invoked, completed, outcome });
    }
}

/// Measures the longest delay with which a task wakes up.
async fn measure_stall(stall: Arc<AtomicU64>) {
    let pause = Duration::from_millis(5);
    loop {
        let before = Instant::now();
        sleep(pause).await;
        let late = before.elapsed().saturating_sub(pause);
        stall.fetch_max(u64::try_from(late.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

fn print_line(line: &str) -> Result<()> {
    println!("{line}");
    Ok(stdout().flush()?)
}

/// Waits for a line or the end of standard input.
async fn read_line() -> Result<()> {
    let line = tokio::task::spawn_blocking(|| stdin().lock().read_line(&mut String::new()));
    line.await?.context("cannot read standard input").map(drop)
}

/// Far longer than a call takes.
const PATIENT: Duration = Duration::from_secs(60);
/// The deadline of a call, on a machine that also runs the servers and the other workers.
pub(crate) const DEADLINE: Duration = Duration::from_millis(100);
const BUSY: u8 = 6;
const SLOW: u8 = 2;
/// The tasks for each leased family: several, so that some wait for a lease that another is asking for.
const LEASED: usize = 2;
/// The tasks whose denials are remembered, and their keys.
const REMEMBERED: usize = 2;
const REMEMBERED_CALLERS: u64 = 3;
/// The tasks with requests in flight.
const IN_FLIGHT: u64 = 2;
/// A task for a leased family takes a break after this number of calls, on average.
const CALLS_PER_BREAK: u64 = 30;
const CALLERS: u64 = 10;
const MAX_OPS: usize = 200_000;
/// The share of calls that are corrections, and the share of receipts that are kept, in percent.
const CORRECTIONS: u64 = 20;
const HELD: u64 = 50;
const MAX_HELD: usize = 30;
