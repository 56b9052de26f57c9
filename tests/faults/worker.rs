//! A process that asks a store, and writes down what it is told.

use std::fs::File;
use std::io::{BufRead as _, BufWriter, Write as _, stdin, stdout};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use portcullis_core::{Checks, Outcome as Decided, Position, Receipt, Store as _};
use portcullis_redis::RedisStore;
use portcullis_tests::faults::{
    Answer, Call, Correction, Family, KeyId, Op, Outcome, ROTATION_MICROS, Random, monotonic_micros,
};
use tokio::runtime::{Builder, Handle};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// How a process is to ask. It says `ready`, asks until it is sent a line, says `stopped`, lets the store go at the next
/// line, says what is left of it, and ends at the third.
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[arg(long)]
    pub(crate) url: String,
    #[arg(long)]
    pub(crate) process: u16,
    #[arg(long)]
    pub(crate) seed: u64,
    /// The monotonic instant at which the first keys were new
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
    // The checker knows the server's answers only.
    let store = RedisStore::builder(&options.url).deadline(DEADLINE).denial_memory(0).connect().await?;
    let over = Arc::new(AtomicBool::new(false));
    let stall = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for index in 0..BUSY + SLOW {
        let seed = options.seed ^ (u64::from(options.process) << 32) ^ (u64::from(index) << 48);
        let (store, over) = (store.clone(), Arc::clone(&over));
        let (random, ops, held) = (Random::new(seed), Vec::new(), Vec::new());
        let caller = Caller { store, over, start: options.start, random, ops, held };
        let slow_caller = 100 + u8::try_from(options.process)? * 16 + index;
        tasks.spawn(if index < BUSY { caller.run(None) } else { caller.run(Some(slow_caller)) });
    }
    let watch = tokio::spawn(watch(Arc::clone(&stall)));
    say("ready")?;
    heard().await?;
    over.store(true, Ordering::Relaxed);
    let mut file = BufWriter::new(File::create(&options.history)?);
    while let Some(ops) = tasks.join_next().await {
        ops?.iter().try_for_each(|op| writeln!(file, "{op}"))?;
    }
    file.flush()?;
    watch.abort();
    let _ = watch.await;
    say("stopped")?;
    heard().await?;
    drop(store);
    let patience = Instant::now() + Duration::from_secs(5);
    while alive() > before && Instant::now() < patience {
        sleep(Duration::from_millis(10)).await;
    }
    say(&format!("{} {}", alive() - before, stall.load(Ordering::Relaxed)))?;
    heard().await
}

struct Caller {
    store: RedisStore,
    over: Arc<AtomicBool>,
    start: u64,
    random: Random,
    ops: Vec<Op>,
    /// Receipts of some charges, to be refunded or settled later.
    held: Vec<(KeyId, Receipt)>,
}

impl Caller {
    /// Asks at random, with refunds and settlements, or asks always for one key and below its rate.
    async fn run(mut self, slow: Option<u8>) -> Vec<Op> {
        while !self.over.load(Ordering::Relaxed) && self.ops.len() < MOST_OPS {
            let rotation = (monotonic_micros() - self.start) / ROTATION_MICROS;
            let rotation = u32::try_from(rotation).unwrap_or_default();
            if let Some(caller) = slow {
                self.ask(&[(KeyId { rotation, family: Family::Slow, caller }, 1)]).await;
                sleep(Duration::from_millis(60 + self.random.below(20))).await;
            } else {
                // The history of a key ends with its rotation.
                self.held.retain(|(spot, _)| spot.rotation == rotation);
                if !self.held.is_empty() && self.random.below(100) < CORRECTIONS {
                    self.correct().await;
                } else {
                    let questions = self.questions(rotation);
                    self.ask(&questions).await;
                }
                sleep(Duration::from_millis(10 + self.random.below(40))).await;
            }
        }
        self.ops
    }

    fn questions(&mut self, rotation: u32) -> Vec<(KeyId, u32)> {
        let caller = u8::try_from(self.random.below(CALLERS)).unwrap_or_default();
        let family = *self.random.one_of(&Family::BUSY);
        let cost = 1 + self.random.below(family.most_asked());
        let busy = (KeyId { rotation, family, caller }, u32::try_from(cost).unwrap_or(1));
        let count = (KeyId { rotation, family: Family::Count, caller }, 1);
        match self.random.below(100) {
            0..5 => vec![(busy.0, 0)],
            5..30 => vec![count],
            30..40 => vec![count, busy],
            _ => vec![busy],
        }
    }

    async fn ask(&mut self, questions: &[(KeyId, u32)]) {
        let mut checks: Option<Checks> = None;
        for (spot, cost) in questions {
            let (policy, key) = (spot.family.policy(), spot.key());
            checks = Some(match checks {
                None => Checks::one(policy, key, *cost),
                Some(checks) => checks.and(policy, key, *cost).expect("families have names of their own"),
            });
        }
        let Some(checks) = checks else { return };
        let invoked = monotonic_micros();
        let answer = self.store.check(checks).await;
        let completed = monotonic_micros();
        let receipts: Vec<Receipt> =
            answer.as_ref().ok().cloned().into_iter().flat_map(Decided::into_receipts).collect();
        for (index, (spot, cost)) in questions.iter().enumerate() {
            let name = spot.family.policy().name().clone();
            let run = receipts.iter().find(|receipt| *receipt.policy().name() == name);
            let position = run.map_or(Position::default(), |receipt| receipt.runs()[0].position);
            let outcome = match &answer {
                Ok(outcome) => {
                    let answer = Answer::new(&outcome.decisions()[index], outcome.is_allowed());
                    Outcome::Answered(Answer { position, ..answer })
                }
                Err(error) => Outcome::of_error(error.kind()),
            };
            let call = Call::Check(*cost);
            self.ops.push(Op { process: 0, spot: *spot, call, invoked, completed, outcome });
        }
        for receipt in receipts {
            let charged = |(spot, _): &&(KeyId, u32)| spot.family.policy().name() == receipt.policy().name();
            if let Some((spot, _)) = questions.iter().find(charged) {
                self.hold(*spot, receipt);
            }
        }
    }

    /// Keeps a part of the receipts.
    fn hold(&mut self, spot: KeyId, receipt: Receipt) {
        if spot.family != Family::Slow && self.random.below(100) < HELD {
            self.held.push((spot, receipt));
        }
        if self.held.len() > MOST_HELD {
            drop(self.held.remove(0));
        }
    }

    /// Refunds or settles a charge, or all held charges of its key at once.
    async fn correct(&mut self) {
        let index = usize::try_from(self.random.below(self.held.len() as u64)).unwrap_or_default();
        let (spot, mut receipt) = self.held.remove(index);
        if self.random.below(2) == 0 {
            let held = std::mem::take(&mut self.held);
            self.held = held
                .into_iter()
                .filter_map(|(of, other)| {
                    if of == spot { receipt.absorb(other) } else { Some(other) }.map(|left| (of, left))
                })
                .collect();
        }
        let more = u32::try_from(1 + self.random.below(3)).unwrap_or(1);
        let to = match self.random.below(4) {
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
                left.into_iter().for_each(|receipt| self.hold(spot, receipt));
                let answer = Answer::new(&settlement.decision, true);
                Outcome::Answered(Answer { uncharged: settlement.uncharged, ..answer })
            }
            Err(error) => Outcome::of_error(error.kind()),
        };
        self.ops.push(Op { process: 0, spot, call, invoked, completed, outcome });
    }
}

/// Notes how late the machine lets anybody wake up.
async fn watch(stall: Arc<AtomicU64>) {
    let pause = Duration::from_millis(5);
    loop {
        let before = Instant::now();
        sleep(pause).await;
        let late = before.elapsed().saturating_sub(pause);
        stall.fetch_max(u64::try_from(late.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

fn say(line: &str) -> Result<()> {
    println!("{line}");
    Ok(stdout().flush()?)
}

/// Waits for a line, or for the end of whoever sends it.
async fn heard() -> Result<()> {
    let line = tokio::task::spawn_blocking(|| stdin().lock().read_line(&mut String::new()));
    line.await?.context("standard input is gone").map(drop)
}

/// On a machine that is busy with all of this.
pub(crate) const DEADLINE: Duration = Duration::from_millis(100);
const BUSY: u8 = 6;
const SLOW: u8 = 2;
const CALLERS: u64 = 10;
const MOST_OPS: usize = 200_000;
/// The share of calls that are corrections, and the share of receipts that are kept, in percent.
const CORRECTIONS: u64 = 20;
const HELD: u64 = 50;
const MOST_HELD: usize = 30;
