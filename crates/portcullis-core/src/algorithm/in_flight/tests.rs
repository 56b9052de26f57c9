use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::Retry;

const SECOND: u64 = 1_000_000;
const START: u64 = 1_767_225_600_000_000;
const LEASE: u64 = 30 * SECOND;

fn in_flight(limit: u64) -> InFlight {
    InFlight::new(limit).unwrap()
}

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(START + micros)
}

fn take(limit: InFlight, state: &mut Option<Permits>, now: Timestamp, units: u64) -> Run {
    assert!(limit.evaluate(state.as_ref(), now, units).admitted);
    limit.charge(state, now, units);
    Run { units, position: limit.position(state.as_ref(), now) }
}

fn held(limit: InFlight, state: Option<&Permits>, now: Timestamp) -> u64 {
    limit.view(state, now).map_or(0, |view| view.held)
}

#[test]
fn a_denial_has_no_known_wait_unless_it_never_fits() {
    let (limit, mut state) = (in_flight(2), None);
    take(limit, &mut state, at(0), 1);
    take(limit, &mut state, at(SECOND), 1);
    let figures = |cost| limit.snapshot(state.as_ref(), at(SECOND), cost, false);
    assert_eq!((figures(1).retry, figures(3).retry), (Some(Retry::Unknown), Some(Retry::Never)));
    assert_eq!((figures(1).limit, figures(1).remaining), (2, 0));
    assert_eq!((figures(1).reset_after, figures(1).next_after), (limit.lease(), Duration::ZERO));
    let idle = limit.snapshot(None, at(0), 0, true);
    assert_eq!((idle.remaining, idle.reset_after, idle.retry), (2, Duration::ZERO, None));
}

#[test]
fn a_receipt_never_matches_a_permit_that_was_taken_later() {
    let (limit, mut state) = (in_flight(1), None);
    let first = take(limit, &mut state, at(0), 1);
    assert!(limit.refund(&mut state, at(0), Refund::of(&[first])));
    // At the same instant, after the only permit was released.
    let second = take(limit, &mut state, at(0), 1);
    assert_ne!(first.position, second.position);
    assert!(!limit.refund(&mut state, at(0), Refund::of(&[first])));
    // After all permits have expired and the state was dropped.
    limit.advance(&mut state, at(LEASE));
    assert_eq!(state, None);
    let third = take(limit, &mut state, at(LEASE), 1);
    for old in [first, second] {
        assert!(!limit.refund(&mut state, at(LEASE), Refund::of(&[old])));
        assert_eq!(limit.renew(&mut state, at(LEASE), &[old]), RenewedPermits { held: 0, changed: false });
    }
    assert!(limit.refund(&mut state, at(LEASE), Refund::of(&[third])));
}

#[test]
fn a_renewal_of_nothing_changes_nothing() {
    let (limit, mut state) = (in_flight(1), None);
    take(limit, &mut state, at(LEASE), 1);
    let taken = state.clone();
    // The clock is behind the charge, which another renewal would repair.
    assert_eq!(limit.renew(&mut state, at(0), &[]), RenewedPermits { held: 0, changed: false });
    assert_eq!(state, taken);
}

#[test]
fn the_state_is_kept_until_the_latest_expiry_has_passed() {
    let (limit, mut state) = (in_flight(4), None);
    let first = take(limit, &mut state, at(0), 2);
    assert_eq!(limit.renew(&mut state, at(SECOND), &[first]).held, 2);
    limit.refund(&mut state, at(2 * SECOND), Refund::of(&[first]));
    let header = state.clone().unwrap();
    assert_eq!((header.held().len(), header.next(), header.epoch()), (0, 3, START));
    assert_eq!(limit.expires_at(&header), START + SECOND + LEASE);
    assert_eq!(limit.snapshot(Some(&header), at(2 * SECOND), 0, true), limit.snapshot(None, at(0), 0, true));
    limit.advance(&mut state, at(SECOND + LEASE - 1));
    assert_eq!(state, Some(header));
    limit.advance(&mut state, at(SECOND + LEASE));
    assert_eq!(state, None);
}

#[test]
fn a_partial_refund_releases_the_newest_permits() {
    let (limit, mut state) = (in_flight(4), None);
    let run = take(limit, &mut state, at(0), 4);
    assert!(limit.refund(&mut state, at(0), Refund::of(&[run]).at_most(3)));
    let serials: Vec<_> = state.as_ref().unwrap().held().iter().map(|permit| permit.serial).collect();
    assert_eq!(serials, [1]);
    assert!(!limit.refund(&mut state, at(0), Refund::of(&[run]).at_most(3)));
}

#[test]
fn a_forced_charge_ends_at_twice_the_limit() {
    let (limit, mut state) = (in_flight(5), None);
    take(limit, &mut state, at(0), 1);
    let forced = limit.force_charge(&mut state, at(0), 20);
    assert_eq!((forced.charged, forced.uncharged, forced.changed), (9, 11, true));
    let forced = limit.force_charge(&mut state, at(0), 1);
    assert_eq!((forced.charged, forced.uncharged, forced.changed), (0, 1, false));
    assert_eq!(limit.snapshot(state.as_ref(), at(0), 0, true).remaining, 0);
}

#[test]
fn a_clock_that_is_set_back_holds_permits_for_one_lease() {
    for step in [1, SECOND, 3_600 * SECOND, START] {
        let (limit, mut state) = (in_flight(2), None);
        let run = take(limit, &mut state, at(0), 2);
        let now = Timestamp::from_micros(START - step);
        let evaluation = limit.evaluate(state.as_ref(), now, 1);
        assert_eq!((evaluation.admitted, evaluation.repair), (false, true));
        assert_eq!(limit.snapshot(state.as_ref(), now, 1, false).reset_after, limit.lease());
        let mut refunded = state.clone();
        assert!(limit.refund(&mut refunded, now, Refund::of(&[run])));
        assert_eq!(held(limit, refunded.as_ref(), now), 0);
        limit.advance(&mut state, now);
        assert!(!limit.evaluate(state.as_ref(), now, 1).repair);
        let then = now.saturating_add(limit.lease());
        assert!(limit.evaluate(state.as_ref(), then, 2).admitted);
    }
}

#[test]
fn a_shorter_lease_applies_to_the_permits_that_are_held() {
    let (long, mut state) = (in_flight(1), None);
    take(long, &mut state, at(0), 1);
    let short = long.with_lease(Duration::from_secs(2)).unwrap();
    assert!(short.evaluate(state.as_ref(), at(0), 1).repair);
    short.advance(&mut state, at(0));
    assert!(!long.evaluate(state.as_ref(), at(2 * SECOND - 1), 1).admitted);
    assert!(long.evaluate(state.as_ref(), at(2 * SECOND), 1).admitted);
}

#[test]
fn serial_numbers_end_at_2_to_the_53_and_begin_anew_with_a_state() {
    let limit = in_flight(4);
    let mut state = Some(Permits::new(START, END - 2, START + LEASE, []));
    assert!(!limit.evaluate(state.as_ref(), at(0), 3).admitted);
    let last = take(limit, &mut state, at(0), 2);
    assert_eq!(last.position.remainder, END - 1);
    assert!(!limit.evaluate(state.as_ref(), at(0), 1).admitted);
    assert_eq!(limit.force_charge(&mut state, at(0), 1).charged, 0);
    assert_eq!(limit.snapshot(state.as_ref(), at(0), 1, false).retry, Some(Retry::Unknown));
    assert_eq!(take(limit, &mut state, at(LEASE), 4).position.remainder, 4);
}

#[test]
fn memory_grows_for_the_limit_and_for_a_debt_only() {
    for limit in [1, 4, 5, 100, 1_000] {
        let (limit, mut state) = (in_flight(limit), None);
        let bytes = |state: &Option<Permits>| state.as_ref().map_or(0, Permits::heap_bytes);
        for most in [limit.limit(), 2 * limit.limit()] {
            let growth = limit.growth(state.as_ref(), at(0));
            let before = bytes(&state);
            while held(limit, state.as_ref(), at(0)) < most {
                assert_eq!(limit.force_charge(&mut state, at(0), 1).charged, 1);
            }
            assert_eq!(bytes(&state) - before, growth, "{limit:?} {most}");
        }
        // Permits come and go in the memory that the state has.
        let before = limit.growth(None, at(0));
        let mut state = None;
        for turn in 0..100 {
            let run = take(limit, &mut state, at(turn * (LEASE - 1)), limit.limit());
            assert_eq!(bytes(&state), before);
            limit.refund(&mut state, at(turn * (LEASE - 1)), Refund::of(&[run]));
        }
    }
}

/// A step of a key's history. Receipts are chosen among all that were ever given.
#[derive(Clone, Debug)]
enum Step {
    Check(u64),
    Refund(usize, u64),
    Renew(usize),
    Force(u64),
}

/// By definition: each permit by the receipt that proves it, with the instant at which it expires.
#[derive(Default)]
struct Model {
    permits: Vec<(usize, u64)>,
}

impl Model {
    fn take(&mut self, receipt: usize, now: u64, units: u64) {
        self.permits.extend((0..units).map(|_| (receipt, now + LEASE)));
    }

    fn live(&self, now: u64) -> u64 {
        self.permits.iter().filter(|(_, expires)| *expires > now).count() as u64
    }

    fn of(&self, receipt: usize, now: u64) -> u64 {
        self.permits.iter().filter(|(of, expires)| *of == receipt && *expires > now).count() as u64
    }
}

fn steps() -> impl Strategy<Value = Vec<(u64, Step)>> {
    let waits = prop_oneof![Just(0), 1..2 * SECOND, Just(LEASE), Just(LEASE - 1), 1..2 * LEASE];
    let receipt = || any::<prop::sample::Index>().prop_map(|index| index.index(64));
    let step = prop_oneof![
        4 => (0_u64..5).prop_map(Step::Check),
        3 => (receipt(), 1_u64..4).prop_map(|(receipt, units)| Step::Refund(receipt, units)),
        2 => receipt().prop_map(Step::Renew),
        1 => (1_u64..9).prop_map(Step::Force),
    ];
    proptest::collection::vec((waits, step), 1..120)
}

proptest! {
    #[test]
    fn a_state_decides_like_a_list_of_permits(limit in 1_u64..7, steps in steps(), drops in any::<bool>()) {
        let limit = in_flight(limit);
        let (mut now, mut state, mut model) = (0, None, Model::default());
        let mut receipts: Vec<Run> = Vec::new();
        for (wait, step) in steps {
            now += wait;
            if drops && state.as_ref().is_some_and(|state| limit.expires_at(state) <= START + now) {
                state = None;
            }
            let live = model.live(START + now);
            match step {
                Step::Check(cost) => {
                    let evaluation = limit.evaluate(state.as_ref(), at(now), cost);
                    let fits = cost == 0 || live + cost <= limit.limit();
                    prop_assert_eq!(evaluation, Evaluation { admitted: fits, repair: false });
                    if fits && cost > 0 {
                        model.take(receipts.len(), START + now, cost);
                        receipts.push(take(limit, &mut state, at(now), cost));
                    }
                }
                Step::Force(units) => {
                    let forced = limit.force_charge(&mut state, at(now), units);
                    prop_assert_eq!(forced.charged, units.min(2 * limit.limit() - live));
                    prop_assert_eq!(forced.changed, forced.charged > 0);
                    model.take(receipts.len(), START + now, forced.charged);
                    let position = limit.position(state.as_ref(), at(now));
                    receipts.push(Run { units: forced.charged, position });
                }
                Step::Refund(receipt, units) => {
                    let Some(run) = receipts.get_mut(receipt) else { continue };
                    let units = units.min(run.units);
                    let expected = model.of(receipt, START + now) > 0 && units > 0;
                    let changed = limit.refund(&mut state, at(now), Refund::of(&[*run]).at_most(units));
                    prop_assert_eq!(changed, expected);
                    for _ in 0..units {
                        let newest = model.permits.iter().rposition(|(of, _)| *of == receipt);
                        newest.map(|index| model.permits.remove(index));
                    }
                    run.units -= units;
                    run.position.remainder -= units;
                }
                Step::Renew(receipt) => {
                    let Some(run) = receipts.get(receipt) else { continue };
                    let renewed = limit.renew(&mut state, at(now), &[*run]);
                    prop_assert_eq!(renewed.held, model.of(receipt, START + now));
                    for (of, expires) in &mut model.permits {
                        if *of == receipt && *expires > START + now {
                            *expires = START + now + LEASE;
                        }
                    }
                }
            }
            prop_assert_eq!(held(limit, state.as_ref(), at(now)), model.live(START + now));
            let latest = model.permits.iter().map(|(_, expires)| *expires).max().unwrap_or(0);
            let reset_after = Duration::from_micros(latest.saturating_sub(START + now));
            prop_assert_eq!(limit.snapshot(state.as_ref(), at(now), 0, true).reset_after, reset_after);
            let is_sorted = state.as_ref().is_none_or(|state| state.held().is_sorted());
            prop_assert!(is_sorted && state.as_ref().is_none_or(|state| latest <= limit.expires_at(state)));
        }
    }

    #[test]
    fn no_step_of_the_clock_holds_a_permit_longer_than_a_lease(
        steps in proptest::collection::vec((0_u64..4 * LEASE, 0_usize..4, 1_u64..3), 1..60)
    ) {
        let (limit, mut state, mut receipts) = (in_flight(3), None, Vec::new());
        for (now, step, units) in steps {
            let now = at(now);
            match step {
                0 | 1 => {
                    let evaluation = limit.evaluate(state.as_ref(), now, units);
                    if evaluation.admitted {
                        receipts.push(take(limit, &mut state, now, units));
                    } else if evaluation.repair {
                        limit.advance(&mut state, now);
                    }
                }
                2 => {
                    let runs: Vec<Run> = receipts.pop().into_iter().collect();
                    limit.refund(&mut state, now, Refund::of(&runs));
                }
                _ if receipts.is_empty() => continue,
                _ => {
                    let _ = limit.renew(&mut state, now, &receipts);
                }
            }
            let snapshot = limit.snapshot(state.as_ref(), now, 0, true);
            prop_assert!(snapshot.remaining <= 3 && snapshot.reset_after <= limit.lease());
            prop_assert_eq!(snapshot.remaining == 3, snapshot.reset_after.is_zero());
            prop_assert!(!limit.evaluate(state.as_ref(), now, 1).repair);
            prop_assert!(limit.evaluate(state.as_ref(), now.saturating_add(limit.lease()), 3).admitted);
        }
    }
}
