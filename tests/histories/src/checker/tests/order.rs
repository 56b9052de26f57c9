//! Rule 4: valid and invalid explanations of an answer.

use std::time::Duration;

use portcullis_core::Retry;

use super::super::super::Answer;
use super::*;

/// All answers that differ from `answer` in one figure.
fn wrong(answer: Answer) -> Vec<Answer> {
    let mut wrong = vec![
        Answer { charged: !answer.charged, ..answer },
        Answer { position: Position { micros: answer.position.micros + 1, ..answer.position }, ..answer },
        Answer { uncharged: answer.uncharged + 1, ..answer },
        Answer { blocked: !answer.blocked, ..answer },
        Answer { delay: answer.delay.map(|delay| delay + 1), ..answer },
        Answer { limit: answer.limit + 1, ..answer },
        Answer { remaining: answer.remaining + 1, ..answer },
        Answer { reset_after: answer.reset_after + 1, ..answer },
        Answer { next_after: answer.next_after + 1, ..answer },
    ];
    let micro = Duration::from_micros(1);
    let retries = match answer.retry {
        None => [Some(Retry::After(micro)), Some(Retry::Never)],
        Some(Retry::After(wait)) => [Some(Retry::After(wait + micro)), None],
        _ => [Some(Retry::After(micro)), None],
    };
    wrong.extend(retries.map(|retry| Answer { retry, ..answer }));
    wrong
}

#[test]
fn every_figure_of_an_answer_is_checked() {
    for family in Family::EXACT {
        let mut sim = Simulation::new(family);
        (0..30).for_each(|_| sim.check(2_000, family.max_cost()));
        let of_kind = |charged: bool| sim.ops.iter().position(|op| (op.charged() > 0) == charged);
        // The family that counts never denies.
        let indices: Vec<usize> = [of_kind(true), of_kind(false)].into_iter().flatten().collect();
        assert_eq!(indices.len(), if family == Family::Count { 1 } else { 2 });
        for index in indices {
            let right = *sim.ops[index].answer().unwrap();
            for answer in wrong(right) {
                sim.ops[index].outcome = Outcome::Answered(answer);
                assert!(sim.rules(&[]).contains(&4), "{family:?}: {answer:?} instead of {right:?}");
            }
            sim.ops[index].outcome = Outcome::Answered(right);
        }
        assert_eq!(sim.rules(&[]), NONE, "{family:?}");
    }
}

#[test]
fn answers_of_one_instant_are_tried_in_every_order() {
    for family in Family::BUSY {
        let mut sim = Simulation::new(family);
        sim.check(1_000, 1);
        (0..4).for_each(|_| sim.check(0, 1));
        sim.check(1_000, 1);
        // The last of them began first.
        for (earlier, op) in (10..).zip(&mut sim.ops[1..5]) {
            op.invoked -= earlier;
        }
        assert_eq!(sim.rules(&[]), NONE, "{family:?}");
    }
}

#[test]
fn a_charge_in_doubt_runs_at_most_once() {
    for family in [Family::Spaced, Family::Bucket, Family::Window, Family::Count] {
        let mut sim = Simulation::new(family);
        sim.check(0, 1);
        sim.lose_reply(5_000, Call::Check(1), true);
        sim.check(5_000, 1);
        assert_eq!(sim.rules(&[]), NONE, "{family:?}");

        let mut sim = Simulation::new(family);
        sim.check(0, 1);
        sim.lose_reply(5_000, Call::Check(1), true);
        sim.run(&Call::Check(1));
        sim.check(5_000, 1);
        assert_eq!(sim.rules(&[]), [4], "{family:?}: it ran twice");
    }
}

#[test]
fn a_charge_in_doubt_does_not_run_before_its_call() {
    for family in [Family::Spaced, Family::Bucket, Family::Window, Family::Count] {
        let mut sim = Simulation::new(family);
        sim.check(0, 1);
        sim.run(&Call::Check(1));
        sim.check(5_000, 1);
        sim.lose_reply(20_000, Call::Check(1), false);
        assert_eq!(sim.rules(&[]), [4], "{family:?}");
    }
}

#[test]
fn a_loss_explains_nothing_before_it() {
    for family in Family::BUSY {
        let mut sim = Simulation::new(family);
        (0..4).for_each(|_| sim.check(1_000, 1));
        sim.state = None;
        (0..4).for_each(|_| sim.check(1_000, 1));
        let (before, after) = (sim.ops[3].completed, sim.ops[4].invoked);
        let right = Loss { from: before, to: after, extent: Extent::All };
        assert_eq!(sim.rules(&[right]), NONE, "{family:?}");
        let later = Loss { from: sim.ops[4].completed + 1, to: u64::MAX, extent: Extent::All };
        assert_eq!(sim.rules(&[later]), [4], "{family:?}");
    }
}

#[test]
fn no_state_remains_after_a_full_loss() {
    let mut sim = Simulation::new(Family::Count);
    (0..4).for_each(|_| sim.check(10_000, 1));
    let earlier = sim.state.clone();
    sim.check(10_000, 1);
    sim.state = earlier;
    sim.check(10_000, 1);
    assert_eq!(sim.rules(&[at_any_time(Extent::Latest)]), NONE);
    assert_eq!(sim.rules(&[at_any_time(Extent::All)]), [4]);
}

#[test]
fn a_replica_misses_at_most_two_seconds() {
    for (kept, expected) in [(3, &[][..]), (1, &[4])] {
        let (mut sim, mut replicated) = (Simulation::new(Family::Count), None);
        for second in 1..=5 {
            sim.check(1_000_000, 1);
            if second == kept {
                replicated = sim.state.clone();
            }
        }
        let from = sim.now + 500_000;
        sim.state = replicated;
        sim.check(1_000_000, 1);
        let loss = Loss { from, to: u64::MAX, extent: Extent::Latest };
        assert_eq!(sim.rules(&[loss]), expected, "the state after {kept} s was kept");
    }
}

#[test]
fn a_denial_in_doubt_may_cut_a_level_after_a_step_back() {
    for family in [Family::Spaced, Family::Bucket, Family::Waiting] {
        let mut sim = Simulation::new(family);
        (0..20).for_each(|_| sim.check(1_000, family.max_cost()));
        sim.lead -= 3_600_000_000;
        sim.lose_reply(1_000, Call::Check(family.max_cost()), true);
        (0..5).for_each(|_| sim.check(50_000, family.max_cost()));
        assert_eq!(sim.rules(&[]), NONE, "{family:?}");
        let cut = sim.ops.remove(20);
        assert!(sim.rules(&[]).contains(&4), "{family:?}: nothing else has cut the level: {cut}");
    }
}
