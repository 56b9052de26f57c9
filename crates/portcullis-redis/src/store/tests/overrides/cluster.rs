//! Overrides of keys in several slots of a cluster.

use portcullis_core::store::{Checks, Store as _};
use portcullis_core::{Decision, FailureMode, Policy, Quota};
use portcullis_memory::Fallback;
use portcullis_servers::{RedisCluster, ServerSetup};

use super::super::cross_slot::{keys_in_three_slots, open, remaining};
use super::{API, DAY, MONTHLY, TWENTY};
use crate::protocol::keys::slot;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_over_slots_is_made_under_grants_or_charges_nothing() {
    let cluster = RedisCluster::start(3, 0).unwrap();
    let (admin, store) = (open(&cluster).await, open(&cluster).await);
    let [ada, grace, barbara] = keys_in_three_slots();
    let all = |cost| {
        let checks = Checks::one(MONTHLY, barbara, cost).and(API, ada, cost);
        checks.and_then(|checks| checks.and(API, grace, 1)).unwrap()
    };
    assert!(store.check(all(10)).await.unwrap().is_allowed());
    admin.set_grant(&API, ada, TWENTY).await.unwrap();
    let granted = store.check(all(7)).await.unwrap();
    let left: Vec<_> = granted.decisions().iter().map(Decision::remaining).collect();
    assert_eq!((granted.is_allowed(), left), (true, vec![983, 3, 8]));
    assert_eq!(granted.grant(1).map(|grant| grant.quota().limit()), Some(20));
    assert!(granted.grant(0).is_none() && granted.grant(2).is_none());
    // Receipts are refunded under the quota of the charge.
    for receipt in granted.into_receipts() {
        let _ = store.refund(receipt).await.unwrap();
    }
    assert_eq!((remaining(&store, &API, ada).await, remaining(&store, &API, grace).await), (10, 9));

    admin.block(&API, grace, DAY).await.unwrap();
    let blocked = store.check(all(5)).await.unwrap();
    assert!(!blocked.is_allowed() && blocked.decisions()[2].is_blocked());
    assert_eq!(blocked.decision().policy().as_str(), "api");
    assert_eq!((remaining(&store, &API, ada).await, remaining(&store, &MONTHLY, barbara).await), (10, 990));
    assert_eq!(store.overrides(&API, ada).await.unwrap(), admin.overrides(&API, ada).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn known_overrides_of_a_failed_slot_apply_beside_healthy_ones() {
    const OPEN: Policy = Policy::fixed_window("open", Quota::per_week(9))
        .on_store_failure(FailureMode::Open)
        .allow_overrides();
    let setup = ServerSetup::new().arguments(&["--cluster-require-full-coverage", "no"]);
    let mut cluster = setup.cluster(3, 0).unwrap();
    let store = Fallback::new(open(&cluster).await);
    let [ada, grace, _] = keys_in_three_slots();
    let both = |policy: &Policy, cost| Checks::one(policy.clone(), grace, cost).and(MONTHLY, ada, 1).unwrap();
    store.set_grant(&API, grace, TWENTY).await.unwrap();
    assert!(store.check(both(&API, 1)).await.unwrap().is_allowed());
    assert!(store.check(both(&OPEN, 1)).await.unwrap().is_allowed());

    let dead = cluster.primary_of(slot(grace)).unwrap();
    assert_ne!(cluster.primary_of(slot(ada)).unwrap(), dead);
    cluster.kill(dead).unwrap();
    let granted = store.check(both(&API, 15)).await.unwrap();
    assert!(granted.is_allowed() && granted.decisions()[0].is_degraded());
    assert_eq!((granted.decisions()[0].limit(), granted.decisions()[1].remaining()), (20, 997));
    assert_eq!(granted.grant(0).map(|grant| grant.quota().limit()), Some(20));
    assert!(store.check(both(&OPEN, 99)).await.unwrap().is_allowed());
    assert_eq!(store.check(Checks::one(MONTHLY, ada, 0)).await.unwrap().decision().remaining(), 996);
}
