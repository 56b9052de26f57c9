use alloc::vec::Vec;

use super::*;
use crate::charge::Position;
use crate::{Quota, Secret};

const ONE: NonZeroU64 = NonZeroU64::MIN;
const NOW: Timestamp = Timestamp::from_micros(1_000_000);

fn key(name: &str) -> Key {
    let mut hasher = Secret::published().hasher();
    hasher.writer().part("user", name.as_bytes());
    hasher.finish().unwrap()
}

fn policy() -> Policy {
    Policy::gcra("pages", Quota::per_second(1).burst(9))
}

fn run(units: u64, micros: u64) -> Run {
    Run { units, position: Position::at(micros) }
}

fn receipt(units: u64, micros: u64) -> Receipt {
    Receipt::new(policy(), key("ada"), run(units, micros), NOW, None)
}

fn joined(charges: &[(u64, u64)]) -> Receipt {
    let mut all = Receipt::blank(policy(), key("ada"), NOW);
    for (units, micros) in charges {
        assert_eq!(all.absorb(receipt(*units, *micros)), None);
    }
    all
}

fn refunded(receipt: &Receipt, cost: u64) -> u64 {
    receipt.refund_to(cost).runs().map(|run| run.units).sum()
}

#[test]
fn charges_at_one_position_are_one_run() {
    let all = joined(&[(1, 10), (2, 30), (4, 10), (8, 20), (16, 30)]);
    assert_eq!((all.cost(), all.runs()), (31, [run(5, 10), run(8, 20), run(18, 30)].as_slice()));
    let mut exact = Receipt::blank(policy(), key("ada"), NOW);
    exact.add(Run { units: 1, position: Position { micros: 10, remainder: 1 } });
    exact.add(run(1, 10));
    assert_eq!(exact.runs().len(), 2, "a fraction of a microsecond is another position");
}

#[test]
fn absorb_is_independent_of_order() {
    let charges = [(1, 40), (2, 10), (3, 30), (4, 20), (5, 10)];
    let mut reversed = charges;
    reversed.reverse();
    assert_eq!(joined(&charges), joined(&reversed));
}

#[test]
fn runs_beyond_the_maximum_drop_the_lowest_position() {
    let charges: Vec<(u64, u64)> = (1..=100).map(|micros| (2, micros)).collect();
    let all = joined(&charges);
    assert_eq!((all.runs().len(), all.cost()), (Receipt::MAX_RUNS, 200));
    assert_eq!((all.runs().first(), all.runs().last()), (Some(&run(2, 37)), Some(&run(2, 100))));
    assert_eq!(refunded(&all, 0), 128);
    // Dropped units count as charged: 150 of 200 units are to stay.
    assert_eq!(refunded(&all, 150), 50);

    let mut late = joined(&charges);
    assert_eq!(late.absorb(receipt(7, 5)), None);
    assert_eq!((late.runs(), late.cost()), (all.runs(), 207), "a run below all others is dropped too");
}

#[test]
fn units_beyond_u32_are_not_lost() {
    let many = u64::from(u32::MAX);
    let all = joined(&[(many, 10), (many, 10), (7, 10)]);
    assert_eq!((all.cost(), all.missing(many), all.runs().len()), (2 * many + 7, 0, 1));
    assert_eq!(refunded(&all, 0), 2 * many + 7);
    assert_eq!(refunded(&all, many), many + 7);
}

#[test]
fn absorb_rejects_receipts_of_other_states() {
    let mut all = receipt(1, 10);
    let of = |policy: Policy, key, fallback_id| Receipt::new(policy, key, run(2, 20), NOW, fallback_id);
    for other in [
        of(policy(), key("bob"), None),
        of(policy(), key("ada"), Some(ONE)),
        of(Policy::gcra("other", Quota::per_second(1)), key("ada"), None),
        of(Policy::token_bucket("pages", Quota::per_second(1)), key("ada"), None),
    ] {
        assert!(all.absorb(other).is_some());
    }
    assert_eq!((all.cost(), all.runs().len()), (1, 1));
    let changed = Policy::gcra("pages", Quota::per_second(7));
    assert_eq!(all.absorb(of(changed.clone(), key("ada"), None)), None);
    assert_eq!((all.policy(), all.cost()), (&changed, 3));
    // A window of another length has states of its own.
    let window = |quota| of(Policy::fixed_window("pages", quota), key("ada"), None);
    let mut minute = window(Quota::per_minute(7));
    assert!(minute.absorb(window(Quota::per_hour(7))).is_some());
    assert_eq!(minute.absorb(window(Quota::per_minute(9))), None);
}

#[test]
fn absorb_rejects_charges_under_a_grant_of_another_quota() {
    let own = policy().allow_overrides();
    let granted = |units| own.granted(Quota::per_second(units).burst(9)).unwrap();
    let of = |policy: &Policy| Receipt::new(policy.clone(), key("ada"), run(2, 20), NOW, None);
    for (one, other) in [(&own, granted(7)), (&granted(7), own.clone()), (&granted(7), granted(8))] {
        let mut all = of(one);
        assert_eq!(all.absorb(of(&other)), Some(of(&other)));
        assert_eq!((all.policy(), all.cost()), (one, 2));
    }
    let mut all = of(&granted(7));
    assert_eq!(all.absorb(of(&granted(7))), None);
    assert_eq!(all.cost(), 4);
    // Units of a window are the same under each quota.
    let window = Policy::fixed_window("pages", Quota::per_day(5)).allow_overrides();
    let mut all = of(&window);
    assert_eq!(all.absorb(of(&window.granted(Quota::per_day(9)).unwrap())), None);
}

#[test]
fn settled_receipt_holds_the_settled_units() {
    let all = || joined(&[(2, 10), (3, 20), (4, 30)]);
    for (cost, left) in [
        (9, &[run(2, 10), run(3, 20), run(4, 30)][..]),
        (6, &[run(2, 10), run(3, 20), run(1, 30)]),
        (5, &[run(2, 10), run(3, 20)]),
        (1, &[run(1, 10)]),
        (0, &[]),
    ] {
        let settled = all().settled(cost, None, NOW);
        assert_eq!((settled.cost(), settled.runs()), (cost, left));
    }
    assert_eq!((all().missing(9), all().missing(12), all().missing(0)), (0, 3, 0));
    let later = NOW.saturating_add(core::time::Duration::from_secs(1));
    let more = all().settled(14, Some(run(4, 40)), later);
    assert_eq!((more.cost(), more.at(), more.runs().last()), (13, later, Some(&run(4, 40))));
    let nothing = all().settled(14, Some(run(0, 40)), later);
    assert_eq!((nothing.cost(), nothing.at(), nothing.runs().len()), (9, NOW, 3));
}

#[test]
fn settlement_refunds_dropped_units_last() {
    let charges: Vec<(u64, u64)> = (1..=70).map(|micros| (1, micros)).collect();
    let settled = joined(&charges).settled(7, None, NOW);
    assert_eq!((settled.cost(), settled.runs()), (7, [run(1, 7)].as_slice()));
    for cost in [6, 3] {
        let settled = joined(&charges).settled(cost, None, NOW);
        assert_eq!((settled.cost(), settled.runs()), (cost, [].as_slice()));
        assert_eq!(refunded(&settled, 0), 0);
    }
}

#[test]
fn if_newest_survives_absorb_and_with_policy() {
    let mut all = receipt(1, 10);
    assert!(!all.refund_to(0).only_newest());
    assert_eq!(all.absorb(receipt(1, 20).if_newest()), None);
    assert!(all.refund_to(1).only_newest());
    assert!(all.with_policy(&policy()).charged_by(Some(ONE)).refund_to(0).only_newest());
}

#[test]
fn settled_permits_keep_the_lowest_serial_numbers() {
    let exports = crate::Concurrency::new("exports", 9).policy();
    let run = |units, remainder| Run { units, position: Position { micros: 7, remainder } };
    let receipt = || Receipt::new(exports.clone(), key("ada"), run(5, 8), NOW, None);
    assert_eq!(receipt().settled(2, None, NOW).runs(), [run(2, 5)]);
    // Two more that were charged later are released first.
    let more = receipt().settled(7, Some(run(2, 20)), NOW);
    assert_eq!(more.runs(), [run(5, 8), run(2, 20)]);
    assert_eq!(more.copy_for_retry().settled(6, None, NOW).runs(), [run(5, 8), run(1, 19)]);
    assert_eq!(more.settled(1, None, NOW).runs(), [run(1, 4)]);
}
