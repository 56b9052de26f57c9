use portcullis_core::Quota;

use super::*;

const API: Policy = Policy::fixed_window("api", Quota::per_minute(10));

fn key(number: u128) -> Key {
    Key::from_fingerprints(number, number, 1)
}

fn decided(key: Key, units: u64, remaining: u64, window: u64) -> Decided<'static> {
    static API: Policy = self::API;
    let position = Position { micros: window, remainder: 0 };
    Decided { policy: &API, share: &API, key, units, remaining, position, is_denied: units == 0 }
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn units_are_bought_from_half_of_the_share_on() {
    let ledger = Ledger::new(100);
    assert!(ledger.record(decided(key(1), 2, 8, 60), millis(0)).is_none());
    assert_eq!(ledger.keys(), 0);
    assert!(ledger.record(decided(key(1), 2, 6, 60), millis(1)).is_none());
    let order = ledger.record(decided(key(1), 1, 5, 60), millis(2)).unwrap();
    assert_eq!((order.units, order.credit.cost()), (3, 3));
    // One purchase at a time.
    assert!(ledger.record(decided(key(1), 2, 3, 60), millis(3)).is_none());
    ledger.answered(&order, Ended::Bought(60), millis(4));
    assert_eq!(ledger.home(&API, key(1), millis(5)), Some(60));
    assert!(ledger.record(decided(key(1), 1, 2, 60), millis(5)).is_none());
    ledger.ended(&order);
    assert_eq!(ledger.record(decided(key(1), 1, 4, 60), millis(6)).unwrap().units, 4);
}

#[test]
fn denied_purchase_holds_its_charges_again() {
    let ledger = Ledger::new(100);
    let order = ledger.record(decided(key(1), 8, 2, 60), millis(0)).unwrap();
    ledger.answered(&order, Ended::Denied(6, None), millis(1));
    ledger.ended(&order);
    let order = ledger.record(decided(key(1), 0, 2, 60), millis(2)).unwrap();
    assert_eq!(order.units, 3);
    ledger.answered(&order, Ended::Denied(0, Some(millis(300))), millis(3));
    ledger.ended(&order);
    assert!(ledger.record(decided(key(1), 0, 2, 60), millis(302)).is_none());
    assert_eq!(ledger.record(decided(key(1), 0, 2, 60), millis(303)).unwrap().units, 8);
}

#[test]
fn new_window_ends_a_pause() {
    let ledger = Ledger::new(100);
    let order = ledger.record(decided(key(1), 8, 2, 60), millis(0)).unwrap();
    ledger.answered(&order, Ended::Denied(0, None), millis(1));
    ledger.ended(&order);
    assert!(ledger.record(decided(key(1), 1, 1, 60), millis(2)).is_none());
    assert_eq!(ledger.record(decided(key(1), 7, 3, 120), millis(3)).unwrap().units, 7);
}

#[test]
fn failures_pause_longer_each_time() {
    let ledger = Ledger::new(100);
    let mut now = millis(0);
    for pause in [50, 100, 200] {
        let order = ledger.record(decided(key(1), 8, 2, 60), now).unwrap();
        ledger.answered(&order, Ended::Failed, now);
        ledger.ended(&order);
        let early = now + millis(pause - 1);
        assert!(ledger.record(decided(key(1), 1, 2, 60), early).is_none());
        now += millis(pause);
    }
}

#[test]
fn process_without_charges_holds_few_units() {
    let ledger = Ledger::new(100);
    let order = ledger.record(decided(key(1), 0, 0, 60), millis(0)).unwrap();
    assert_eq!(order.units, 1);
    // The position is not known, as in a denial that is repeated.
    assert!(ledger.record(decided(key(2), 0, 0, 0), millis(0)).is_none());
}

#[test]
fn refunded_units_are_not_bought() {
    let ledger = Ledger::new(100);
    assert!(ledger.record(decided(key(1), 4, 6, 60), millis(0)).is_none());
    ledger.refunded(&API, key(1), 3);
    assert!(ledger.record(decided(key(1), 1, 5, 60), millis(1)).is_some_and(|order| order.units == 2));
    ledger.reset(&API, key(1));
    assert!(ledger.record(decided(key(1), 1, 5, 60), millis(2)).is_none());
}

#[test]
fn another_quota_forgets_the_charges() {
    let ledger = Ledger::new(100);
    assert!(ledger.record(decided(key(1), 4, 6, 60), millis(0)).is_none());
    let more = Policy::fixed_window("api", Quota::per_minute(12));
    let decided = Decided { policy: &more, share: &more, ..decided(key(1), 2, 6, 60) };
    assert_eq!(ledger.record(decided, millis(1)).unwrap().units, 2);
}

#[test]
fn number_of_keys_is_bounded() {
    let ledger = Ledger::new(64);
    let orders: Vec<_> =
        (1..500).filter_map(|number| ledger.record(decided(key(number), 9, 1, 60), millis(0))).collect();
    assert_eq!((ledger.keys(), orders.len()), (64, 64), "keys with a purchase are not replaced");
    for order in &orders {
        ledger.refused(order);
    }
    assert!(ledger.record(decided(key(900), 9, 1, 60), millis(1)).is_some());
    assert_eq!(ledger.keys(), 64);
}

#[test]
fn rate_replenishes_what_home_had_left() {
    let bucket = Policy::gcra("api", Quota::per_second(10).burst(20));
    assert_eq!(replenished(&bucket, millis(500)), 5);
    assert_eq!(replenished(&API, millis(500)), 0);
}
