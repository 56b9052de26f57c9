use portcullis_core::Quota;

use super::*;
use crate::store::tests::key;

const HOURLY: Policy = Policy::fixed_window("hourly", Quota::per_hour(1_000)).lease(100);

fn check(user: &str) -> Check {
    Check { policy: HOURLY, key: key(&[user]), cost: 1 }
}

fn pay(leases: &Leases, user: &str) -> Part {
    leases.pay_one(&check(user), leases.now(), true)
}

fn enabled() -> Leases {
    Leases::new(Handle::current(), true)
}

#[tokio::test(start_paused = true)]
async fn the_number_of_keys_is_bounded() {
    let leases = enabled();
    for user in 0..20_000 {
        pay(&leases, &user.to_string());
    }
    let keys: usize = leases.shards.iter().map(|slot| slot.lock().entries().count()).sum();
    assert!((1_000..=4_096).contains(&keys), "{keys}");
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
        assert!(matches!(pay(&leases, "hot"), Part::Ask(0)));
    }
    let hot = check("hot");
    leases.answered(&hot, 900);
    assert!(matches!(pay(&leases, "hot"), Part::Ask(4..)));
    assert!(matches!(pay(&leases, "hot"), Part::Wait));
    leases.not_granted(&hot, false);
    assert!(matches!(pay(&leases, "hot"), Part::Ask(4..)));
    leases.not_granted(&hot, true);
    assert!(matches!(pay(&leases, "hot"), Part::Ask(0)));
}

#[tokio::test(start_paused = true)]
async fn policies_without_a_lease_are_not_observed() {
    let leases = enabled();
    let hourly = Policy::fixed_window("hourly", Quota::per_hour(1_000));
    assert!(leases.pay(&Checks::one(hourly, key(&["ada"]), 1)).is_none());
    assert!(leases.pay(&Checks::one(HOURLY, key(&["ada"]), 0)).is_none());
    assert!(leases.shards.iter().all(|slot| slot.lock().entries().count() == 0));
}
