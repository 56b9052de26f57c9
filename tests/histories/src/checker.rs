//! Checks the records of a store's callers against the guarantees that hold under all server faults.
//!
//! 1. The units admitted in any interval of real time are at most the sum of: what the policy allows, what refunds in that
//!    interval can have freed (only of charges that had not refilled yet), and one burst (limit) for every loss of state that
//!    the fault is known to cause.
//! 2. Every denial has a cause: the units that were or may have been charged, less those that were certainly freed, explain
//!    it. So a client below its rate is always allowed.
//! 3. The server's count is at least what was acknowledged, and exceeds it by at most what is in doubt. This covers both
//!    charges and refunds.
//! 4. In the order of the store's clock, with ties and doubtful charges tried both ways, each answer follows from the ones
//!    before by the arithmetic of the core, in every figure.
//! 5. For a policy with leases, instead of these: the units admitted in any interval are at most those of rule 1, plus the units
//!    that the processes have in lease when it begins. Neither the charges of leases nor their returns are recorded, so the other
//!    rules cannot be checked, but for the count of rule 3: it is at least what was acknowledged, and exactly that if no call has
//!    failed and all leases were returned.
//!    If other policies are checked together with it, the units of checks that are in progress then are in addition. The policies
//!    without a lease have the rules 1 to 4, where their keys are in the slot of the leased one (rule 4 unless the store's clock
//!    went back), and otherwise rule 1: the charges in one slot that another slot denies are refunded, which is not recorded.
//!    What a process admits by itself, while the servers fail, is at most its share of the policy, and is not a part of that.
//! 6. For requests in flight, instead of rules 1 to 4: at no instant more permits are certainly held than the limit, and one limit for
//!    every loss of state since the oldest of them was taken. The number of permits in every answer, also in every denial and of
//!    every renewal, is at least that of those certainly held and at most that of those that can be held, which is within a lease of
//!    when they were last taken or renewed. No permit is given twice, unless state was lost. When a lease has passed after the
//!    last call, no permit is held.
//! 7. For a key that is blocked, instead of rules 2 to 4: from the answer to a block until its end, or until something else is called that
//!    may end it, every check is denied, unless state was lost. Every denial by a block has a block that may have run and has not
//!    certainly ended.
//! 8. For a key whose quota is granted and revoked, and whose state is reset, instead of the rules 1 to 4: every answer has the limit
//!    of a grant that may have run and has not certainly ended, or that of the policy if no other is certainly granted. The units that
//!    are used are those that were charged since the last reset.
//! 9. A denial that a process has remembered is one of the same or a lower cost that it got from a server at most a second before, in an
//!    outage at most a minute before, and since which it has not corrected the key. Otherwise the rules 1 to 4 hold without these
//!    denials.

mod blocks;
mod bound;
mod cause;
mod clock;
mod count;
mod freed;
mod grants;
mod overrides;
mod permits;
mod remembered;
mod replay;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use self::clock::Clock;
use super::{Call, Family, KeyId, Op};

/// Everything that was recorded in a run.
#[derive(Clone, Copy, Debug)]
pub struct RunRecord<'a> {
    /// The operations of all processes, in any order.
    pub ops: &'a [Op],
    /// The times at which state may have been lost.
    pub losses: &'a [Loss],
    /// The server's final count for each key that was queried; for requests in flight, a lease after the last call.
    pub counted: &'a BTreeMap<KeyId, u64>,
}

/// One loss of state, at an unknown instant of an interval of real time, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The earliest instant.
    pub from: u64,
    /// The latest instant.
    pub to: u64,
    /// How much was lost.
    pub extent: Extent,
}

/// How much of the state was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All state.
    All,
    /// The latest writes, which a replica has not received; possibly none.
    Latest,
}

/// The results of the checker.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// The violations, at most a few per key.
    pub violations: Vec<Violation>,
    /// The largest excess of a key over what its policy allows, in percent of the burst (limit); each loss of state excuses
    /// a hundred.
    pub excess: u64,
    /// The most units that answered refunds and settlements can have freed, without units that had already refilled.
    pub freed: u64,
    /// The checks of each family with leases that were paid from leases.
    pub leased: BTreeMap<Family, usize>,
    /// The checks of leased policies, together with others, that were paid from leases and denied by the others.
    pub undone: usize,
    /// The checks of each family with shares that processes have decided by themselves.
    pub local: BTreeMap<Family, usize>,
    /// The denials that processes have remembered.
    pub remembered: usize,
    /// The permits that were taken, and those that renewals have found.
    pub permits: u64,
    /// See [`permits`](Self::permits).
    pub renewed: u64,
    /// The checks that were denied by a block.
    pub blocked: usize,
    /// The checks under the limit of a grant, and the resets that were answered.
    pub granted: usize,
    /// See [`granted`](Self::granted).
    pub resets: usize,
    /// The keys whose answers were reproduced by the core.
    pub replayed: usize,
    /// The keys with too many calls in doubt to decide.
    pub unclear: usize,
}

/// A violation of a rule.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The number of the rule, from 1 to 9.
    pub rule: u8,
    /// The key.
    pub key_id: KeyId,
    /// A description.
    pub what: String,
    /// The operations of the key around the violation.
    pub around: Vec<String>,
}

/// Checks a run against the rules.
pub fn check(record: &RunRecord<'_>) -> Findings {
    let mut by_key: BTreeMap<KeyId, Vec<&Op>> = BTreeMap::new();
    for op in record.ops {
        by_key.entry(op.key_id).or_default().push(op);
    }
    let mut findings = Findings::default();
    let unanswered: Vec<&Op> = record.ops.iter().filter(|op| remembered::is_unanswered(op)).collect();
    let has_failed = record.ops.iter().any(count::has_failed);
    for (key_id, mut ops) in by_key {
        ops.sort_by_key(|op| (op.invoked, op.completed));
        let (first, last) = (ops[0].invoked, ops.iter().map(|op| op.completed).max().unwrap_or_default());
        let losses: Vec<Loss> =
            record.losses.iter().copied().filter(|loss| loss.to >= first && loss.from <= last).collect();
        if key_id.family == Family::Remembered {
            findings.violations.extend(remembered::check(key_id, &ops, &unanswered));
            let before = ops.len();
            ops.retain(|op| !op.is_remembered());
            findings.remembered += before - ops.len();
        }
        if Family::LOCAL.contains(&key_id.family) {
            *findings.local.entry(key_id.family).or_default() +=
                ops.iter().filter(|op| op.is_degraded()).count();
            findings.violations.extend(bound::check_local(key_id, &ops));
        }
        let (excess, violation) = match key_id.family {
            Family::InFlight => {
                findings.permits += ops.iter().map(|op| op.admitted()).sum::<u64>();
                findings.renewed += ops.iter().map(|op| permits::renewed(op)).sum::<u64>();
                permits::check(key_id, &ops, &losses, record.counted.get(&key_id).copied())
            }
            Family::Granted => {
                let own = key_id.family.quota().limit();
                findings.granted +=
                    ops.iter().filter(|op| op.answer().is_some_and(|it| it.limit != own)).count();
                findings.resets += ops.iter().filter(|op| op.call == Call::Reset && op.is_answered()).count();
                (0, grants::check(key_id, &ops, &losses))
            }
            _ => bound::check(key_id, &ops, &losses),
        };
        findings.excess = findings.excess.max((excess * 100).div_ceil(key_id.family.capacity()));
        findings.violations.extend(violation);
        if key_id.family.max_lease() > 0 {
            *findings.leased.entry(key_id.family).or_default() +=
                ops.iter().filter(|op| op.is_leased()).count();
            let is_undone = |op: &&&Op| op.is_leased() && op.answer().is_some_and(|answer| !answer.charged);
            findings.undone += ops.iter().filter(is_undone).count();
        }
        if key_id.family == Family::MixedCount
            && let Some(counted) = record.counted.get(&key_id)
        {
            findings.violations.extend(count::check_leased(
                key_id,
                &ops,
                record.losses,
                *counted,
                has_failed,
            ));
        }
        if key_id.family == Family::Blocked {
            findings.blocked += ops.iter().filter(|op| op.answer().is_some_and(|it| it.blocked)).count();
            findings.violations.extend(blocks::check(key_id, &ops, &losses));
        }
        if !Family::EXACT.contains(&key_id.family) {
            continue;
        }
        findings.freed += ops
            .iter()
            .filter(|op| op.answer().is_some())
            .map(|op| freed::max_freed_units(key_id.family, op))
            .sum::<u64>();
        findings.violations.extend(cause::check(key_id, &ops, &losses));
        if let Some(counted) = record.counted.get(&key_id) {
            findings.violations.extend(count::check(key_id, &ops, record.losses, *counted));
        }
        // A check that is denied together with units for a lease is made again, with its own cost. Only the second answer is recorded,
        // and where the clock is behind the state, the first one has moved the state to an instant that is not known.
        if key_id.family == Family::MixedExact && Clock::of(&ops).goes_back() {
            continue;
        }
        match replay::check(key_id, &ops, &losses) {
            Ok(true) => findings.replayed += 1,
            Ok(false) => findings.unclear += 1,
            Err(violation) => findings.violations.push(violation),
        }
    }
    findings
}

impl Violation {
    /// Creates a violation with the operations of the key around the instant.
    fn at(rule: u8, key_id: KeyId, ops: &[&Op], instant: u64, what: String) -> Self {
        let middle = ops.partition_point(|op| op.invoked < instant);
        let shown = &ops[middle.saturating_sub(AROUND)..ops.len().min(middle + AROUND)];
        let around = shown.iter().map(|op| format!("process {}: {op}", op.process)).collect();
        Self { rule, key_id, what, around }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "rule {} is violated for {:?}: {}", self.rule, self.key_id, self.what)?;
        writeln!(
            f,
            "    key, call, invoked, completed, outcome (at charged by blocked position uncharged delay retry limit remaining reset next)"
        )?;
        self.around.iter().try_for_each(|line| writeln!(f, "    {line}"))
    }
}

/// The number of operations of a key that are shown before and after a violation.
const AROUND: usize = 12;

/// Whether state may have been lost between two instants.
fn is_lost(losses: &[Loss], from: u64, to: u64) -> bool {
    losses.iter().any(|loss| loss.to >= from && loss.from <= to)
}

/// The latest instant at which a call may have run: a server may run it after its caller has given up.
fn latest_run(op: &Op) -> u64 {
    if op.is_unknown() { op.completed.saturating_add(LATE) } else { op.completed }
}

/// The time after which a server has run all calls that it has received, unless it never will: longer than any fault lasts.
const LATE: u64 = 4_000_000;

/// The most that two clocks of a machine can diverge in `span` microseconds while one of them is slewed.
const fn drift(span: u64) -> u64 {
    1_000 + span / 1_000
}
