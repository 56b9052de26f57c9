//! Refunds and settlements: correct ones break no rule, wrong ones are reported.

use super::super::super::Answer;
use super::*;

const METERS: [Family; 2] = [Family::Spaced, Family::Bucket];
const COUNTED: [Family; 3] = [Family::Window, Family::Log, Family::Count];

fn busy() -> impl Iterator<Item = Family> {
    Family::BUSY.into_iter().chain([Family::Count])
}

#[test]
fn corrections_of_a_correct_store_break_no_rule() {
    for family in busy() {
        for seed in 0..30 {
            let findings = Simulation::random(family, seed, 0, 25).findings(&[]);
            assert!(findings.violations.is_empty(), "{family:?} {seed} {}", findings.violations[0]);
            assert_eq!(
                (findings.replayed, findings.unclear, findings.excess),
                (1, 0, 0),
                "{family:?} {seed}"
            );
            assert!(findings.freed > 0, "{family:?} {seed}");
        }
    }
}

#[test]
fn corrections_in_doubt_are_explained_run_or_not() {
    let mut unclear = 0;
    for family in busy() {
        for seed in 0..50 {
            let findings = Simulation::random(family, seed, 6, 25).findings(&[]);
            assert!(findings.violations.is_empty(), "{family:?} {seed} {}", findings.violations[0]);
            unclear += findings.unclear;
        }
    }
    assert!(unclear <= 5, "{unclear} of 250 are unclear");
}

/// Charges a unit whenever one refills, then refunds all charges one by one with a check after each.
fn collect_refunds(family: Family, frees_units: bool) -> Simulation {
    let mut sim = Simulation::new(family);
    let interval = family.interval().unwrap();
    (0..family.capacity()).for_each(|_| sim.check(0, 1));
    (0..40).for_each(|_| sim.check(interval, 1));
    if frees_units {
        for (_, runs) in &mut sim.charges {
            runs[0].position.micros += 3_600_000_000;
        }
    }
    let collected = sim.charges.len();
    for _ in 0..collected {
        sim.settle(1, 0, 0);
        sim.check(1, 1);
    }
    sim
}

#[test]
fn collected_refunds_that_free_too_much_are_reported() {
    for family in METERS {
        assert_eq!(collect_refunds(family, false).rules(&[]), NONE, "{family:?}");
        let mut sim = collect_refunds(family, true);
        // The history has the right positions; the store has freed all units regardless.
        for op in &mut sim.ops {
            if let Call::Settle(correction) = &mut op.call {
                correction.runs[0].position.micros -= 3_600_000_000;
            }
        }
        assert_eq!(sim.rules(&[]), [1, 4], "{family:?}");
        assert_eq!(sim.rules(&[at_any_time(Extent::All)]), [1, 4], "{family:?}: a loss is one burst");
    }
}

#[test]
fn refunded_units_are_admitted_again_and_no_more() {
    for family in filled_at_once() {
        let mut sim = Simulation::new(family);
        let most = family.capacity();
        sim.check(0, most);
        sim.settle(1_000, 0, 0);
        sim.check(1_000, most);
        assert_eq!(sim.rules(&[]), NONE, "{family:?}");
        // Without the refund this is an excess, except for windows: any interval may overlap two of them.
        sim.ops.remove(1);
        let expected: &[u8] = if is_window(family) { &[4] } else { &[1, 4] };
        assert_eq!(sim.rules(&[]), expected, "{family:?}");
    }
}

#[test]
fn a_denial_of_refunded_units_is_reported() {
    for family in filled_at_once() {
        let mut full = Simulation::new(family);
        full.check(0, family.capacity());
        full.check(10_000, 1);
        let mut sim = Simulation::new(family);
        sim.check(0, family.capacity());
        sim.settle(5_000, 0, 0);
        sim.advance(5_000);
        sim.record(Call::Check(1), full.ops[1].outcome.clone());
        assert!(sim.rules(&[]).contains(&2), "{family:?}");
        // The denial is correct if the refund was lost or never ran.
        let rules = sim.rules(&[at_any_time(Extent::Latest)]);
        assert!(!rules.contains(&2), "{family:?}");
        sim.ops[1].outcome = Outcome::Unknown(Failure::TimedOut);
        assert!(!sim.rules(&[]).contains(&2), "{family:?}");
    }
}

#[test]
fn a_denial_is_explained_to_the_last_refunded_unit() {
    for family in METERS {
        let most = family.capacity();
        let mut sim = Simulation::new(family);
        sim.check(0, most);
        sim.settle(1_000, 0, most - 1);
        sim.check(1_000, 1);
        sim.check(1_000, 1);
        assert_eq!(sim.rules(&[]), NONE, "{family:?}");
        // One unit was refunded and is in use again. If two had been, the last check would fit.
        let Call::Settle(correction) = &mut sim.ops[1].call else { panic!("it is the correction") };
        correction.to -= 1;
        assert!(sim.rules(&[]).contains(&2), "{family:?}");
    }
}

#[test]
fn a_correction_that_ran_twice_is_reported() {
    for family in busy() {
        let charged = || {
            let mut sim = Simulation::new(family);
            (0..4).for_each(|_| sim.check(1_000, 1));
            sim
        };
        let mut twice = charged();
        let again = Call::Settle(Correction { to: 0, charged: 1, runs: twice.charges[3].1.clone() });
        twice.settle(1_000, 3, 0);
        twice.run(&again);
        twice.check(1_000, 1);
        // A log finds its units by their stamp, so a second refund finds none.
        assert_eq!(twice.rules(&[]).contains(&4), family != Family::Log, "{family:?}");

        let mut denied = charged();
        let call = denied.correction(3, 0);
        denied.lose_reply(1_000, call, true);
        denied.check(1_000, 1);
        assert_eq!(denied.rules(&[]), NONE, "{family:?}");
        denied.ops[4].outcome = Outcome::NotDone(Failure::Unavailable);
        assert!(denied.rules(&[]).contains(&4), "{family:?}");
    }
}

/// The refund in doubt frees as many units as the check in doubt charges, and older units hide both.
#[test]
fn calls_in_doubt_that_cancel_each_other_are_found() {
    let mut sim = Simulation::new(Family::Log);
    sim.check(0, 1);
    sim.check(100_000, 4);
    sim.lose_reply(100_000, Call::Check(4), true);
    let refund = sim.correction(1, 0);
    sim.lose_reply(1_000, refund, true);
    sim.check(1_000, 1);
    sim.check(1_000, 0);
    // When the first unit leaves, the figures show which four are left.
    sim.check(2_850_000, 1);
    assert_eq!(sim.rules(&[]), NONE);
    sim.ops.remove(3);
    assert_eq!(sim.rules(&[]), [4]);
}

/// Below zero the remaining units do not show whether the check in doubt has charged, until refunds have paid the debt.
#[test]
fn a_check_in_doubt_that_a_debt_hides_is_found() {
    let mut sim = Simulation::new(Family::Window);
    (0..9).for_each(|_| sim.check(1_000, 1));
    sim.lose_reply(1_000, Call::Check(1), true);
    sim.settle(1_000, 0, 4);
    (0..5).for_each(|_| sim.settle(1_000, 1, 0));
    assert_eq!(sim.rules(&[]), NONE);
    sim.ops.remove(9);
    assert_eq!(sim.rules(&[]), [4]);
}

#[test]
fn corrections_under_another_clock_break_no_rule() {
    for family in Family::BUSY {
        for seed in 0..60 {
            let (mut sim, mut random) = (Simulation::new(family), Rng::with_seed(seed));
            sim.add_random_calls(60, &mut random, 0, 25);
            sim.advance(10_000);
            let hour = 3_600_000_000;
            sim.lead = if seed % 2 == 0 { sim.lead + hour } else { sim.lead - hour };
            sim.add_random_calls(60, &mut random, 0, 25);
            let findings = sim.findings(&[at_any_time(Extent::Latest)]);
            assert!(findings.violations.is_empty(), "{family:?} {seed} {}", findings.violations[0]);
        }
    }
}

#[test]
fn after_a_clock_step_a_check_cuts_the_level_not_a_refund() {
    for family in METERS {
        let mut sim = Simulation::new(family);
        sim.check(0, 1);
        sim.check(1_000, 0);
        sim.lead -= 3_600_000_000;
        sim.settle(1_000, 0, 0);
        sim.check(3 * family.interval().unwrap(), 1);
        assert_eq!(sim.ops[3].charged(), 0, "{family:?}");
        assert_eq!(sim.rules(&[]), NONE, "{family:?}");
    }
}

#[test]
fn one_wrong_figure_of_a_correction_is_reported() {
    for family in busy() {
        for to in [0, 1, 3] {
            let mut sim = Simulation::new(family);
            (0..3).for_each(|_| sim.check(1_000, 2.min(family.max_cost())));
            sim.settle(1_000, 1, to);
            assert_eq!(sim.rules(&[]), NONE, "{family:?} {to}");
            let right = *sim.ops[3].answer().unwrap();
            for wrong in [
                Answer { remaining: right.remaining + 1, ..right },
                Answer { reset_after: right.reset_after + 1, ..right },
                Answer { next_after: right.next_after + 1, ..right },
                Answer { uncharged: right.uncharged + 1, ..right },
            ] {
                sim.ops[3].outcome = Outcome::Answered(wrong);
                assert!(sim.rules(&[]).contains(&4), "{family:?} {to} {wrong:?}");
            }
        }
    }
}

#[test]
fn the_server_s_count_includes_refunds() {
    let mut sim = Simulation::new(Family::Count);
    (0..10).for_each(|_| sim.check(1_000, 1));
    sim.settle(1_000, 0, 0);
    sim.settle(1_000, 0, 4);
    let call = sim.correction(0, 0);
    sim.lose_reply(1_000, call, true);
    let rules = |counted, losses: &[Loss]| {
        let counted = BTreeMap::from([(sim.key_id, counted)]);
        let findings = check(&RunRecord { ops: &sim.ops, losses, counted: &counted });
        findings.rules()
    };
    // Ten, less one, three more, and one that may have been refunded.
    assert_eq!(rules(10, &[]), [3]);
    assert_eq!(rules(11, &[]), NONE);
    assert_eq!(rules(12, &[]), NONE);
    assert_eq!(rules(13, &[]), [3]);
    // The refund may have been lost, and so may all earlier charges.
    let loss = Loss { from: 0, to: sim.ops[10].completed + 1, extent: Extent::Latest };
    assert_eq!(rules(13, &[loss]), NONE);
    assert_eq!(rules(14, &[loss]), [3]);
    assert_eq!(rules(2, &[loss]), NONE);
    assert_eq!(rules(1, &[loss]), [3]);
}

#[test]
fn refunds_of_expired_units_free_nothing() {
    for family in COUNTED {
        let mut sim = Simulation::new(family);
        (0..3).for_each(|_| sim.check(1_000, 1));
        let later = if family == Family::Count { 1_000 } else { family.period() };
        sim.check(later, 1);
        sim.settle(1_000, 0, 0);
        let findings = sim.findings(&[]);
        assert!(findings.violations.is_empty(), "{family:?}");
        assert_eq!(findings.freed, u64::from(family == Family::Count), "{family:?}");
        let answer = sim.ops.last().unwrap().answer().unwrap();
        let used = family.capacity() - answer.remaining;
        assert_eq!(used, if family == Family::Count { 3 } else { 1 }, "{family:?}");
    }
}
