//! Rule 4: what explains an answer, and what only seems to.

use std::time::Duration;

use portcullis_core::Retry;

use super::super::super::Answer;
use super::*;

/// All answers that differ in one figure.
fn wrong(answer: Answer) -> Vec<Answer> {
    let mut wrong = vec![
        Answer { charged: !answer.charged, ..answer },
        Answer { position: Position { micros: answer.position.micros + 1, ..answer.position }, ..answer },
        Answer { uncharged: answer.uncharged + 1, ..answer },
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
fn every_figure_of_an_answer_is_held_against_the_core() {
    for family in Family::ALL {
        let mut world = World::new(family);
        (0..30).for_each(|_| world.ask(2_000, u32::try_from(family.most_asked()).unwrap()));
        let of_kind = |charged: bool| world.ops.iter().position(|op| (op.charged() > 0) == charged);
        // Nobody is ever denied a count.
        let places: Vec<usize> = [of_kind(true), of_kind(false)].into_iter().flatten().collect();
        assert_eq!(places.len(), if family == Family::Count { 1 } else { 2 });
        for place in places {
            let right = *world.ops[place].answer().unwrap();
            for answer in wrong(right) {
                world.ops[place].outcome = Outcome::Answered(answer);
                assert!(world.rules(&[]).contains(&4), "{family:?}: {answer:?} instead of {right:?}");
            }
            world.ops[place].outcome = Outcome::Answered(right);
        }
        assert_eq!(world.rules(&[]), NONE, "{family:?}");
    }
}

#[test]
fn answers_of_one_instant_are_tried_in_every_order() {
    for family in Family::BUSY {
        let mut world = World::new(family);
        world.ask(1_000, 1);
        (0..4).for_each(|_| world.ask(0, 1));
        world.ask(1_000, 1);
        // The last of them was asked first.
        for (earlier, op) in (10..).zip(&mut world.ops[1..5]) {
            op.invoked -= earlier;
        }
        assert_eq!(world.rules(&[]), NONE, "{family:?}");
    }
}

#[test]
fn a_charge_in_doubt_is_made_once() {
    for family in [Family::Spaced, Family::Bucket, Family::Window, Family::Count] {
        let mut world = World::new(family);
        world.ask(0, 1);
        world.lose(5_000, Call::Check(1), true);
        world.ask(5_000, 1);
        assert_eq!(world.rules(&[]), NONE, "{family:?}");

        let mut world = World::new(family);
        world.ask(0, 1);
        world.lose(5_000, Call::Check(1), true);
        world.run(&Call::Check(1));
        world.ask(5_000, 1);
        assert_eq!(world.rules(&[]), [4], "{family:?}: it ran twice");
    }
}

#[test]
fn a_charge_in_doubt_is_not_made_before_it_is_asked_for() {
    for family in [Family::Spaced, Family::Bucket, Family::Window, Family::Count] {
        let mut world = World::new(family);
        world.ask(0, 1);
        world.run(&Call::Check(1));
        world.ask(5_000, 1);
        world.lose(20_000, Call::Check(1), false);
        assert_eq!(world.rules(&[]), [4], "{family:?}");
    }
}

#[test]
fn a_loss_explains_nothing_before_it() {
    for family in Family::BUSY {
        let mut world = World::new(family);
        (0..4).for_each(|_| world.ask(1_000, 1));
        world.state = None;
        (0..4).for_each(|_| world.ask(1_000, 1));
        let (before, after) = (world.ops[3].completed, world.ops[4].invoked);
        let right = Loss { from: before, to: after, extent: Extent::All };
        assert_eq!(world.rules(&[right]), NONE, "{family:?}");
        let later = Loss { from: world.ops[4].completed + 1, to: u64::MAX, extent: Extent::All };
        assert_eq!(world.rules(&[later]), [4], "{family:?}");
    }
}

#[test]
fn where_all_was_lost_nothing_is_left() {
    let mut world = World::new(Family::Count);
    (0..4).for_each(|_| world.ask(10_000, 1));
    let earlier = world.state.clone();
    world.ask(10_000, 1);
    world.state = earlier;
    world.ask(10_000, 1);
    assert_eq!(world.rules(&[at_any_time(Extent::Latest)]), NONE);
    assert_eq!(world.rules(&[at_any_time(Extent::All)]), [4]);
}

#[test]
fn a_replica_misses_the_last_two_seconds_at_the_most() {
    for (kept, expected) in [(3, &[][..]), (1, &[4])] {
        let (mut world, mut replicated) = (World::new(Family::Count), None);
        for second in 1..=5 {
            world.ask(1_000_000, 1);
            if second == kept {
                replicated = world.state.clone();
            }
        }
        let from = world.now + 500_000;
        world.state = replicated;
        world.ask(1_000_000, 1);
        let loss = Loss { from, to: u64::MAX, extent: Extent::Latest };
        assert_eq!(world.rules(&[loss]), expected, "what was there after {kept} s was left");
    }
}
