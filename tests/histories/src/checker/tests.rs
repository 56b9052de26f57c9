//! Correct histories, and histories with each kind of violation that a rule detects.

mod blocks;
mod edges;
mod grants;
mod leased;
mod mixed;
mod order;
mod permits;
mod refunds;
mod remembered;

use std::ops::Range;
use std::thread;

use super::super::{Call, Correction, Failure, Family, Outcome};
use super::*;
use fastrand::Rng;
use portcullis_core::algorithm::State;
use portcullis_core::store::{Position, Run};
use portcullis_core::{Decision, Timestamp};

impl Findings {
    /// The numbers of the rules that are violated.
    fn rules(&self) -> Vec<u8> {
        self.violations.iter().map(|violation| violation.rule).collect()
    }
}

/// A correct store, and the record of its calls.
struct Simulation {
    key_id: KeyId,
    state: Option<State>,
    lead: u64,
    now: u64,
    ops: Vec<Op>,
    /// Calls that the server runs after their callers have given up, with the instants at which it does.
    late_calls: Vec<(u64, Call)>,
    /// Charges that were not corrected yet: their units and runs.
    charges: Vec<(u64, Vec<Run>)>,
}

impl Simulation {
    fn new(family: Family) -> Self {
        let key_id = KeyId { rotation: 0, family, caller: 0 };
        Self {
            key_id,
            state: None,
            lead: 1_767_225_600_000_000,
            now: 1_000_000,
            ops: Vec::new(),
            late_calls: Vec::new(),
            charges: Vec::new(),
        }
    }

    /// Runs a call on the store and returns its answer.
    fn run(&mut self, call: &Call) -> Outcome {
        let policy = self.key_id.family.policy();
        let (strategy, at) = (policy.strategy(), Timestamp::from_micros(self.now + self.lead));
        let (mut position, mut uncharged) = (Position::default(), 0);
        let (cost, fits) = match call {
            Call::Check(cost) => {
                let evaluation = strategy.evaluate(self.state.as_ref(), at, *cost);
                strategy.apply_decision(&mut self.state, at, *cost, evaluation, evaluation.admitted);
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
            _ => unreachable!("these policies are not replayed"),
        };
        let snapshot = strategy.snapshot(self.state.as_ref(), at, cost, fits);
        let answer = super::super::Answer::new(&Decision::new(&policy, at, snapshot), fits);
        Outcome::Answered(super::super::Answer { position, uncharged, ..answer })
    }

    fn record(&mut self, call: Call, outcome: Outcome) {
        let (invoked, completed) = (self.now - 300, self.now + 200);
        self.ops.push(Op { process: 0, key_id: self.key_id, call, invoked, completed, outcome });
    }

    /// Advances the clock and runs the late calls that are due.
    fn advance(&mut self, after: u64) {
        let now = self.now + after;
        self.late_calls.sort_by_key(|(due, _)| *due);
        while let Some((due, call)) = self.late_calls.first().cloned().filter(|(due, _)| *due <= now) {
            self.late_calls.remove(0);
            self.now = due;
            self.run(&call);
        }
        self.now = now;
    }

    fn check(&mut self, after: u64, cost: u64) {
        self.advance(after);
        let outcome = self.run(&Call::Check(cost));
        if let Outcome::Answered(answer) = &outcome
            && answer.charged
            && cost > 0
        {
            self.charges.push((cost, vec![Run { units: cost, position: answer.position }]));
        }
        self.record(Call::Check(cost), outcome);
    }

    /// Makes a call whose reply is lost; `runs` is whether the server runs it.
    fn lose_reply(&mut self, after: u64, call: Call, runs: bool) {
        self.advance(after);
        if runs {
            self.run(&call);
        }
        self.record(call, Outcome::Unknown(Failure::TimedOut));
    }

    /// Makes a call that the server runs `late` microseconds later.
    fn run_late(&mut self, after: u64, call: Call, late: u64) {
        self.advance(after);
        self.late_calls.push((self.now + late, call.clone()));
        self.late_calls.sort_by_key(|(due, _)| *due);
        self.record(call, Outcome::Unknown(Failure::TimedOut));
    }

    fn findings(&self, losses: &[Loss]) -> Findings {
        check(&RunRecord { ops: &self.ops, losses, counted: &BTreeMap::new() })
    }

    fn rules(&self, losses: &[Loss]) -> Vec<u8> {
        self.findings(losses).rules()
    }

    /// Removes a charge and returns its correction to `to` units.
    fn correction(&mut self, index: usize, to: u64) -> Call {
        let (charged, runs) = self.charges.remove(index);
        Call::Settle(Correction { to, charged, runs })
    }

    fn settle(&mut self, after: u64, index: usize, to: u64) {
        self.advance(after);
        let call = self.correction(index, to);
        let outcome = self.run(&call);
        self.record(call, outcome);
    }

    /// Creates a simulation of 200 random calls; `lost` and `corrected` are in percent.
    fn random(family: Family, seed: u64, lost: u64, corrected: u64) -> Self {
        let mut sim = Self::new(family);
        sim.add_random_calls(200, &mut Rng::with_seed(seed), lost, corrected);
        sim
    }

    /// Adds random calls; `lost` of them in percent lose their replies, and `corrected` are corrections.
    fn add_random_calls(&mut self, calls: usize, random: &mut Rng, lost: u64, corrected: u64) {
        let max_cost = self.key_id.family.max_cost();
        for _ in 0..calls {
            let after = if random.u64(..10) == 0 { 0 } else { 1_000 + random.u64(..200_000) };
            let cost = random.u64(..=max_cost);
            let is_lost = random.u64(..100) < lost;
            let corrects = !self.charges.is_empty() && random.u64(..100) < corrected;
            let call = if corrects {
                let index = random.usize(..self.charges.len());
                let charged = self.charges[index].0;
                let to = if random.u64(..3) == 0 { random.u64(..5) } else { charged / 2 };
                if !is_lost {
                    self.settle(after, index, to);
                    continue;
                }
                self.correction(index, to)
            } else {
                Call::Check(cost)
            };
            match random.u64(..4) {
                _ if !is_lost => self.check(after, cost),
                0 => self.run_late(after, call, random.u64(..500_000)),
                runs => self.lose_reply(after, call, runs == 1),
            }
        }
    }
}

const NONE: [u8; 0] = [];

fn at_any_time(extent: Extent) -> Loss {
    Loss { from: 0, to: u64::MAX, extent }
}

/// Whether an interval may overlap two windows of the family.
fn is_window(family: Family) -> bool {
    matches!(family, Family::Window | Family::Calendar)
}

/// The busy families of which a single check can charge all that is admitted at one instant.
fn filled_at_once() -> impl Iterator<Item = Family> {
    Family::BUSY.into_iter().filter(|family| *family != Family::Waiting)
}

#[test]
fn a_correct_store_breaks_no_rule() {
    for family in Family::EXACT {
        for seed in 0..20 {
            let findings = Simulation::random(family, seed, 0, 0).findings(&[]);
            assert!(findings.violations.is_empty(), "{}", findings.violations[0]);
            assert_eq!((findings.replayed, findings.unclear, findings.excess), (1, 0, 0));
        }
    }
}

#[test]
fn lost_replies_are_explained_run_or_not() {
    for family in Family::EXACT {
        for seed in 0..50 {
            let findings = Simulation::random(family, seed, 6, 0).findings(&[]);
            assert!(findings.violations.is_empty(), "{family:?} {seed} {}", findings.violations[0]);
            assert_eq!((findings.replayed, findings.unclear), (1, 0), "{family:?} {seed}");
        }
    }
}

#[test]
fn a_log_with_lost_replies_is_checked_in_every_figure() {
    // In two threads, because some searches take a second.
    let noticed = thread::scope(|scope| {
        let halves = [0..25, 25..50].map(|seeds| scope.spawn(|| noticed_errors(seeds)));
        halves.into_iter().map(|half| half.join().unwrap()).sum::<usize>()
    });
    assert!(noticed > 45, "{noticed} of 50 are noticed");
}

/// The number of seeds for which one wrong figure in a history is noticed.
fn noticed_errors(seeds: Range<u64>) -> usize {
    let mut noticed = 0;
    for seed in seeds {
        let mut sim = Simulation::random(Family::Log, seed, 6, 0);
        let answers = sim.ops.iter_mut().filter(|op| op.answer().is_some());
        let Some(Op { outcome: Outcome::Answered(answer), .. }) = answers.last() else { continue };
        answer.next_after += 1;
        noticed += usize::from(sim.rules(&[]) == [4]);
    }
    noticed
}

#[test]
fn an_excess_is_noticed_unless_a_loss_of_state_excuses_it() {
    for family in Family::BUSY {
        let mut sim = Simulation::new(family);
        let cost = family.capacity() / 5;
        (0..14).for_each(|_| sim.check(1_000, cost));
        sim.state = None;
        (0..30).for_each(|_| sim.check(1_000, cost));
        // Windows allow two limits in any interval, so rule 1 is not violated here.
        let excess = sim.findings(&[]).excess;
        let expected: &[u8] = if is_window(family) { &[4] } else { &[1, 4] };
        assert_eq!(sim.rules(&[]), expected, "{family:?}");
        assert_eq!(excess > 0, !is_window(family));
        assert_eq!(sim.rules(&[at_any_time(Extent::All)]), NONE, "{family:?}");
        let elsewhere = Loss { from: 0, to: 1_001_000, extent: Extent::All };
        assert!(sim.rules(&[elsewhere]).contains(&4), "{family:?}: the loss was later");
    }
}

#[test]
fn a_denial_without_a_cause_is_noticed() {
    for family in Family::BUSY.into_iter().chain([Family::Slow]) {
        let mut full = Simulation::new(family);
        (0..100).for_each(|_| full.check(1_000, 1));
        let denied = full.ops.iter().find(|op| op.charged() == 0).unwrap();
        let mut sim = Simulation::new(family);
        sim.check(0, 1);
        sim.now = denied.invoked + 100_000;
        sim.record(Call::Check(1), denied.outcome.clone());
        assert!(sim.rules(&[]).contains(&2), "{family:?}");
    }
}

#[test]
fn a_doubtful_charge_accounts_for_a_denial() {
    let mut sim = Simulation::new(Family::Slow);
    sim.check(0, 1);
    sim.lose_reply(60_000, Call::Check(1), true);
    sim.check(40_000, 1);
    assert_eq!(sim.ops[2].charged(), 0);
    assert_eq!(sim.rules(&[]), NONE);
    sim.ops.remove(1);
    assert_eq!(sim.rules(&[]), [2, 4]);
}

#[test]
fn a_call_that_ran_twice_is_noticed() {
    for family in Family::BUSY {
        let mut sim = Simulation::new(family);
        sim.check(0, 1);
        sim.run(&Call::Check(1));
        sim.check(5_000, 1);
        assert!(sim.rules(&[]).contains(&4), "{family:?}");
    }
}

#[test]
fn a_call_that_ran_despite_its_error_is_noticed() {
    let mut sim = Simulation::new(Family::Bucket);
    sim.check(0, 1);
    sim.lose_reply(5_000, Call::Check(2), true);
    sim.check(5_000, 1);
    assert_eq!(sim.rules(&[]), NONE);
    sim.ops[1].outcome = Outcome::NotDone(Failure::Unavailable);
    assert_eq!(sim.rules(&[]), [4]);
}

#[test]
fn one_wrong_microsecond_is_noticed() {
    for family in Family::EXACT {
        let mut sim = Simulation::random(family, 3, 0, 0);
        let Some(Outcome::Answered(answer)) = sim.ops.get_mut(50).map(|op| &mut op.outcome) else {
            panic!("no reply was lost")
        };
        answer.reset_after += 1;
        assert_eq!(sim.rules(&[]), [4], "{family:?}");
    }
}

#[test]
fn the_server_s_count_is_checked_against_acknowledgements() {
    let mut sim = Simulation::new(Family::Count);
    (0..10).for_each(|_| sim.check(1_000, 1));
    sim.lose_reply(1_000, Call::Check(1), true);
    let rules = |counted, losses: &[Loss]| {
        let counted = BTreeMap::from([(sim.key_id, counted)]);
        let findings = check(&RunRecord { ops: &sim.ops, losses, counted: &counted });
        findings.rules()
    };
    assert_eq!(rules(9, &[]), [3]);
    assert_eq!(rules(10, &[]), NONE);
    assert_eq!(rules(11, &[]), NONE);
    assert_eq!(rules(12, &[]), [3]);
    assert_eq!(rules(0, &[at_any_time(Extent::Latest)]), NONE, "all charges may have been lost");
    let later = Loss { from: 2_000_000, to: 2_000_001, extent: Extent::All };
    assert_eq!(rules(0, &[later]), NONE, "the loss was after the last call");
}

#[test]
fn an_older_state_of_a_replica_is_accepted() {
    let mut sim = Simulation::new(Family::Bucket);
    (0..4).for_each(|_| sim.check(10_000, 1));
    let replicated = sim.state.clone();
    (0..3).for_each(|_| sim.check(10_000, 1));
    sim.state = replicated;
    (0..5).for_each(|_| sim.check(10_000, 1));
    assert_eq!(sim.rules(&[]), [4]);
    assert_eq!(sim.rules(&[at_any_time(Extent::Latest)]), NONE);
}

#[test]
fn a_clock_step_breaks_no_rule() {
    for family in Family::BUSY {
        for ahead in [true, false] {
            let mut sim = Simulation::new(family);
            (0..20).for_each(|_| sim.check(10_000, 1));
            sim.lead = if ahead { sim.lead + 3_600_000_000 } else { sim.lead - 3_600_000_000 };
            (0..400).for_each(|_| sim.check(10_000, 1));
            assert_eq!(sim.rules(&[at_any_time(Extent::Latest)]), NONE, "{family:?} {ahead}");
        }
    }
}
