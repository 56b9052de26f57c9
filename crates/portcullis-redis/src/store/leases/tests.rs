use portcullis_core::store::{Position, Store as _};
use portcullis_core::{Quota, StoreErrorKind};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::*;
use crate::connection::tests::server::Server;
use crate::connection::tests::waiting::until;
use crate::store::tests::{key, patient};

/// In microseconds.
const HOUR: u64 = 3_600_000_000;
const HOURLY: Policy = Policy::fixed_window("hourly", Quota::per_hour(1_000)).lease(100);

fn check(user: &str) -> Check {
    Check { policy: HOURLY, key: key(&[user]), cost: 1 }
}

/// Redis answers that most of the limit is left.
fn answered(leases: &Leases, user: &str) {
    let check = check(user);
    let snapshot = check.policy.strategy().snapshot(None, Timestamp::EPOCH, 0, true);
    leases.answered(&check, Timestamp::EPOCH, snapshot);
}

fn pay(leases: &Leases, user: &str) -> Payment {
    leases.pay_one(&check(user), leases.now(), CallWait::Once)
}

/// Makes a key hot, and begins a call for a lease of it. Returns the units that the call asks for.
fn ask(leases: &Leases, user: &str) -> u64 {
    for _ in 0..20 {
        assert!(matches!(pay(leases, user), Payment::Ask(0)));
    }
    answered(leases, user);
    let Payment::Ask(units @ 4..) = pay(leases, user) else { panic!("nothing is leased") };
    units
}

/// Answers the call for a lease of `units`. Returns their position.
fn grant(leases: &Leases, check: &Check, units: u64) -> Position {
    grant_at(leases, check, units, Timestamp::EPOCH)
}

/// Like [`grant`], but at an instant of the store.
fn grant_at(leases: &Leases, check: &Check, units: u64, at: Timestamp) -> Position {
    let (strategy, mut state) = (check.policy.strategy(), None);
    strategy.charge(&mut state, at, 1 + units);
    let snapshot = strategy.snapshot(state.as_ref(), at, 1 + units, true);
    let position = strategy.position(state.as_ref(), at);
    leases.granted(check, Answer { units, sent: leases.now(), at, snapshot, position });
    position
}

fn enabled() -> Leases {
    Leases::new(true)
}

#[tokio::test(start_paused = true)]
async fn number_of_keys_is_bounded() {
    let leases = enabled();
    for user in 0..20_000 {
        pay(&leases, &user.to_string());
    }
    let keys: usize = leases.shards.iter().map(|slot| lock(&slot.keys).entries().count()).sum();
    assert!((1_000..=4_096).contains(&keys), "{keys}");
}

/// As the page about leases states.
#[test]
fn keys_take_at_most_2_5_megabytes() {
    let entries = SHARDS * shard::CAPACITY;
    let bytes = entries * size_of::<Option<Entry>>();
    assert!(entries == 4_096 && bytes <= 2_500_000, "{bytes} bytes for {entries} keys");
}

#[tokio::test(start_paused = true)]
async fn keys_with_few_requests_do_not_displace_a_hot_one() {
    let leases = enabled();
    for _ in 0..20 {
        pay(&leases, "hot");
    }
    for user in 0..20_000 {
        pay(&leases, &user.to_string());
    }
    let now = leases.now();
    let requests = leases.change(&HOURLY, key(&["hot"]), |entry| entry.sizing.recent_requests(now));
    assert_eq!(requests, Some(20));
}

#[tokio::test(start_paused = true)]
async fn requests_wait_while_a_lease_is_being_charged() {
    let leases = enabled();
    for _ in 0..20 {
        assert!(matches!(pay(&leases, "hot"), Payment::Ask(0)));
    }
    let hot = check("hot");
    answered(&leases, "hot");
    assert!(matches!(pay(&leases, "hot"), Payment::Ask(4..)));
    assert!(matches!(pay(&leases, "hot"), Payment::Wait(_)));
    leases.not_granted(&hot, false);
    assert!(matches!(pay(&leases, "hot"), Payment::Ask(4..)));
    leases.not_granted(&hot, true);
    assert!(matches!(pay(&leases, "hot"), Payment::Ask(0)));
}

#[tokio::test(start_paused = true)]
async fn no_more_requests_wait_than_a_lease_pays_for() {
    let leases = enabled();
    for _ in 0..ask(&leases, "hot") {
        assert!(matches!(pay(&leases, "hot"), Payment::Wait(_)));
    }
    assert!(matches!(pay(&leases, "hot"), Payment::Ask(0)));
    // The next call has units of its own.
    leases.not_granted(&check("hot"), false);
    assert!(matches!(pay(&leases, "hot"), Payment::Ask(4..)));
    assert!(matches!(pay(&leases, "hot"), Payment::Wait(_)));
}

#[tokio::test(start_paused = true)]
async fn request_waits_for_one_call() {
    let leases = enabled();
    ask(&leases, "hot");
    let Payment::Wait(call) = pay(&leases, "hot") else { panic!("it does not wait") };
    let again = || leases.pay_one(&check("hot"), leases.now(), CallWait::For(call));
    // Another key has notified it.
    assert!(matches!(again(), Payment::Wait(same) if same == call));
    leases.not_granted(&check("hot"), false);
    assert!(matches!(pay(&leases, "hot"), Payment::Ask(4..)));
    assert!(matches!(again(), Payment::Ask(0)));
}

#[tokio::test(start_paused = true)]
async fn request_with_several_checks_never_waits() {
    let leases = enabled();
    ask(&leases, "hot");
    let daily = Policy::fixed_window("daily", Quota::per_day(9));
    let both = Checks::one(HOURLY, key(&["hot"]), 1).and(daily, key(&["hot"]), 1).unwrap();
    assert!(matches!(leases.pay(&both).unwrap()[..], [Payment::Ask(0), Payment::Store]));
}

#[tokio::test(start_paused = true)]
async fn units_of_an_old_quota_are_refunded_under_it() {
    let (leases, old) = (enabled(), check("hot"));
    let units = ask(&leases, "hot");
    let more = Policy::fixed_window("hourly", Quota::per_hour(2_000)).lease(100);
    leases.pay_one(&Check { policy: more, ..check("hot") }, leases.now(), CallWait::Never);
    grant(&leases, &old, units);
    let returns = leases.returns.lock().unwrap();
    let [Return { receipt, leased }] = &returns[..] else { panic!("{returns:?}") };
    assert_eq!((receipt.policy(), receipt.cost(), *leased), (&HOURLY, units, units));
}

#[tokio::test(start_paused = true)]
async fn units_of_denied_requests_are_in_lease_until_refunded() {
    let (leases, hot) = (enabled(), check("hot"));
    let first = ask(&leases, "hot");
    grant(&leases, &hot, first);
    let spent: Vec<Spend> = (0..first)
        .map(|_| match pay(&leases, "hot") {
            Payment::Spent(spend) => spend,
            other => panic!("{other:?}"),
        })
        .collect();
    // While another policy decides about them, the lease is replaced by one at other positions.
    answered(&leases, "hot");
    let Payment::Ask(units @ 4..) = pay(&leases, "hot") else { panic!("nothing is leased") };
    grant_at(&leases, &hot, units, Timestamp::from_micros(HOUR));
    assert_eq!(leases.in_lease(), (1, units));
    for spend in &spent {
        leases.undo(&hot, spend);
    }
    assert_eq!(leases.in_lease(), (1, units + first));
    // Nothing more is asked for until they are refunded.
    let room = || leases.change(&HOURLY, key(&["hot"]), |entry| entry.lease.room());
    assert_eq!(room(), Some(100_u64.saturating_sub(units + first)));
    for Return { receipt, leased } in std::mem::take(&mut *leases.returns.lock().unwrap()) {
        leases.returned(receipt.policy(), receipt.key(), leased);
    }
    assert_eq!((leases.in_lease(), room()), ((1, units), Some(100 - units)));
}

#[tokio::test(start_paused = true)]
async fn units_of_another_quota_do_not_return_to_a_lease() {
    let leases = enabled();
    let units = ask(&leases, "hot");
    let position = grant(&leases, &check("hot"), units);
    assert!(matches!(pay(&leases, "hot"), Payment::Spent(_)));
    // All units of a window have the same position.
    let receipt = |policy: Policy| {
        let blank = Receipt::blank(policy, key(&["hot"]), Timestamp::EPOCH);
        blank.settled(0, Some(Run { units: 1, position }), Timestamp::EPOCH)
    };
    let more = Policy::fixed_window("hourly", Quota::per_hour(2_000)).lease(100);
    assert!(leases.refund(&receipt(more), 0).is_none());
    assert!(leases.refund(&receipt(HOURLY), 0).is_some());
}

#[tokio::test]
async fn request_that_waits_in_vain_is_overload() {
    let server = Server::start(&[]);
    let store = patient(server.url()).deadline(Duration::from_secs(3)).connect().await.unwrap();
    // The call is never answered.
    ask(&store.0.leases, "hot");
    let check = |user: &str| store.check(Checks::one(HOURLY, key(&[user]), 1));
    // Nothing shows an outage of the server, and nothing was sent.
    assert_eq!(check("hot").await.unwrap_err().kind(), StoreErrorKind::Overloaded);
    let (waits, other) = tokio::join!(check("hot"), check("other"));
    assert!(other.unwrap().is_allowed());
    assert_eq!(waits.unwrap_err().kind(), StoreErrorKind::Overloaded, "the server has answered the other");
}

#[tokio::test]
async fn reset_that_fails_keeps_the_lease() {
    let mut server = Server::start(&[]);
    let store = patient(server.url()).connect().await.unwrap();
    let leases = &store.0.leases;
    let units = ask(leases, "hot");
    grant(leases, &check("hot"), units);
    server.kill();
    until(|| !store.is_connected()).await;
    assert!(store.reset(&HOURLY, key(&["hot"])).await.is_err());
    let unspent = leases.change(&HOURLY, key(&["hot"]), |entry| entry.lease.unspent());
    assert_eq!(unspent, Some(units));
}

#[tokio::test]
async fn leaving_callers_interrupt_no_refunds() {
    let server = Server::start(&[]);
    let store = patient(server.url()).connect().await.unwrap();
    let leases = &store.0.leases;
    grant(leases, &check("hot"), ask(leases, "hot"));
    server.signal("STOP");
    let given_up = timeout(Duration::from_millis(50), store.return_leases()).await;
    server.signal("CONT");
    assert!(given_up.is_err());
    let is_idle = || leases.change(&HOURLY, key(&["hot"]), |entry| entry.lease.is_idle());
    let ended = async {
        while is_idle() != Some(true) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(30), ended).await.expect("the units do not stay in lease");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unused_units_return_despite_too_many_calls_of_their_key() {
    let server = Server::start(&[]);
    // One key has 64 calls in flight and one that waits, and 256 decisions have joined others.
    let store = patient(server.url()).max_waiting(16);
    let store = store.connect().await.unwrap();
    let weekly = Policy::fixed_window("weekly", Quota::per_week(1_000)).lease(100);
    let checks = |cost| Checks::one(weekly.clone(), key(&["hot"]), cost);
    let mut left = 1_000;
    loop {
        let outcome = store.check(checks(1)).await.unwrap();
        assert!(outcome.is_allowed());
        left -= 1;
        if outcome.is_leased() {
            break;
        }
    }
    server.signal("STOP");
    let mut peeks = JoinSet::new();
    for _ in 0..64 + 1 + 256 + 20 {
        let peek = store.check(checks(0));
        peeks.spawn(async move { peek.await.map(drop) });
    }
    for _ in 0..20 {
        let refused = peeks.join_next().await.unwrap().unwrap();
        assert_eq!(refused.unwrap_err().kind(), StoreErrorKind::Overloaded);
    }
    let returning = tokio::spawn({
        let store = store.clone();
        async move { store.return_leases().await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!returning.is_finished());
    server.signal("CONT");
    returning.await.unwrap();
    assert_eq!(store.check(checks(0)).await.unwrap().decision().remaining(), left);
}

#[tokio::test(start_paused = true)]
async fn policies_without_a_lease_are_not_observed() {
    let leases = enabled();
    let hourly = Policy::fixed_window("hourly", Quota::per_hour(1_000));
    assert!(leases.pay(&Checks::one(hourly, key(&["ada"]), 1)).is_none());
    assert!(leases.pay(&Checks::one(HOURLY, key(&["ada"]), 0)).is_none());
    assert!(leases.shards.iter().all(|slot| lock(&slot.keys).entries().count() == 0));
}

#[tokio::test(start_paused = true)]
async fn old_plans_lease_returns_under_its_quota() {
    let (slow, fast) = (Quota::per_minute(60).burst(600), Quota::per_minute(6_000));
    let plans = Policy::token_bucket("plans", slow).lease(100).caller_quotas(slow, fast);
    let of = |quota| Check { policy: plans.with_quota(quota).unwrap(), key: key(&["ada"]), cost: 1 };
    let (slow, fast) = (of(slow), of(fast));
    let leases = enabled();
    for _ in 0..20 {
        leases.pay_one(&fast, leases.now(), CallWait::Once);
    }
    let snapshot = fast.policy.strategy().snapshot(None, Timestamp::EPOCH, 0, true);
    leases.answered(&fast, Timestamp::EPOCH, snapshot);
    let Payment::Ask(units @ 4..) = leases.pay_one(&fast, leases.now(), CallWait::Once) else {
        panic!("no lease")
    };
    grant(&leases, &fast, units);
    assert!(matches!(leases.pay_one(&fast, leases.now(), CallWait::Once), Payment::Spent(_)));
    assert!(matches!(leases.pay_one(&slow, leases.now(), CallWait::Once), Payment::Ask(_)));
    let returns = std::mem::take(&mut *leases.returns.lock().unwrap());
    let [Return { receipt, leased }] = &returns[..] else { panic!("{returns:?}") };
    assert_eq!((receipt.policy(), receipt.cost(), *leased), (&fast.policy, units - 1, units - 1));

    // An answer that comes after the change.
    leases.returned(&fast.policy, fast.key, units - 1);
    grant(&leases, &fast, 7);
    let returns = std::mem::take(&mut *leases.returns.lock().unwrap());
    let [Return { receipt, .. }] = &returns[..] else { panic!("{returns:?}") };
    assert_eq!((receipt.policy(), receipt.cost()), (&fast.policy, 7));
}
