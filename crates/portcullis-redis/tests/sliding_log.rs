//! What a sliding log asks of the server: no more than the logarithm of its limit, whoever calls.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use portcullis_core::{Checks, Key, Outcome, Policy, Quota, Receipt, Secret, Store as _, Timestamp};
use portcullis_redis::RedisStore;
use portcullis_testing::{ManualClock, RedisServer};

#[tokio::test]
async fn a_check_of_the_longest_log_reads_a_few_blocks_wherever_the_living_begin() {
    let mut log = Driven::new().await;
    // A charge of 100 every half millisecond: 1 000 different instants in half a second.
    for _ in 0..1_000 {
        assert!(log.after(500, 100).await.is_allowed());
    }
    assert!(!log.after(0, 1).await.is_allowed());
    let full = log.now;
    let mut most = 0;
    for step in 0..200 {
        // Half a minute later all live; then they leave, more with every step.
        log.now = full + MINUTE - 510_000 + step * 2_600;
        log.forget();
        let peek = log.after(0, 0).await;
        most = most.max(log.reads());
        let denied = log.after(0, peek.decision().remaining() + 1).await;
        assert!(!denied.is_allowed());
        most = most.max(log.reads() / 2);
        assert_eq!(log.writes(), 0);
    }
    assert!((5..=25).contains(&most), "{most} reads");
}

#[tokio::test]
async fn one_hammering_client_costs_a_few_reads_per_check_and_a_write_per_admission() {
    let mut log = Driven::new().await;
    assert!(log.after(0, LIMIT / 2).await.is_allowed());
    for _ in 0..500 {
        assert!(log.after(60_000, 100).await.is_allowed());
    }
    log.now += 29_000_000;
    log.forget();
    let (mut admitted, mut checks) = (0, 0);
    // It asks far more often than its limit allows, before and after its first charge leaves.
    while checks < 4_000 {
        checks += 1;
        admitted += u64::from(log.after(700, 300).await.is_allowed());
    }
    assert!(admitted > 100 && admitted < checks, "{admitted} of {checks}");
    assert!(log.reads() <= 5 * checks, "{} reads of {checks} checks", log.reads());
    assert!(log.writes() <= 4 * admitted, "{} writes for {admitted} admissions", log.writes());
}

#[tokio::test]
async fn a_ring_is_made_anew_only_when_it_doubles_and_then_never_again() {
    let mut log = Driven::new().await;
    // At the rate of the limit, for two periods.
    for _ in 0..4_000 {
        assert!(log.after(30_000, 50).await.is_allowed());
    }
    assert!(log.calls("set") <= 12, "made {} times", log.calls("set"));
    let bytes: u64 = log.server.cli(&["STRLEN", log.key().as_str()]).unwrap().parse().unwrap();
    assert_eq!(bytes, 24 + 8 * u64::from(LIMIT));
    log.forget();
    for _ in 0..1_000 {
        assert!(log.after(30_000, 50).await.is_allowed());
    }
    assert_eq!(log.calls("set"), 0);
}

#[tokio::test]
async fn refunds_of_a_long_log_are_a_few_commands_wherever_they_cut() {
    let mut log = Driven::new().await;
    let mut receipts: Vec<Receipt> = Vec::new();
    for _ in 0..1_000 {
        receipts.extend(log.after(1_000, 100).await.into_receipts());
    }
    for index in [999, 0, 500, 3, 700] {
        log.forget();
        let receipt = receipts.remove(index.min(receipts.len() - 1));
        let before = log.after(0, 0).await.decision().remaining();
        assert_eq!(log.store.refund(receipt).await.unwrap().remaining(), before + 100);
        assert!(log.reads() <= 50 && log.writes() <= 4, "{} reads, {} writes", log.reads(), log.writes());
    }
    assert!(log.after(0, 500).await.is_allowed());
    assert!(!log.after(0, 1).await.is_allowed());
}

/// One key of the longest log, on a clock that is set by hand.
struct Driven {
    server: RedisServer,
    clock: ManualClock,
    store: RedisStore,
    now: u64,
}

impl Driven {
    async fn new() -> Self {
        let server = RedisServer::start().unwrap();
        let clock = ManualClock::default();
        let store = RedisStore::builder(server.url()).deadline(PATIENCE).scenario_clock(clock.clone());
        let store = store.connect().await.unwrap();
        let driven = Self { server, clock, store, now: START };
        driven.forget();
        driven
    }

    async fn after(&mut self, micros: u64, cost: u32) -> Outcome {
        self.now += micros;
        self.clock.set(Timestamp::from_micros(self.now));
        self.store.check(Checks::one(LONGEST, ada(), cost)).await.unwrap()
    }

    /// Begins to count commands anew.
    fn forget(&self) {
        self.server.cli(&["CONFIG", "RESETSTAT"]).unwrap();
    }

    fn calls(&self, command: &str) -> u64 {
        self.server.calls(command).unwrap()
    }

    fn reads(&self) -> u64 {
        self.calls("getrange") + self.calls("get") + self.calls("strlen")
    }

    fn writes(&self) -> u64 {
        self.calls("set") + self.calls("setrange") + self.calls("pexpire")
    }

    fn key(&self) -> String {
        self.server.cli(&["KEYS", "*:log:sliding_log"]).unwrap().trim().to_owned()
    }
}

fn ada() -> Key {
    let mut hasher = Secret::published().hasher();
    hasher.writer().part("user", b"ada");
    hasher.finish().unwrap()
}

const LIMIT: u32 = 100_000;
const LONGEST: Policy = Policy::sliding_log("log", Quota::per_minute(LIMIT));
const MINUTE: u64 = 60_000_000;
/// In the year 2001.
const START: u64 = 1_000_000_000_000_000;
/// What is late here is not wrong.
const PATIENCE: Duration = Duration::from_secs(10);
