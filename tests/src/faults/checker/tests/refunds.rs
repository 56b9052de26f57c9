//! Refunds and settlements: right ones break no rule, wrong ones are reported.

use super::super::super::Answer;
use super::*;

const METERS: [Family; 2] = [Family::Spaced, Family::Bucket];
const COUNTED: [Family; 3] = [Family::Window, Family::Log, Family::Count];

fn busy() -> impl Iterator<Item = Family> {
    Family::BUSY.into_iter().chain([Family::Count])
}

#[test]
fn corrections_of_a_right_store_break_no_rule() {
    for family in busy() {
        for seed in 0..30 {
            let findings = World::crowd(family, seed, 0, 25).check(&[]);
            assert!(findings.violations.is_empty(), "{family:?} {seed} {}", findings.violations[0]);
            assert_eq!(
                (findings.replayed, findings.unclear, findings.beyond),
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
            let findings = World::crowd(family, seed, 6, 25).check(&[]);
            assert!(findings.violations.is_empty(), "{family:?} {seed} {}", findings.violations[0]);
            unclear += findings.unclear;
        }
    }
    assert!(unclear <= 5, "{unclear} of 250 are unclear");
}

/// Charges a unit whenever one flows back, refunds all of them at the end, and asks in between.
fn collects(family: Family, frees_units: bool) -> World {
    let mut world = World::new(family);
    let interval = family.interval().unwrap();
    (0..family.most()).for_each(|_| world.ask(0, 1));
    (0..40).for_each(|_| world.ask(interval, 1));
    if frees_units {
        for (_, runs) in &mut world.charges {
            runs[0].position.micros += 3_600_000_000;
        }
    }
    let collected = world.charges.len();
    for _ in 0..collected {
        world.settle(1, 0, 0);
        world.ask(1, 1);
    }
    world
}

#[test]
fn collected_refunds_that_free_too_much_are_reported() {
    for family in METERS {
        assert_eq!(collects(family, false).rules(&[]), NONE, "{family:?}");
        let mut world = collects(family, true);
        // The history has the right positions; the store has freed all units regardless.
        for op in &mut world.ops {
            if let Call::Settle(correction) = &mut op.call {
                correction.runs[0].position.micros -= 3_600_000_000;
            }
        }
        assert_eq!(world.rules(&[]), [1, 4], "{family:?}");
        assert_eq!(world.rules(&[at_any_time(Extent::All)]), [1, 4], "{family:?}: a loss is one burst");
    }
}

#[test]
fn refunded_units_are_admitted_again_and_no_more() {
    for family in busy().filter(|family| *family != Family::Count) {
        let mut world = World::new(family);
        let most = u32::try_from(family.most()).unwrap();
        world.ask(0, most);
        world.settle(1_000, 0, 0);
        world.ask(1_000, most);
        assert_eq!(world.rules(&[]), NONE, "{family:?}");
        // Without the refund it is too much, except for windows: two may touch any stretch.
        world.ops.remove(1);
        let expected: &[u8] = if family == Family::Window { &[4] } else { &[1, 4] };
        assert_eq!(world.rules(&[]), expected, "{family:?}");
    }
}

#[test]
fn a_denial_of_refunded_units_is_reported() {
    for family in Family::BUSY {
        let mut full = World::new(family);
        full.ask(0, u32::try_from(family.most()).unwrap());
        full.ask(10_000, 1);
        let mut world = World::new(family);
        world.ask(0, u32::try_from(family.most()).unwrap());
        world.settle(5_000, 0, 0);
        world.pass(5_000);
        world.write(Call::Check(1), full.ops[1].outcome.clone());
        assert!(world.rules(&[]).contains(&2), "{family:?}");
        // The denial is right if the refund was lost or never ran.
        let rules = world.rules(&[at_any_time(Extent::Latest)]);
        assert!(!rules.contains(&2), "{family:?}");
        world.ops[1].outcome = Outcome::Unknown(Failure::TimedOut);
        assert!(!world.rules(&[]).contains(&2), "{family:?}");
    }
}

#[test]
fn a_denial_is_explained_to_the_last_refunded_unit() {
    for family in METERS {
        let most = u32::try_from(family.most()).unwrap();
        let mut world = World::new(family);
        world.ask(0, most);
        world.settle(1_000, 0, most - 1);
        world.ask(1_000, 1);
        world.ask(1_000, 1);
        assert_eq!(world.rules(&[]), NONE, "{family:?}");
        // One unit was refunded and is in use again. If two had been, the last check would fit.
        let Call::Settle(correction) = &mut world.ops[1].call else { panic!("it is the correction") };
        correction.to -= 1;
        assert!(world.rules(&[]).contains(&2), "{family:?}");
    }
}

#[test]
fn a_correction_that_ran_twice_is_reported() {
    for family in busy() {
        let charged = || {
            let mut world = World::new(family);
            (0..4).for_each(|_| world.ask(1_000, 1));
            world
        };
        let mut twice = charged();
        let again = Call::Settle(Correction { to: 0, charged: 1, runs: twice.charges[3].1.clone() });
        twice.settle(1_000, 3, 0);
        twice.run(&again);
        twice.ask(1_000, 1);
        // A log finds its units by their stamp, so a second refund finds none.
        assert_eq!(twice.rules(&[]).contains(&4), family != Family::Log, "{family:?}");

        let mut denied = charged();
        let call = denied.correction(3, 0);
        denied.lose(1_000, call, true);
        denied.ask(1_000, 1);
        assert_eq!(denied.rules(&[]), NONE, "{family:?}");
        denied.ops[4].outcome = Outcome::NotDone(Failure::Unavailable);
        assert!(denied.rules(&[]).contains(&4), "{family:?}");
    }
}

/// The refund in doubt frees as many units as the check in doubt charges, and older units hide both.
#[test]
fn calls_in_doubt_that_cancel_each_other_are_found() {
    let mut world = World::new(Family::Log);
    world.ask(0, 1);
    world.ask(100_000, 4);
    world.lose(100_000, Call::Check(4), true);
    let refund = world.correction(1, 0);
    world.lose(1_000, refund, true);
    world.ask(1_000, 1);
    world.ask(1_000, 0);
    // When the first unit leaves, the figures show which four are left.
    world.ask(2_850_000, 1);
    assert_eq!(world.rules(&[]), NONE);
    world.ops.remove(3);
    assert_eq!(world.rules(&[]), [4]);
}

#[test]
fn corrections_under_another_clock_break_no_rule() {
    for family in Family::BUSY {
        for seed in 0..60 {
            let (mut world, mut random) = (World::new(family), Random::new(seed));
            world.crowd_for(60, &mut random, 0, 25);
            world.pass(10_000);
            let hour = 3_600_000_000;
            world.lead = if seed % 2 == 0 { world.lead + hour } else { world.lead - hour };
            world.crowd_for(60, &mut random, 0, 25);
            let findings = world.check(&[at_any_time(Extent::Latest)]);
            assert!(findings.violations.is_empty(), "{family:?} {seed} {}", findings.violations[0]);
        }
    }
}

#[test]
fn after_a_clock_step_the_next_check_cuts_not_a_refund() {
    for family in METERS {
        let mut world = World::new(family);
        world.ask(0, 1);
        world.ask(1_000, 0);
        world.lead -= 3_600_000_000;
        world.settle(1_000, 0, 0);
        world.ask(3 * family.interval().unwrap(), 1);
        assert_eq!(world.ops[3].charged(), 0, "{family:?}");
        assert_eq!(world.rules(&[]), NONE, "{family:?}");
    }
}

#[test]
fn one_wrong_figure_of_a_correction_is_reported() {
    for family in busy() {
        for to in [0, 1, 3] {
            let mut world = World::new(family);
            (0..3).for_each(|_| world.ask(1_000, 2.min(u32::try_from(family.most_asked()).unwrap())));
            world.settle(1_000, 1, to);
            assert_eq!(world.rules(&[]), NONE, "{family:?} {to}");
            let right = *world.ops[3].answer().unwrap();
            for wrong in [
                Answer { remaining: right.remaining + 1, ..right },
                Answer { reset_after: right.reset_after + 1, ..right },
                Answer { next_after: right.next_after + 1, ..right },
                Answer { uncharged: right.uncharged + 1, ..right },
            ] {
                world.ops[3].outcome = Outcome::Answered(wrong);
                assert!(world.rules(&[]).contains(&4), "{family:?} {to} {wrong:?}");
            }
        }
    }
}

#[test]
fn the_server_s_count_is_held_against_refunds() {
    let mut world = World::new(Family::Count);
    (0..10).for_each(|_| world.ask(1_000, 1));
    world.settle(1_000, 0, 0);
    world.settle(1_000, 0, 4);
    let call = world.correction(0, 0);
    world.lose(1_000, call, true);
    let rules = |counted, losses: &[Loss]| {
        let counted = BTreeMap::from([(world.spot, counted)]);
        let findings = check(&Books { ops: &world.ops, losses, counted: &counted });
        findings.violations.iter().map(|violation| violation.rule).collect::<Vec<_>>()
    };
    // Ten, less one, three more, and one that may have been refunded.
    assert_eq!(rules(10, &[]), [3]);
    assert_eq!(rules(11, &[]), NONE);
    assert_eq!(rules(12, &[]), NONE);
    assert_eq!(rules(13, &[]), [3]);
    // The refund may have been lost, and so may all earlier charges.
    let loss = Loss { from: 0, to: world.ops[10].completed + 1, extent: Extent::Latest };
    assert_eq!(rules(13, &[loss]), NONE);
    assert_eq!(rules(14, &[loss]), [3]);
    assert_eq!(rules(2, &[loss]), NONE);
    assert_eq!(rules(1, &[loss]), [3]);
}

#[test]
fn units_that_count_no_more_free_nothing() {
    for family in COUNTED {
        let mut world = World::new(family);
        (0..3).for_each(|_| world.ask(1_000, 1));
        let later = if family == Family::Count { 1_000 } else { family.period() };
        world.ask(later, 1);
        world.settle(1_000, 0, 0);
        let findings = world.check(&[]);
        assert!(findings.violations.is_empty(), "{family:?}");
        assert_eq!(findings.freed, u64::from(family == Family::Count), "{family:?}");
        let answer = world.ops.last().unwrap().answer().unwrap();
        let used = family.most() - u64::from(answer.remaining);
        assert_eq!(used, if family == Family::Count { 3 } else { 1 }, "{family:?}");
    }
}
