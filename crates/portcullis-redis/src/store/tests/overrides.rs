//! Grants and blocks of single keys, on the server's own clock.

mod cluster;
mod records;

use std::time::Duration;

use portcullis_core::store::{Checks, Outcome, Store as _};
use portcullis_core::{Decision, Policy, Quota, Retry, StoreErrorKind};
use portcullis_memory::Fallback;
use tokio::task::JoinSet;

use super::{MONTHLY, RedisStore, Server, check, key, open, policies, receipt, remembered};
use crate::connection::tests::waiting::until;

const API: Policy = Policy::fixed_window("api", Quota::per_week(10)).allow_overrides();
const DAY: Duration = Duration::from_secs(86_400);
const TWENTY: Option<(Quota, Duration)> = Some((Quota::per_week(20), DAY));

async fn two_stores(server: &Server) -> [RedisStore; 2] {
    [open(server).await, open(server).await]
}

fn figures(outcome: &Outcome) -> (bool, u64, u64) {
    let decision = outcome.decision();
    (outcome.is_allowed(), decision.limit(), decision.remaining())
}

#[tokio::test]
async fn a_grant_by_one_store_applies_at_the_next_check_of_another() {
    let server = Server::start(&[]);
    let [admin, store] = two_stores(&server).await;
    assert_eq!(figures(&check(&store, &API, 10).await), (true, 10, 0));
    admin.set_grant(&API, key(&["ada"]), TWENTY).await.unwrap();

    // The count stays. The first check takes a second trip, the next ones do not.
    for (trips, left) in [(2, 9), (1, 8), (1, 7)] {
        server.cli(&["CONFIG", "RESETSTAT"]);
        let outcome = check(&store, &API, 1).await;
        assert_eq!(figures(&outcome), (true, 20, left));
        assert_eq!(outcome.grant(0).map(|grant| grant.quota()), Some(Quota::per_week(20)));
        assert_eq!(server.calls("evalsha"), trips);
    }
    admin.set_grant(&API, key(&["ada"]), None).await.unwrap();
    let outcome = check(&store, &API, 1).await;
    assert_eq!((figures(&outcome), outcome.grant(0)), ((false, 10, 0), None));
}

#[tokio::test]
async fn policies_without_overrides_read_one_key_and_others_two() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    for (policy, reads) in [(MONTHLY, 1), (API, 2)] {
        let _ = check(&store, &policy, 1).await;
        server.cli(&["CONFIG", "RESETSTAT"]);
        let _ = check(&store, &policy, 1).await;
        assert_eq!([server.calls("evalsha"), server.calls("get")], [1, reads], "{}", policy.name());
    }
}

#[tokio::test]
async fn a_block_charges_nothing_and_is_remembered_until_it_is_removed() {
    let server = Server::start(&[]);
    let [admin, store] = two_stores(&server).await;
    let both = |cost| Checks::one(MONTHLY, key(&["ada"]), cost).and(API, key(&["ada"]), cost).unwrap();
    admin.block(&API, key(&["ada"]), DAY).await.unwrap();
    let blocked = store.check(both(5)).await.unwrap();
    assert!(!blocked.is_allowed() && blocked.decisions()[1].is_blocked() && !blocked.is_remembered());
    assert_eq!((blocked.decisions()[0].is_allowed(), blocked.decisions()[0].remaining()), (true, 1_000));
    let wait = blocked.decisions()[1].retry();
    let Some(Retry::After(wait)) = wait else { panic!("{wait:?}") };
    assert!(wait <= DAY && wait + Duration::from_secs(60) > DAY, "{wait:?}");
    // A lower cost, a peek and a cost that never fits are denied without a trip.
    for cost in [1, 0, 2_000] {
        let again = remembered(&store, || Checks::one(API, key(&["ada"]), cost)).await;
        assert!(again.decision().is_blocked(), "{cost}");
        assert!(matches!(again.decision().retry(), Some(Retry::After(wait)) if wait <= DAY), "{cost}");
    }
    store.unblock(&API, key(&["ada"])).await.unwrap();
    let outcome = store.check(both(5)).await.unwrap();
    assert!(outcome.is_allowed());
    let left: Vec<_> = outcome.decisions().iter().map(Decision::remaining).collect();
    assert_eq!(left, [995, 5]);
}

#[tokio::test]
async fn a_remembered_denial_tells_the_grants_of_all_checks() {
    let server = Server::start(&[]);
    let [admin, store] = two_stores(&server).await;
    let hourly = Policy::fixed_window("hourly", Quota::per_week(5)).allow_overrides();
    let both = || Checks::one(API, key(&["ada"]), 6).and(hourly.clone(), key(&["ada"]), 6).unwrap();
    admin.set_grant(&API, key(&["ada"]), TWENTY).await.unwrap();
    admin.set_grant(&hourly, key(&["ada"]), Some((Quota::per_week(7), DAY))).await.unwrap();
    let limits = |outcome: &Outcome| {
        let granted = outcome.individual_policies();
        granted.map(|policy| (policy.name().to_string(), policy.strategy().limit())).collect::<Vec<_>>()
    };
    let granted = [("api".to_owned(), 20), ("hourly".to_owned(), 7)];
    assert_eq!(limits(&store.check(both()).await.unwrap()), granted);
    let denied = store.check(both()).await.unwrap();
    assert_eq!((denied.is_remembered(), limits(&denied)), (false, granted.to_vec()));
    let again = remembered(&store, both).await;
    assert!(again.grant(0).is_some_and(|grant| grant.quota().limit() == 7));
    assert_eq!((again.decision().limit(), again.decision().remaining()), (7, 1));
    assert_eq!(limits(&again), [granted[1].clone(), granted[0].clone()]);
    // A block of the key comes before its grant.
    store.block(&hourly, key(&["ada"]), DAY).await.unwrap();
    // The first answer was sent before the change was known, and is not remembered.
    for _ in 0..2 {
        assert!(!store.check(both()).await.unwrap().is_remembered());
    }
    let blocked = remembered(&store, both).await;
    assert!(blocked.decision().is_blocked());
    assert_eq!(limits(&blocked), [granted[0].clone()]);
}

#[tokio::test]
async fn every_algorithm_reads_grants_and_blocks() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let ada = key(&["ada"]);
    for policy in policies(Quota::per_week(50)) {
        let policy = policy.allow_overrides();
        let name = policy.name().as_str();
        assert!(check(&store, &policy, 10).await.is_allowed(), "{name}");
        let more = Quota::per_week(80);
        let more = if policy.strategy().tag() == "gcra" { more.burst(80) } else { more };
        store.set_grant(&policy, ada, Some((more, DAY))).await.unwrap();
        let granted = check(&store, &policy, 20).await;
        assert_eq!((granted.is_allowed(), granted.decision().limit()), (true, 80), "{name}");
        // Corrections are made under the quota of the charge.
        let charged = granted.into_receipts().next().unwrap();
        assert!(store.refund(charged).await.unwrap().remaining() >= 20, "{name}");
        store.block(&policy, ada, DAY).await.unwrap();
        assert!(check(&store, &policy, 1).await.decision().is_blocked(), "{name}");
        assert!(check(&store, &policy, 0).await.decision().is_blocked(), "{name}");
        store.unblock(&policy, ada).await.unwrap();
        store.reset(&policy, ada).await.unwrap();
        assert_eq!(figures(&check(&store, &policy, 80).await), (true, 80, 0), "{name}");
    }
}

#[tokio::test]
async fn decisions_under_grants_and_blocks_share_calls() {
    let server = Server::start(&[]);
    let [admin, store] = two_stores(&server).await;
    let user = |number: usize| key(&[&number.to_string()]);
    for number in 0..30 {
        match number % 3 {
            0 => admin.set_grant(&API, user(number), TWENTY).await.unwrap(),
            1 => admin.block(&API, user(number), DAY).await.unwrap(),
            _ => {}
        }
    }
    server.cli(&["CONFIG", "RESETSTAT"]);
    let mut tasks = JoinSet::new();
    for number in 0..30 {
        for _ in 0..30 {
            let (store, checks) = (store.clone(), Checks::one(API, user(number), 1));
            tasks.spawn(async move { (number, store.check(checks).await.unwrap().is_allowed()) });
        }
    }
    let mut admitted = [0; 30];
    for (number, is_allowed) in tasks.join_all().await {
        admitted[number] += u32::from(is_allowed);
    }
    for (number, admitted) in admitted.into_iter().enumerate() {
        assert_eq!(admitted, [20, 0, 10][number % 3], "user {number}");
    }
    let calls = server.calls("evalsha");
    assert!(calls < 450, "{calls} calls for 900 decisions");
}

#[tokio::test]
async fn a_lease_beside_a_grant_keeps_the_grant_of_the_outcome() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let leased = Policy::fixed_window("leased", Quota::per_week(1_000)).lease(100);
    store.set_grant(&API, key(&["ada"]), TWENTY).await.unwrap();
    for left in (15..20).rev() {
        let checks = Checks::one(leased.clone(), key(&["ada"]), 1).and(API, key(&["ada"]), 1).unwrap();
        let outcome = store.check(checks).await.unwrap();
        assert!(outcome.is_allowed() && outcome.grant(0).is_none());
        assert_eq!((outcome.decisions()[1].limit(), outcome.decisions()[1].remaining()), (20, left));
        assert_eq!(outcome.grant(1).map(|grant| grant.quota().limit()), Some(20));
        assert_eq!(outcome.checks().iter().nth(1).map(|check| check.policy.strategy().limit()), Some(20));
    }
}

#[tokio::test]
async fn a_policy_that_reads_no_overrides_is_refused() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    let ada = key(&["ada"]);
    let errors = [
        store.set_grant(&MONTHLY, ada, TWENTY).await.unwrap_err(),
        store.block(&MONTHLY, ada, DAY).await.unwrap_err(),
        store.block(&API, ada, Duration::ZERO).await.unwrap_err(),
        store.set_grant(&API, ada, Some((Quota::per_week(20).burst(7), DAY))).await.unwrap_err(),
        store.unblock(&MONTHLY, ada).await.unwrap_err(),
        store.overrides(&MONTHLY, ada).await.map(drop).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), StoreErrorKind::Unsupported, "{error}");
    }
}

#[tokio::test]
async fn a_settlement_of_a_charge_under_a_grant_has_its_quota() {
    let server = Server::start(&[]);
    let store = open(&server).await;
    store.set_grant(&API, key(&["ada"]), TWENTY).await.unwrap();
    let settled = store.settle(receipt(&store, &API, 15).await, 18).await.unwrap();
    assert_eq!((settled.decision.limit(), settled.decision.remaining(), settled.uncharged), (20, 2, 0));
}

#[tokio::test]
async fn an_outage_keeps_known_grants_and_blocks() {
    let mut server = Server::start(&[]);
    let (admin, store) = (open(&server).await, Fallback::new(open(&server).await));
    let [ada, grace] = [key(&["ada"]), key(&["grace"])];
    admin.set_grant(&API, ada, TWENTY).await.unwrap();
    admin.block(&API, grace, DAY).await.unwrap();
    assert!(store.check(Checks::one(API, ada, 1)).await.unwrap().is_allowed());
    assert!(!store.check(Checks::one(API, grace, 1)).await.unwrap().is_allowed());
    server.kill();
    until(|| !store.get_ref().is_connected()).await;
    let granted = store.check(Checks::one(API, ada, 15)).await.unwrap();
    assert!(granted.is_allowed() && granted.decision().is_degraded());
    assert_eq!(granted.decision().limit(), 20);
    let blocked = store.check(Checks::one(API, grace, 2)).await.unwrap();
    assert!(!blocked.is_allowed() && blocked.decision().is_blocked());
    assert!(store.unblock(&API, grace).await.is_err());
}

#[tokio::test]
async fn grants_of_one_decision_apply_if_the_memory_is_full() {
    let server = Server::start(&[]);
    let [admin, store] = two_stores(&server).await;
    // Others, which end later, so that each new grant replaces the one before it in its set.
    for user in 0..20_000_u32 {
        store.0.grants.set(&API, key(&["other", &user.to_string()]), [u64::MAX >> 12, 60, 7, 60, 0]);
    }
    for decision in 0..20_u32 {
        let user = |number: u32| key(&[&decision.to_string(), &number.to_string()]);
        let mut checks = Checks::one(API, user(0), 1);
        for number in 0..16 {
            admin.set_grant(&API, user(number), TWENTY).await.unwrap();
            if number > 0 {
                checks = checks.and(API, user(number), 1).unwrap();
            }
        }
        let outcome = store.check(checks).await.unwrap();
        assert!((0..16).all(|check| outcome.grant(check).is_some()), "{decision}");
    }
}
