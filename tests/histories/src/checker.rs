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
//!    rules cannot be checked.

mod bound;
mod cause;
mod clock;
mod count;
mod freed;
mod replay;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use super::{KeyId, Op};

/// Everything that was recorded in a run.
#[derive(Clone, Copy, Debug)]
pub struct RunRecord<'a> {
    /// The operations of all processes, in any order.
    pub ops: &'a [Op],
    /// The times at which state may have been lost.
    pub losses: &'a [Loss],
    /// The server's final count for each key that was queried.
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
    /// The checks that were paid from leases.
    pub leased: usize,
    /// The keys whose answers were reproduced by the core.
    pub replayed: usize,
    /// The keys with too many calls in doubt to decide.
    pub unclear: usize,
}

/// A violation of a rule.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The number of the rule, from 1 to 5.
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
    for (key_id, mut ops) in by_key {
        ops.sort_by_key(|op| (op.invoked, op.completed));
        let (first, last) = (ops[0].invoked, ops.iter().map(|op| op.completed).max().unwrap_or_default());
        let losses: Vec<Loss> =
            record.losses.iter().copied().filter(|loss| loss.to >= first && loss.from <= last).collect();
        let (excess, violation) = bound::check(key_id, &ops, &losses);
        findings.excess = findings.excess.max((excess * 100).div_ceil(key_id.family.capacity()));
        findings.violations.extend(violation);
        findings.leased += ops.iter().filter(|op| op.is_leased()).count();
        if key_id.family.max_lease() > 0 {
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
            "    key, call, invoked, completed, outcome (at charged leased position uncharged delay retry limit remaining reset next)"
        )?;
        self.around.iter().try_for_each(|line| writeln!(f, "    {line}"))
    }
}

/// The number of operations of a key that are shown before and after a violation.
const AROUND: usize = 12;

/// The most that two clocks of a machine can diverge in `span` microseconds while one of them is slewed.
const fn drift(span: u64) -> u64 {
    1_000 + span / 1_000
}
