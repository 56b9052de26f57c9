//! Rule 6: requests in flight.

use std::collections::BTreeMap;
use std::ptr;

use portcullis_core::Retry;
use portcullis_core::store::Run;

use super::super::{Call, KeyId, Op, Outcome};
use super::clock::Clock;
use super::{Loss, Violation, drift, is_lost, latest_run};

/// Returns the largest number of permits certainly held at once beyond the limit, and the first violation. `counted` are the permits
/// that are held when a lease has passed after the last call.
pub(super) fn check(
    key_id: KeyId,
    ops: &[&Op],
    losses: &[Loss],
    counted: Option<u64>,
) -> (u64, Option<Violation>) {
    let permits = Permits::new(key_id, ops, losses);
    let (excess, beyond) = permits.beyond_the_limit();
    let violation = beyond
        .or_else(|| permits.given_twice())
        .or_else(|| ops.iter().find_map(|op| permits.contradiction(op)))
        .or_else(|| {
            let counted = counted.filter(|counted| *counted > 0)?;
            let end = ops.last().map_or(0, |op| op.invoked);
            Some((end, format!("{counted} permits are held when a lease has passed after the last call")))
        });
    (excess, violation.map(|(instant, what)| Violation::at(6, key_id, ops, instant, what)))
}

/// The permits that a renewal has found.
pub(super) fn renewed(op: &Op) -> u64 {
    match (&op.call, &op.outcome) {
        (Call::Renew(_), Outcome::Done(held)) => *held,
        _ => 0,
    }
}

/// The epoch of a state, and a serial number in it.
type Id = (u64, u64);

struct Permits<'a> {
    limit: u64,
    /// In microseconds.
    lease: u64,
    ops: &'a [&'a Op],
    losses: &'a [Loss],
    clock: Clock,
    by_id: BTreeMap<Id, Calls<'a>>,
}

/// The calls that name a permit, in the order of their beginnings, without those that have not run.
#[derive(Default)]
struct Calls<'a> {
    taken: Vec<&'a Op>,
    renewed: Vec<&'a Op>,
    released: Vec<&'a Op>,
}

impl<'a> Permits<'a> {
    fn new(key_id: KeyId, ops: &'a [&'a Op], losses: &'a [Loss]) -> Self {
        let (limit, lease) = (key_id.family.capacity(), key_id.family.period());
        let mut by_id: BTreeMap<Id, Calls<'a>> = BTreeMap::new();
        for op in ops.iter().filter(|op| op.is_answered() || op.is_unknown()) {
            match &op.call {
                Call::Check(_) => taken_by(op).for_each(|id| by_id.entry(id).or_default().taken.push(op)),
                Call::Renew(runs) => {
                    ids(runs.iter().copied()).for_each(|id| by_id.entry(id).or_default().renewed.push(op));
                }
                Call::Settle(correction) => {
                    let runs = correction.refund().runs();
                    ids(runs).for_each(|id| by_id.entry(id).or_default().released.push(op));
                }
                _ => {}
            }
        }
        Self { limit, lease, ops, losses, clock: Clock::of(ops), by_id }
    }

    /// The largest excess of the permits certainly held at once, and where losses of state do not excuse one.
    fn beyond_the_limit(&self) -> (u64, Option<(u64, String)>) {
        let (mut excess, mut violation) = (0, None);
        for op in self.ops.iter().filter(|op| op.admitted() > 0) {
            let at = op.completed;
            let held = self.by_id.values().filter(|calls| self.is_in_use(calls, at));
            let (count, oldest) = held.fold((0, at), |(count, oldest), calls| {
                (count + 1, oldest.min(calls.taken.first().map_or(at, |op| op.invoked)))
            });
            excess = excess.max(u64::saturating_sub(count, self.limit));
            let losses = self.losses.iter().filter(|loss| loss.to >= oldest && loss.from <= at).count();
            let most = self.limit * (1 + losses as u64);
            if count > most && violation.is_none() {
                let what = format!(
                    "{count} permits are held at {at}, the oldest since {oldest}; the limit is {}, and there were {losses} \
                     losses of state since",
                    self.limit
                );
                violation = Some((at, what));
            }
        }
        (excess, violation)
    }

    /// Whether the caller that has taken a permit is certain that it has it: its lease has not ended, and it has not asked for its
    /// release.
    fn is_in_use(&self, calls: &Calls<'_>, at: u64) -> bool {
        let released = calls.released.first().is_some_and(|op| op.invoked <= at);
        let in_lease = |op: &&Op| op.completed <= at && self.certain_end(op) > at;
        let renewals = calls.renewed.iter().copied().filter(|op| has_found_all(op));
        calls.is_unique() && !released && calls.taken.iter().copied().chain(renewals).any(|op| in_lease(&op))
    }

    /// A permit that was given twice, although no state was lost in between.
    fn given_twice(&self) -> Option<(u64, String)> {
        self.by_id.iter().find_map(|((epoch, serial), calls)| {
            let twice =
                calls.taken.windows(2).find(|ops| !is_lost(self.losses, ops[0].invoked, ops[1].completed))?;
            Some((twice[1].invoked, format!("the permit {serial} of {epoch} was given twice")))
        })
    }

    /// Compares an answer with the permits that are certainly held when it is given, and with those that can be.
    fn contradiction(&self, op: &Op) -> Option<(u64, String)> {
        let (held, named) = match (&op.call, &op.outcome) {
            (Call::Renew(runs), Outcome::Done(held)) => {
                (*held, Some(ids(runs.iter().copied()).collect::<Vec<_>>()))
            }
            (_, Outcome::Answered(answer)) => (self.limit.saturating_sub(answer.remaining), None),
            _ => return None,
        };
        let is_named = |id: &Id| named.as_ref().is_none_or(|named| named.contains(id));
        let counted = || self.by_id.iter().filter(|(id, _)| is_named(id)).map(|(_, calls)| calls);
        let least = counted().filter(|calls| self.is_certain(calls, op)).count() as u64;
        let in_doubt = if named.is_none() { self.taken_in_doubt(op) } else { 0 };
        let most = counted().filter(|calls| self.is_possible(calls, op)).count() as u64 + in_doubt;
        if !(least..=most).contains(&held) {
            let what = format!(
                "`{}` was answered with {held} permits; {least} are certainly held, and {most} at most",
                op.call
            );
            return Some((op.invoked, what));
        }
        let (Call::Check(cost), Some(answer)) = (&op.call, op.answer()) else { return None };
        let is_denied = answer.retry == Some(Retry::Unknown);
        (is_denied && held + cost <= self.limit)
            .then(|| (op.invoked, format!("{cost} permits were denied while {held} are held")))
    }

    /// Whether a permit is held whenever `op` runs.
    fn is_certain(&self, calls: &Calls<'_>, op: &Op) -> bool {
        let proves = |taken: &&Op| {
            let is_before = taken.completed <= op.invoked || ptr::eq(*taken, op);
            let is_kept = !is_lost(self.losses, taken.invoked, op.completed);
            is_before && is_kept && self.certain_end(taken) > op.completed
        };
        let renewals = calls.renewed.iter().copied().filter(|op| has_found_all(op));
        let released = calls.released.iter().any(|released| released.invoked <= op.completed);
        calls.is_unique() && !released && calls.taken.iter().copied().chain(renewals).any(|op| proves(&op))
    }

    /// Whether a permit can be held when `op` runs.
    fn is_possible(&self, calls: &Calls<'_>, op: &Op) -> bool {
        let before = |other: &&Op| other.invoked <= op.completed && !ptr::eq(*other, op);
        let renewals = calls.renewed.iter().copied().filter(before);
        let renewals = renewals.filter(|op| op.is_unknown() || renewed(op) > 0);
        let taken = || calls.taken.iter().copied().filter(|taken| taken.invoked <= op.completed);
        let in_lease = taken().chain(renewals).any(|other| self.latest_end(other) >= op.invoked);
        let since = taken().map(|taken| taken.completed).max().unwrap_or_default();
        in_lease && !calls.released.iter().any(|released| self.has_ended(released, since, op))
    }

    /// Whether a release has certainly run after the instant `since` and before `op`, and was not undone.
    fn has_ended(&self, released: &Op, since: u64, op: &Op) -> bool {
        let is_between =
            released.invoked >= since && (released.completed <= op.invoked || ptr::eq(released, op));
        // A release after the lease changes nothing, and a step of the clock makes the permit count again.
        let mut steps = self.clock.steps();
        let is_stepped = steps.any(|step| step >= released.invoked && step <= op.completed);
        let is_undone = is_stepped || is_lost(self.losses, released.invoked, op.completed);
        released.is_answered() && is_between && !is_undone
    }

    /// The permits in doubt that can be held when `op` runs.
    fn taken_in_doubt(&self, op: &Op) -> u64 {
        let others = self.ops.iter().filter(|other| other.is_unknown() && other.invoked <= op.completed);
        others.filter(|other| self.latest_end(other) >= op.invoked).map(|other| other.doubtful()).sum()
    }

    /// The instant until which a permit that `op` has taken or renewed certainly does not expire, by the callers' clock.
    fn certain_end(&self, op: &Op) -> u64 {
        op.invoked + self.lease - drift(self.lease)
    }

    /// The instant after which a permit that `op` has taken or renewed has certainly expired. A permit whose lease has ended may count
    /// again after a step of the clock, for one lease.
    fn latest_end(&self, op: &Op) -> u64 {
        let steps = self.clock.steps().filter(|step| op.invoked <= *step);
        steps.chain([latest_run(op)]).max().unwrap_or_default() + self.lease + drift(self.lease)
    }
}

impl Calls<'_> {
    /// Whether the permit was given once. After a loss of state it may be given again, and each of its holders can release it.
    fn is_unique(&self) -> bool {
        self.taken.len() == 1
    }
}

/// The permits that a check has taken.
fn taken_by(op: &Op) -> impl Iterator<Item = Id> {
    let run = op.answer().map(|answer| Run { units: op.admitted(), position: answer.position });
    ids(run.into_iter())
}

/// The permits of runs: a position has the serial number of the last one.
fn ids(runs: impl Iterator<Item = Run>) -> impl Iterator<Item = Id> {
    runs.flat_map(|run| {
        (0..run.units).map(move |before| (run.position.micros, run.position.remainder.saturating_sub(before)))
    })
}

/// Whether a renewal has found all its permits.
fn has_found_all(op: &Op) -> bool {
    let Call::Renew(runs) = &op.call else { return false };
    op.is_answered() && renewed(op) == runs.iter().map(|run| run.units).sum::<u64>()
}
