//! Histories as they should be, and broken in every way that a rule is there to notice.

mod edges;
mod order;
mod refunds;

use super::super::{Call, Correction, Failure, Family, Outcome, Random};
use super::*;
use portcullis_core::{Decision, Position, Run, State, Timestamp};

/// A store that is right, and callers who write down what it says.
struct World {
    spot: KeyId,
    state: Option<State>,
    lead: u64,
    now: u64,
    ops: Vec<Op>,
    /// Calls that the server runs when their callers have left: at which time, and what for.
    held: Vec<(u64, Call)>,
    /// Charges that were not corrected yet.
    charges: Vec<(u32, Vec<Run>)>,
}

impl World {
    fn new(family: Family) -> Self {
        let spot = KeyId { rotation: 0, family, caller: 0 };
        Self {
            spot,
            state: None,
            lead: 1_767_225_600_000_000,
            now: 1_000_000,
            ops: Vec::new(),
            held: Vec::new(),
            charges: Vec::new(),
        }
    }

    /// Runs a call on the store, and says what it answers.
    fn run(&mut self, call: &Call) -> Outcome {
        let policy = self.spot.family.policy();
        let (strategy, at) = (policy.strategy(), Timestamp::from_micros(self.now + self.lead));
        let (mut position, mut uncharged) = (Position::default(), 0);
        let (cost, fits) = match call {
            Call::Check(cost) => {
                let evaluation = strategy.evaluate(self.state.as_ref(), at, *cost);
                strategy.conclude(&mut self.state, at, *cost, evaluation, evaluation.admitted);
                if evaluation.admitted && *cost > 0 {
                    position = strategy.position(self.state.as_ref(), at);
                }
                (*cost, evaluation.admitted)
            }
            Call::Settle(correction) => {
                if correction.missing() > 0 {
                    uncharged = strategy.force_charge(&mut self.state, at, correction.missing()).uncharged;
                } else {
                    strategy.refund(&mut self.state, at, correction.refund());
                }
                (0, true)
            }
        };
        let snapshot = strategy.snapshot(self.state.as_ref(), at, cost, fits);
        let answer = super::super::Answer::new(&Decision::new(&policy, at, snapshot), fits);
        Outcome::Answered(super::super::Answer { position, uncharged, ..answer })
    }

    fn write(&mut self, call: Call, outcome: Outcome) {
        let (invoked, completed) = (self.now - 300, self.now + 200);
        self.ops.push(Op { process: 0, spot: self.spot, call, invoked, completed, outcome });
    }

    /// Lets time pass, and runs what was held up.
    fn pass(&mut self, after: u64) {
        let now = self.now + after;
        self.held.sort_by_key(|(due, _)| *due);
        while let Some((due, call)) = self.held.first().cloned().filter(|(due, _)| *due <= now) {
            self.held.remove(0);
            self.now = due;
            self.run(&call);
        }
        self.now = now;
    }

    fn ask(&mut self, after: u64, cost: u32) {
        self.pass(after);
        let outcome = self.run(&Call::Check(cost));
        if let Outcome::Answered(answer) = &outcome
            && answer.charged
            && cost > 0
        {
            self.charges.push((cost, vec![Run { units: cost, position: answer.position }]));
        }
        self.write(Call::Check(cost), outcome);
    }

    /// A call whose reply is lost, run by the server or not.
    fn lose(&mut self, after: u64, call: Call, runs: bool) {
        self.pass(after);
        if runs {
            self.run(&call);
        }
        self.write(call, Outcome::Unknown(Failure::TimedOut));
    }

    /// A call that the server runs so much later.
    fn hold(&mut self, after: u64, call: Call, late: u64) {
        self.pass(after);
        self.held.push((self.now + late, call.clone()));
        self.held.sort_by_key(|(due, _)| *due);
        self.write(call, Outcome::Unknown(Failure::TimedOut));
    }

    fn check(&self, losses: &[Loss]) -> Findings {
        check(&Books { ops: &self.ops, losses, counted: &BTreeMap::new() })
    }

    fn rules(&self, losses: &[Loss]) -> Vec<u8> {
        self.check(losses).violations.iter().map(|violation| violation.rule).collect()
    }

    /// The correction of a charge to `to` units. Uses up the charge.
    fn correction(&mut self, index: usize, to: u32) -> Call {
        let (charged, runs) = self.charges.remove(index);
        Call::Settle(Correction { to, charged, runs })
    }

    fn settle(&mut self, after: u64, index: usize, to: u32) {
        self.pass(after);
        let call = self.correction(index, to);
        let outcome = self.run(&call);
        self.write(call, outcome);
    }

    /// A crowd at random, with replies lost now and then.
    fn crowd(family: Family, seed: u64, lost: u64, corrected: u64) -> Self {
        let mut world = Self::new(family);
        world.crowd_for(200, &mut Random::new(seed), lost, corrected);
        world
    }

    /// Adds `calls` by a crowd; in percent of them, lost replies and corrections.
    fn crowd_for(&mut self, calls: usize, random: &mut Random, lost: u64, corrected: u64) {
        let most_asked = self.spot.family.most_asked();
        for _ in 0..calls {
            let after = if random.below(10) == 0 { 0 } else { 1_000 + random.below(200_000) };
            let cost = u32::try_from(random.below(most_asked + 1)).unwrap();
            let is_lost = random.below(100) < lost;
            let corrects = !self.charges.is_empty() && random.below(100) < corrected;
            let call = if corrects {
                let index = usize::try_from(random.below(self.charges.len() as u64)).unwrap();
                let charged = self.charges[index].0;
                let to =
                    if random.below(3) == 0 { u32::try_from(random.below(5)).unwrap() } else { charged / 2 };
                if !is_lost {
                    self.settle(after, index, to);
                    continue;
                }
                self.correction(index, to)
            } else {
                Call::Check(cost)
            };
            match random.below(4) {
                _ if !is_lost => self.ask(after, cost),
                0 => self.hold(after, call, random.below(500_000)),
                runs => self.lose(after, call, runs == 1),
            }
        }
    }
}

const NONE: [u8; 0] = [];

fn at_any_time(extent: Extent) -> Loss {
    Loss { from: 0, to: u64::MAX, extent }
}

#[test]
fn a_store_that_is_right_breaks_no_rule() {
    for family in Family::ALL {
        for seed in 0..20 {
            let findings = World::crowd(family, seed, 0, 0).check(&[]);
            assert!(findings.violations.is_empty(), "{}", findings.violations[0]);
            assert_eq!((findings.replayed, findings.unclear, findings.beyond), (1, 0, 0));
        }
    }
}

#[test]
fn lost_replies_are_explained_whether_the_server_ran_the_call_or_not() {
    for family in Family::ALL {
        for seed in 0..50 {
            let findings = World::crowd(family, seed, 6, 0).check(&[]);
            assert!(findings.violations.is_empty(), "{family:?} {seed} {}", findings.violations[0]);
            assert_eq!((findings.replayed, findings.unclear), (1, 0), "{family:?} {seed}");
        }
    }
}

#[test]
fn a_log_with_replies_lost_is_held_to_every_figure() {
    let mut told = 0;
    for seed in 0..50 {
        let mut world = World::crowd(Family::Log, seed, 6, 0);
        let answers = world.ops.iter_mut().filter(|op| op.answer().is_some());
        let Some(Op { outcome: Outcome::Answered(answer), .. }) = answers.last() else { continue };
        answer.next_after += 1;
        told += usize::from(world.rules(&[]) == [4]);
    }
    assert!(told > 45, "{told} of 50 are noticed");
}

#[test]
fn more_than_promised_is_noticed_and_excused_by_a_loss_of_state() {
    for family in Family::BUSY {
        let mut world = World::new(family);
        let cost = u32::try_from(family.most() / 5).unwrap();
        (0..14).for_each(|_| world.ask(1_000, cost));
        world.state = None;
        (0..30).for_each(|_| world.ask(1_000, cost));
        // Windows promise no more than two limits in any stretch, and stay silent here.
        let beyond = world.check(&[]).beyond;
        let expected: &[u8] = if family == Family::Window { &[4] } else { &[1, 4] };
        assert_eq!(world.rules(&[]), expected, "{family:?}");
        assert_eq!(beyond > 0, family != Family::Window);
        assert_eq!(world.rules(&[at_any_time(Extent::All)]), NONE, "{family:?}");
        let elsewhere = Loss { from: 0, to: 1_001_000, extent: Extent::All };
        assert!(world.rules(&[elsewhere]).contains(&4), "{family:?}: the loss was later");
    }
}

#[test]
fn a_denial_without_a_cause_is_noticed() {
    for family in Family::BUSY.into_iter().chain([Family::Slow]) {
        let mut full = World::new(family);
        (0..100).for_each(|_| full.ask(1_000, 1));
        let denied = full.ops.iter().find(|op| op.charged() == 0).unwrap();
        let mut world = World::new(family);
        world.ask(0, 1);
        world.now = denied.invoked + 100_000;
        world.write(Call::Check(1), denied.outcome.clone());
        assert!(world.rules(&[]).contains(&2), "{family:?}");
    }
}

#[test]
fn a_doubtful_charge_accounts_for_a_denial() {
    let mut world = World::new(Family::Slow);
    world.ask(0, 1);
    world.lose(60_000, Call::Check(1), true);
    world.ask(40_000, 1);
    assert_eq!(world.ops[2].charged(), 0);
    assert_eq!(world.rules(&[]), NONE);
    world.ops.remove(1);
    assert_eq!(world.rules(&[]), [2, 4]);
}

#[test]
fn a_call_that_ran_twice_is_noticed() {
    for family in Family::BUSY {
        let mut world = World::new(family);
        world.ask(0, 1);
        world.run(&Call::Check(1));
        world.ask(5_000, 1);
        assert!(world.rules(&[]).contains(&4), "{family:?}");
    }
}

#[test]
fn a_call_that_was_said_not_to_run_and_did_is_noticed() {
    let mut world = World::new(Family::Bucket);
    world.ask(0, 1);
    world.lose(5_000, Call::Check(2), true);
    world.ask(5_000, 1);
    assert_eq!(world.rules(&[]), NONE);
    world.ops[1].outcome = Outcome::NotDone(Failure::Unavailable);
    assert_eq!(world.rules(&[]), [4]);
}

#[test]
fn one_wrong_microsecond_is_noticed() {
    for family in Family::ALL {
        let mut world = World::crowd(family, 3, 0, 0);
        let Some(Outcome::Answered(answer)) = world.ops.get_mut(50).map(|op| &mut op.outcome) else {
            panic!("no reply was lost")
        };
        answer.reset_after += 1;
        assert_eq!(world.rules(&[]), [4], "{family:?}");
    }
}

#[test]
fn the_server_s_count_is_held_against_what_was_acknowledged() {
    let mut world = World::new(Family::Count);
    (0..10).for_each(|_| world.ask(1_000, 1));
    world.lose(1_000, Call::Check(1), true);
    let rules = |counted, losses: &[Loss]| {
        let counted = BTreeMap::from([(world.spot, counted)]);
        let findings = check(&Books { ops: &world.ops, losses, counted: &counted });
        findings.violations.iter().map(|violation| violation.rule).collect::<Vec<_>>()
    };
    assert_eq!(rules(9, &[]), [3]);
    assert_eq!(rules(10, &[]), NONE);
    assert_eq!(rules(11, &[]), NONE);
    assert_eq!(rules(12, &[]), [3]);
    assert_eq!(rules(0, &[at_any_time(Extent::Latest)]), NONE, "all of it may have been lost");
    let later = Loss { from: 2_000_000, to: 2_000_001, extent: Extent::All };
    assert_eq!(rules(0, &[later]), NONE, "after everybody had gone");
}

#[test]
fn what_a_replica_missed_is_found_in_the_past() {
    let mut world = World::new(Family::Bucket);
    (0..4).for_each(|_| world.ask(10_000, 1));
    let replicated = world.state.clone();
    (0..3).for_each(|_| world.ask(10_000, 1));
    world.state = replicated;
    (0..5).for_each(|_| world.ask(10_000, 1));
    assert_eq!(world.rules(&[]), [4]);
    assert_eq!(world.rules(&[at_any_time(Extent::Latest)]), NONE);
}

#[test]
fn another_clock_is_followed() {
    for family in Family::BUSY {
        for ahead in [true, false] {
            let mut world = World::new(family);
            (0..20).for_each(|_| world.ask(10_000, 1));
            world.lead = if ahead { world.lead + 3_600_000_000 } else { world.lead - 3_600_000_000 };
            (0..400).for_each(|_| world.ask(10_000, 1));
            assert_eq!(world.rules(&[at_any_time(Extent::Latest)]), NONE, "{family:?} {ahead}");
        }
    }
}
