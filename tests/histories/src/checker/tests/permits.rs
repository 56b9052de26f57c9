//! Rule 6: correct histories of permits, and histories of stores with a defect.

use portcullis_core::algorithm::{Algorithm as _, Permits};
use portcullis_core::store::Refund;
use portcullis_core::{InFlight, Strategy};

use super::super::super::Answer;
use super::*;

const LIMIT: u64 = 4;
const LEASE: u64 = 1_500_000;

/// A store with one key, and the record of its calls.
struct Server {
    in_flight: InFlight,
    state: Option<Permits>,
    lead: u64,
    now: u64,
    ops: Vec<Op>,
    /// The runs of the permits that were taken.
    taken: Vec<Run>,
}

impl Server {
    fn new() -> Self {
        let policy = Family::InFlight.policy();
        let Strategy::InFlight(in_flight) = *policy.strategy() else { panic!("the family has permits") };
        let (lead, now) = (1_767_225_600_000_000, 1_000_000);
        Self { in_flight, state: None, lead, now, ops: Vec::new(), taken: Vec::new() }
    }

    fn at(&self) -> Timestamp {
        Timestamp::from_micros(self.now + self.lead)
    }

    fn answer(&self, cost: u64, fits: bool) -> Answer {
        let snapshot = self.in_flight.snapshot(self.state.as_ref(), self.at(), cost, fits);
        let answer = Answer::new(&Decision::new(&Family::InFlight.policy(), self.at(), snapshot), fits);
        let position = self.in_flight.position(self.state.as_ref(), self.at());
        Answer { position: if fits && cost > 0 { position } else { Position::default() }, ..answer }
    }

    /// Runs a call, whose reply is lost if `is_lost`.
    fn call(&mut self, after: u64, call: Call, is_lost: bool) {
        self.now += after;
        let at = self.at();
        let outcome = match &call {
            Call::Check(cost) => {
                let evaluation = self.in_flight.evaluate(self.state.as_ref(), at, *cost);
                let fits = evaluation.admitted;
                if fits && *cost > 0 {
                    self.in_flight.charge(&mut self.state, at, *cost);
                } else if evaluation.repair {
                    self.in_flight.advance(&mut self.state, at);
                }
                let answer = self.answer(*cost, fits);
                if fits && *cost > 0 && !is_lost {
                    self.taken.push(Run { units: *cost, position: answer.position });
                }
                Outcome::Answered(answer)
            }
            Call::Settle(correction) => {
                self.in_flight.refund(&mut self.state, at, correction.refund());
                Outcome::Answered(self.answer(0, true))
            }
            Call::Renew(runs) => Outcome::Done(self.in_flight.renew(&mut self.state, at, runs).held),
            _ => panic!("permits have no overrides"),
        };
        let outcome = if is_lost { Outcome::Unknown(Failure::TimedOut) } else { outcome };
        self.record(call, outcome);
    }

    fn record(&mut self, call: Call, outcome: Outcome) {
        let key_id = KeyId { rotation: 0, family: Family::InFlight, caller: 0 };
        let (invoked, completed) = (self.now - 300, self.now + 200);
        self.ops.push(Op { process: 0, key_id, call, invoked, completed, outcome });
    }

    fn take(&mut self, after: u64, cost: u64) {
        self.call(after, Call::Check(cost), false);
    }

    fn release(&mut self, after: u64, index: usize) {
        self.call(after, release(self.taken[index]), false);
    }

    fn renew(&mut self, after: u64, index: usize) {
        self.call(after, Call::Renew(vec![self.taken[index]]), false);
    }

    /// Takes, renews and releases at random, `lost` of the calls in percent without a reply. Permits may be released twice, or late,
    /// or never.
    fn random(seed: u64, lost: u64) -> Self {
        let (mut server, mut random) = (Self::new(), Rng::with_seed(seed));
        for _ in 0..300 {
            let after = 1_000 + random.u64(..200_000);
            let index = random.usize(..8);
            let run = server.taken.iter().rev().nth(index).copied();
            let call = match (random.u64(..3), run) {
                (0, Some(run)) => release(run),
                (1, Some(run)) => Call::Renew(vec![run]),
                _ => Call::Check(random.u64(..3)),
            };
            let is_lost = random.u64(..100) < lost;
            server.call(after, call, is_lost);
        }
        server
    }

    fn findings(&self, losses: &[Loss], counted: u64) -> Findings {
        let counted = BTreeMap::from([(self.ops[0].key_id, counted)]);
        check(&RunRecord { ops: &self.ops, losses, counted: &counted })
    }

    fn rules(&self, losses: &[Loss]) -> Vec<u8> {
        self.findings(losses, 0).rules()
    }
}

fn release(run: Run) -> Call {
    Call::Settle(Correction { to: 0, charged: run.units, runs: vec![run] })
}

#[test]
fn a_correct_store_of_permits_breaks_no_rule() {
    for seed in 0..100 {
        for lost in [0, 10] {
            let findings = Server::random(seed, lost).findings(&[], 0);
            assert!(findings.violations.is_empty(), "{seed} {}", findings.violations[0]);
            assert!(findings.permits > 10 && findings.renewed > 0 && findings.excess == 0, "{seed}");
        }
    }
}

#[test]
fn one_permit_above_the_limit_is_noticed() {
    let mut server = Server::new();
    (0..LIMIT).for_each(|_| server.take(1_000, 1));
    server.state = None;
    server.take(1_000, 1);
    assert_eq!(server.rules(&[]), [6]);
    assert_eq!(server.findings(&[], 0).excess, 25);
    assert_eq!(server.rules(&[at_any_time(Extent::All)]), NONE);
    let later = Loss { from: server.now + 10_000, to: server.now + 10_000, extent: Extent::All };
    assert_eq!(server.rules(&[later]), [6]);
}

#[test]
fn a_loss_excuses_one_limit_only() {
    let mut server = Server::new();
    for _ in 0..2 {
        server.state = None;
        (0..LIMIT).for_each(|_| server.take(1_000, 1));
    }
    assert_eq!(server.rules(&[at_any_time(Extent::All)]), NONE);
    server.state = None;
    server.take(1_000, 1);
    assert_eq!(server.rules(&[at_any_time(Extent::All)]), [6]);
    assert_eq!(server.rules(&[at_any_time(Extent::All); 2]), NONE);
}

#[test]
fn a_permit_that_ends_before_its_lease_is_noticed() {
    for (after, expected) in [(LEASE - 5_000, &[6][..]), (LEASE, &NONE)] {
        let mut server = Server::new();
        server.take(1_000, 1);
        server.state = None;
        server.take(after, 0);
        assert_eq!(server.rules(&[]), expected, "{after}");
    }
}

#[test]
fn a_permit_that_outlives_its_lease_is_noticed() {
    for (after, expected) in [(LEASE, &NONE[..]), (LEASE + 5_000, &[6])] {
        let mut server = Server::new();
        server.take(1_000, 1);
        server.now += after;
        server.lead -= after;
        server.take(0, 0);
        // The clocks differ now, which is a step; without its instants the permit was held for too long.
        let Outcome::Answered(answer) = &mut server.ops[1].outcome else { panic!("the reply is not lost") };
        answer.at += after;
        assert_eq!(server.rules(&[]), expected, "{after}");
    }
}

#[test]
fn a_renewal_extends_a_permit_by_a_lease() {
    let mut server = Server::new();
    server.take(1_000, 1);
    server.renew(LEASE / 2, 0);
    server.take(LEASE * 3 / 4, 0);
    assert_eq!(server.rules(&[]), NONE);
    server.ops.remove(1);
    assert_eq!(server.rules(&[]), [6], "without the renewal the permit has expired");
}

#[test]
fn a_renewal_that_misses_a_held_permit_is_noticed() {
    let mut server = Server::new();
    server.take(1_000, 1);
    server.renew(10_000, 0);
    server.ops[1].outcome = Outcome::Done(0);
    assert_eq!(server.rules(&[]), [6]);
}

#[test]
fn a_renewal_of_a_permit_that_is_gone_is_noticed() {
    let mut released = Server::new();
    released.take(1_000, 1);
    released.release(10_000, 0);
    released.renew(10_000, 0);
    let mut expired = Server::new();
    expired.take(1_000, 1);
    expired.renew(LEASE + 10_000, 0);
    for mut server in [released, expired] {
        assert_eq!(server.rules(&[]), NONE);
        server.ops.last_mut().unwrap().outcome = Outcome::Done(1);
        assert_eq!(server.rules(&[]), [6]);
    }
}

#[test]
fn a_denial_while_permits_are_free_is_noticed() {
    let mut server = Server::new();
    (0..=LIMIT).for_each(|_| server.take(1_000, 1));
    assert_eq!(server.ops.last().unwrap().admitted(), 0);
    assert_eq!(server.rules(&[]), NONE);
    for index in 0..4 {
        let mut fewer = Server { ops: server.ops.clone(), ..Server::new() };
        fewer.ops.remove(index);
        assert_eq!(fewer.rules(&[]), [6], "{index}");
        fewer
            .ops
            .insert(index, Op { outcome: Outcome::Unknown(Failure::TimedOut), ..server.ops[index].clone() });
        assert_eq!(fewer.rules(&[]), NONE, "{index}: a permit in doubt may be held");
    }
}

#[test]
fn a_release_without_effect_is_noticed() {
    let mut server = Server::new();
    server.take(1_000, 1);
    let before = server.state.clone();
    server.release(10_000, 0);
    server.take(10_000, 0);
    assert_eq!(server.rules(&[]), NONE);
    server.ops.pop();
    server.state = before;
    server.take(10_000, 0);
    assert_eq!(server.rules(&[]), [6]);
    assert_eq!(server.rules(&[at_any_time(Extent::Latest)]), NONE, "the release may have been lost");
}

#[test]
fn a_release_of_another_permit_is_noticed() {
    let mut server = Server::new();
    server.take(1_000, 1);
    server.take(1_000, 1);
    let other = [server.taken[1]];
    server.release(1_000, 0);
    server.in_flight.refund(
        &mut server.state,
        Timestamp::from_micros(server.now + server.lead),
        Refund::of(&other),
    );
    server.take(1_000, 0);
    assert_eq!(server.rules(&[]), [6]);
}

#[test]
fn a_permit_given_twice_needs_a_loss() {
    let mut server = Server::new();
    server.take(1_000, 1);
    let replicated = server.state.clone();
    server.take(1_000, 1);
    server.state = replicated;
    server.take(1_000, 1);
    assert_eq!(server.taken[1], server.taken[2]);
    assert_eq!(server.rules(&[]), [6]);
    // Each of the two holders releases the permit of both.
    server.release(1_000, 1);
    server.take(1_000, 0);
    assert_eq!(server.rules(&[at_any_time(Extent::Latest)]), NONE);
}

#[test]
fn a_permit_that_is_never_free_is_noticed() {
    let server = Server::random(1, 5);
    let violations = server.findings(&[], 1).violations;
    assert_eq!(violations.iter().map(|violation| violation.rule).collect::<Vec<_>>(), [6]);
}

#[test]
fn a_step_of_the_clock_breaks_no_rule_of_permits() {
    let hour = 3_600_000_000;
    for (seed, ahead) in (0..50).flat_map(|seed| [(seed, true), (seed, false)]) {
        let mut server = Server::random(seed, 5);
        let step = server.now;
        server.lead = if ahead { server.lead + hour } else { server.lead - hour };
        for _ in 0..100 {
            server.take(40_000, 1);
        }
        let loss = Loss { from: step - 1_000, to: step + 1_000, extent: Extent::Latest };
        assert_eq!(server.rules(&[loss]), NONE, "{seed} {ahead}");
        let last = server.ops.iter().rev().take(50).map(Op::admitted).sum::<u64>();
        assert!(last > 0, "permits are held for one lease after the step");
    }
}
