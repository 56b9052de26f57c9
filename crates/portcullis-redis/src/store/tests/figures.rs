//! Figures of the store, compared with what the tests count themselves.

mod outages;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use portcullis_core::store::{
    CallObserver, CallOutcome, Checks, FigureKind, FigureUnit, Outcome, Store as _, StoreCall,
};
use portcullis_core::{Policy, Quota, StoreError};
use portcullis_servers::RedisCluster;

use super::{MONTHLY, RedisStore, Server, check, key, patient, receipt};
use crate::connection::tests::waiting::until;

/// Long, because decisions are sent early after a sixteenth of it, and a busy machine may be late.
const DEADLINE: Duration = Duration::from_secs(40);
/// The most calls of one key in flight, and the most that wait.
const IN_FLIGHT: u64 = 64;
const WAITING: u64 = 625;
/// The decisions that join an equal one.
const JOINED: u64 = 256;

/// The figures by name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Figures(BTreeMap<&'static str, u64>);

impl Figures {
    fn of(store: &RedisStore) -> Self {
        let mut all = BTreeMap::new();
        store.figures(&mut |figure| {
            assert!(figure.policy.is_none() && !figure.help.is_empty(), "{figure:?}");
            let unit = if figure.name == "degraded" { FigureUnit::Microseconds } else { FigureUnit::Count };
            assert_eq!(figure.unit, unit, "{figure:?}");
            let is_error = figure.name.starts_with("errors_");
            let is_counter = is_error || COUNTERS.contains(&figure.name);
            assert_eq!(figure.kind == FigureKind::Counter, is_counter, "{figure:?}");
            assert_eq!(all.insert(figure.name, figure.value), None, "{figure:?}");
        });
        Self(all)
    }

    fn get<const N: usize>(&self, names: [&str; N]) -> [u64; N] {
        names.map(|name| self.0[name])
    }

    fn errors(&self) -> Vec<(&str, u64)> {
        let errors = self.0.iter().filter(|(_, count)| **count > 0);
        errors.filter_map(|(name, count)| Some((name.strip_prefix("errors_")?, *count))).collect()
    }
}

const COUNTERS: [&str; 8] = [
    "breaker_opens",
    "calls",
    "decisions",
    "degraded",
    "lease_hits",
    "reconnects",
    "remembered_denial_hits",
    "scripts_loaded",
];

/// The errors that a test has got, by kind.
#[derive(Default)]
struct Errors(BTreeMap<&'static str, u64>);

impl Errors {
    fn count<T>(&mut self, answer: Result<T, StoreError>) -> bool {
        let Err(error) = answer else { return true };
        *self.0.entry(error.kind().as_str()).or_default() += 1;
        false
    }

    fn all(&self) -> Vec<(&str, u64)> {
        self.0.iter().map(|(kind, count)| (*kind, *count)).collect()
    }
}

/// Keeps the calls that it observes.
#[derive(Default)]
struct Calls(Mutex<Vec<StoreCall>>);

impl CallObserver for Calls {
    fn on_call(&self, call: &StoreCall) {
        self.0.lock().unwrap().push(*call);
    }
}

impl Calls {
    fn observe(store: &RedisStore) -> Arc<Self> {
        let calls = Arc::new(Self::default());
        store.observe_calls(Arc::<Self>::clone(&calls));
        calls
    }

    fn take(&self) -> Vec<StoreCall> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

async fn open(server: &Server) -> RedisStore {
    let store = patient(server.url()).deadline(DEADLINE).max_waiting(10_000);
    store.connect().await.unwrap()
}

fn user(number: u64) -> Checks {
    Checks::one(MONTHLY, key(&[&number.to_string()]), 1)
}

async fn charge_users(store: &RedisStore, users: u64) {
    let tasks: Vec<_> = (0..users).map(|number| tokio::spawn(store.check(user(number)))).collect();
    for task in tasks {
        assert!(task.await.unwrap().unwrap().is_allowed());
    }
}

#[tokio::test]
async fn calls_and_decisions_are_those_of_the_server() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let (calls, before) = (Calls::observe(&store), Figures::of(&store));
    assert_eq!(before.get(["connections", "connections_down", "reconnects"]), [1, 0, 0]);
    server.cli(&["CONFIG", "RESETSTAT"]);
    charge_users(&store, 100).await;
    let receipt = receipt(&store, &MONTHLY, 4).await;
    assert_eq!(store.refund(receipt).await.unwrap().remaining(), 1_000);

    let after = Figures::of(&store);
    let [made, decisions] = ["calls", "decisions"].map(|name| after.0[name] - before.0[name]);
    // Two decisions by themselves, all that arrived meanwhile, one more and its refund.
    assert_eq!((server.calls("evalsha"), made, decisions), (5, 5, 101));
    let observed = calls.take();
    let of_each: Vec<_> = observed.iter().map(|call| call.decisions).collect();
    assert_eq!(of_each, [1, 1, 98, 1, 0]);
    assert!(observed.iter().all(|call| call.outcome == CallOutcome::Answered && !call.latency.is_zero()));
    assert_eq!(after.errors(), []);
    let idle = ["calls_in_flight", "calls_waiting", "decisions_waiting", "breaker_open", "breaker_opens"];
    assert_eq!(after.get(idle), [0; 5]);
    assert_eq!(after.get(["breaker_closed", "breaker_half_open", "calls_in_flight_limit"]), [1, 0, 1_024]);
}

#[tokio::test]
async fn waiting_and_rejected_decisions_are_counted() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    server.signal("STOP");
    let one = || Checks::one(MONTHLY, key(&["ada"]), 1);
    let tasks: Vec<_> = (0..1_000).map(|_| tokio::spawn(store.check(one()))).collect();
    let overloaded = [("overloaded", 1_000 - IN_FLIGHT - JOINED - WAITING)];
    until(|| Figures::of(&store).errors() == overloaded).await;
    let figures = Figures::of(&store);
    assert_eq!(figures.get(["calls_in_flight", "calls_waiting"]), [IN_FLIGHT, WAITING]);
    assert_eq!(figures.get(["decisions_waiting"]), [IN_FLIGHT - 2 + JOINED]);

    server.signal("CONT");
    let mut errors = Errors::default();
    for task in tasks {
        errors.count(task.await.unwrap());
    }
    let figures = Figures::of(&store);
    assert_eq!(figures.errors(), errors.all());
    assert_eq!(figures.get(["calls_in_flight", "calls_waiting", "decisions_waiting"]), [0; 3]);
}

#[tokio::test]
async fn an_error_of_the_server_is_counted_once_for_each_decision() {
    let server = Server::start(&["--maxmemory-policy", "noeviction"]);
    let store = open(&server).await;
    let calls = Calls::observe(&store);
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let tasks: Vec<_> = (0..5).map(|number| tokio::spawn(store.check(user(number)))).collect();
    let mut errors = Errors::default();
    for task in tasks {
        assert!(!errors.count(task.await.unwrap()));
    }
    assert_eq!(errors.all(), [("failed", 5)]);
    assert_eq!(Figures::of(&store).errors(), errors.all());
    // Two decisions by themselves, then the combined call of three, each of which is then sent by itself.
    let observed = calls.take();
    let of_each: Vec<_> = observed.iter().map(|call| call.decisions).collect();
    assert_eq!(of_each, [1, 1, 3, 1, 1, 1]);
    assert!(observed.iter().all(|call| call.outcome == CallOutcome::Failed("failed")), "{observed:?}");
}

#[tokio::test]
async fn remembered_denials_make_no_call_and_are_counted() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let once = Policy::fixed_window("once", Quota::per_week(1));
    assert!(check(&store, &once, 1).await.is_allowed());
    assert!(!check(&store, &once, 1).await.is_remembered());
    let before = Figures::of(&store);
    let remembered = ["remembered_denials", "remembered_denial_hits"];
    assert_eq!(before.get(remembered), [1, 0]);
    let mut hits = 0;
    for _ in 0..7 {
        // On a machine that pauses, the denial may have been forgotten.
        hits += u64::from(check(&store, &once, 1).await.is_remembered());
    }
    let after = Figures::of(&store);
    let [calls, made] = [&before, &after].map(|figures| figures.0["calls"]);
    assert_eq!((after.0["remembered_denial_hits"], made - calls), (hits, 7 - hits));
}

#[tokio::test]
async fn leases_and_what_they_pay_are_counted() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let weekly = Policy::fixed_window("weekly", Quota::per_week(20_000)).lease(400);
    let before = Figures::of(&store);
    let mut leased = 0;
    let mut requests = 0;
    while leased < 20 {
        leased += u64::from(check(&store, &weekly, 1).await.is_leased());
        requests += 1;
        assert!(requests < 10_000, "nothing is leased");
    }
    let after = Figures::of(&store);
    assert_eq!(after.get(["lease_hits", "leases"]), [leased, 1]);
    assert_eq!(after.0["decisions"] - before.0["decisions"], requests - leased);
    let left = check(&store, &weekly, 0).await.decision().remaining();
    assert_eq!(left + requests + after.0["leased_units"], 20_000, "all units are spent or in lease");
    store.drain().await.unwrap();
    assert_eq!(Figures::of(&store).get(["leases", "leased_units"]), [0, 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_sums_over_its_nodes() {
    let mut cluster = RedisCluster::start(3, 0).unwrap();
    let store = patient(cluster.url()).deadline(DEADLINE).connect().await.unwrap();
    // The first calls load the script.
    charge_users(&store, 60).await;
    let made = |cluster: &RedisCluster| -> u64 {
        cluster.nodes().iter().map(|node| node.calls("evalsha").unwrap()).sum()
    };
    let (calls, before, sent) = (Calls::observe(&store), Figures::of(&store), made(&cluster));
    assert_eq!(before.get(["connections", "connections_down", "breaker_closed"]), [3, 0, 3]);
    assert!(before.0["scripts_loaded"] >= 3, "{before:?}");
    charge_users(&store, 60).await;
    let after = Figures::of(&store);
    let [made, decisions] = ["calls", "decisions"].map(|name| after.0[name] - before.0[name]);
    let sent = cluster.nodes().iter().map(|node| node.calls("evalsha").unwrap()).sum::<u64>() - sent;
    assert_eq!((made, decisions), (sent, 60));
    let observed = calls.take();
    assert_eq!(observed.len(), usize::try_from(sent).unwrap());
    assert_eq!(observed.iter().map(|call| call.decisions).sum::<u32>(), 60);

    cluster.kill(0).unwrap();
    until(|| Figures::of(&store).0["connections_down"] > 0).await;
    let down = Figures::of(&store);
    assert_eq!(down.0["connections"], 2);
    until(|| Figures::of(&store).0["degraded"] > down.0["degraded"]).await;
}

fn is_allowed(answer: &Result<Outcome, StoreError>) -> bool {
    answer.as_ref().is_ok_and(Outcome::is_allowed)
}
