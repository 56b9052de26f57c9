//! The number of commands that a sliding log takes: at most logarithmic in its limit, for any sequence of calls.

use portcullis_core::store::{Checks, Outcome, Store as _};
use portcullis_core::{Policy, Quota, Receipt, Timestamp};
use portcullis_redis::RedisStore;
use portcullis_servers::RedisServer;
use portcullis_testing::ManualClock;
use portcullis_testing::timeline::steps;

use crate::support::{key, patient};

#[tokio::test]
async fn a_check_reads_few_blocks_wherever_live_entries_begin() {
    let mut log = TestLog::new().await;
    // A charge of 100 every half millisecond: 1 000 different instants in half a second.
    for _ in 0..1_000 {
        assert!(log.check_after(500, 100).await.is_allowed());
    }
    assert!(!log.check_after(0, 1).await.is_allowed());
    let full = log.now;
    let mut most = 0;
    let stride = if steps() >= 100_000 { 1 } else { 4 };
    for step in (0..200).step_by(stride) {
        // At first all entries are live, shortly before the oldest expires; then more expire with every step.
        log.now = full + MINUTE - 510_000 + step * 2_600;
        log.reset_counters();
        let peek = log.check_after(0, 0).await;
        most = most.max(log.reads());
        let denied = log.check_after(0, peek.decision().remaining() + 1).await;
        assert!(!denied.is_allowed());
        most = most.max(log.reads() / 2);
        assert_eq!(log.writes(), 0);
    }
    assert!((5..=25).contains(&most), "{most} reads");
}

#[tokio::test]
async fn checks_at_a_high_rate_read_little_and_write_on_admission() {
    let mut log = TestLog::new().await;
    assert!(log.check_after(0, LIMIT / 2).await.is_allowed());
    for _ in 0..500 {
        assert!(log.check_after(60_000, 100).await.is_allowed());
    }
    log.now += 29_000_000;
    log.reset_counters();
    let (mut admitted, mut checks) = (0, 0);
    // The checks come far more often than the limit allows, before and after the first charge expires.
    while checks < 4_000 {
        checks += 1;
        admitted += u64::from(log.check_after(700, 300).await.is_allowed());
    }
    assert!(admitted > 100 && admitted < checks, "{admitted} of {checks}");
    assert!(log.reads() <= 5 * checks, "{} reads of {checks} checks", log.reads());
    assert!(log.writes() <= 4 * admitted, "{} writes for {admitted} admissions", log.writes());
}

#[tokio::test]
async fn a_ring_is_rewritten_only_when_it_doubles() {
    let mut log = TestLog::new().await;
    // At the rate of the limit, for two periods.
    for _ in 0..4_000 {
        assert!(log.check_after(30_000, 50).await.is_allowed());
    }
    assert!(log.calls("set") <= 12, "written {} times", log.calls("set"));
    let bytes: u64 = log.server.cli(&["STRLEN", log.stored_key().as_str()]).unwrap().parse().unwrap();
    assert_eq!(bytes, 24 + 8 * LIMIT);
    log.reset_counters();
    for _ in 0..1_000 {
        assert!(log.check_after(30_000, 50).await.is_allowed());
    }
    assert_eq!(log.calls("set"), 0);
}

#[tokio::test]
async fn a_refund_from_a_long_log_takes_few_commands_anywhere() {
    let mut log = TestLog::new().await;
    let mut receipts: Vec<Receipt> = Vec::new();
    for _ in 0..1_000 {
        receipts.extend(log.check_after(1_000, 100).await.into_receipts());
    }
    for index in [999, 0, 500, 3, 700] {
        log.reset_counters();
        let receipt = receipts.remove(index.min(receipts.len() - 1));
        let before = log.check_after(0, 0).await.decision().remaining();
        assert_eq!(log.store.refund(receipt).await.unwrap().remaining(), before + 100);
        assert!(log.reads() <= 50 && log.writes() <= 4, "{} reads, {} writes", log.reads(), log.writes());
    }
    assert!(log.check_after(0, 500).await.is_allowed());
    assert!(!log.check_after(0, 1).await.is_allowed());
}

/// One key under the longest log, on a clock that the test sets.
struct TestLog {
    server: RedisServer,
    clock: ManualClock,
    store: RedisStore,
    now: u64,
}

impl TestLog {
    async fn new() -> Self {
        let server = RedisServer::start().unwrap();
        let clock = ManualClock::default();
        let store = patient(&server).scenario_clock(clock.clone());
        let store = store.connect().await.unwrap();
        let log = Self { server, clock, store, now: START };
        log.reset_counters();
        log
    }

    /// Checks the key `micros` after the last check.
    async fn check_after(&mut self, micros: u64, cost: u64) -> Outcome {
        self.now += micros;
        self.clock.set(Timestamp::from_micros(self.now));
        self.store.check(Checks::one(LONGEST, key("ada"), cost)).await.unwrap()
    }

    /// Resets the server's counters of commands.
    fn reset_counters(&self) {
        self.server.cli(&["CONFIG", "RESETSTAT"]).unwrap();
    }

    fn calls(&self, command: &str) -> u64 {
        self.server.calls(command).unwrap()
    }

    fn reads(&self) -> u64 {
        self.server.calls_of(&["getrange", "get", "strlen"]).unwrap()
    }

    fn writes(&self) -> u64 {
        self.server.calls_of(&["set", "setrange", "pexpire"]).unwrap()
    }

    /// The name of the key in Redis.
    fn stored_key(&self) -> String {
        self.server.cli(&["KEYS", "*:log:sliding_log.*"]).unwrap().trim().to_owned()
    }
}

const LIMIT: u64 = 100_000;
const LONGEST: Policy = Policy::sliding_log("log", Quota::per_minute(LIMIT));
const MINUTE: u64 = 60_000_000;
/// An instant in the year 2001.
const START: u64 = 1_000_000_000_000_000;
