//! Holds what the callers of a store saw against what a store has to keep, whatever becomes of its servers.
//!
//! 1. The units admitted in any stretch of real time are at most what the policy promises, what refunds in that stretch
//!    can have freed of charges that had not flowed back, and once more the burst (limit) for every loss of state that the
//!    fault is known to cause.
//! 2. Every denial has a cause: what was or may have been charged, less what was certainly freed, adds up to it. So a
//!    client below its rate is always allowed.
//! 3. The server has counted no less than was acknowledged, and no more than that and what is in doubt, both of charges
//!    and of refunds.
//! 4. The answers in the order of the store's clock, ties and doubtful charges tried both ways, follow from each other
//!    by the arithmetic of the core, in every figure.

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

/// Everything that is known of a run.
#[derive(Clone, Copy, Debug)]
pub struct Books<'a> {
    /// What the callers saw, of all processes, in any order.
    pub ops: &'a [Op],
    /// When state may have been lost.
    pub losses: &'a [Loss],
    /// What the server has counted in the end, for every spot that was asked about.
    pub counted: &'a BTreeMap<KeyId, u64>,
}

/// State was lost, once, at some moment of a stretch of real time, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// No earlier than this.
    pub from: u64,
    /// No later than this.
    pub to: u64,
    /// How much is gone.
    pub extent: Extent,
}

/// How much of the state is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Everything.
    All,
    /// What was written last, which a replica has not received; maybe nothing.
    Latest,
}

/// What the checker found.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// Broken rules, at most a few of each key.
    pub violations: Vec<Violation>,
    /// The most that a key got beyond the promise of its policy, in percent of the burst (limit); a loss of state excuses
    /// a hundred.
    pub beyond: u64,
    /// Units that answered refunds and settlements have freed at most; units that had flowed back are not among them.
    pub freed: u64,
    /// Keys whose answers follow from each other.
    pub replayed: usize,
    /// Keys that have too much in doubt to tell.
    pub unclear: usize,
}

/// A rule that was broken.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Which, from 1 to 4.
    pub rule: u8,
    /// For whom.
    pub spot: KeyId,
    /// How.
    pub what: String,
    /// The operations around it.
    pub around: Vec<String>,
}

/// Holds the books against all four rules.
pub fn check(books: &Books<'_>) -> Findings {
    let mut by_spot: BTreeMap<KeyId, Vec<&Op>> = BTreeMap::new();
    for op in books.ops {
        by_spot.entry(op.spot).or_default().push(op);
    }
    let mut findings = Findings::default();
    for (spot, mut ops) in by_spot {
        ops.sort_by_key(|op| (op.invoked, op.completed));
        let (first, last) = (ops[0].invoked, ops.iter().map(|op| op.completed).max().unwrap_or_default());
        let losses: Vec<Loss> =
            books.losses.iter().copied().filter(|loss| loss.to >= first && loss.from <= last).collect();
        let (beyond, broken) = bound::check(spot, &ops, &losses);
        findings.beyond = findings.beyond.max((beyond * 100).div_ceil(spot.family.most()));
        findings.violations.extend(broken);
        findings.freed += ops
            .iter()
            .filter(|op| op.answer().is_some())
            .map(|op| freed::most_units(spot.family, op))
            .sum::<u64>();
        findings.violations.extend(cause::check(spot, &ops, &losses));
        if let Some(counted) = books.counted.get(&spot) {
            findings.violations.extend(count::check(spot, &ops, books.losses, *counted));
        }
        match replay::check(spot, &ops, &losses) {
            Ok(true) => findings.replayed += 1,
            Ok(false) => findings.unclear += 1,
            Err(violation) => findings.violations.push(violation),
        }
    }
    findings
}

impl Violation {
    /// With the operations of the key that were under way around the instant.
    fn at(rule: u8, spot: KeyId, ops: &[&Op], instant: u64, what: String) -> Self {
        let middle = ops.partition_point(|op| op.invoked < instant);
        let shown = &ops[middle.saturating_sub(AROUND)..ops.len().min(middle + AROUND)];
        let around = shown.iter().map(|op| format!("process {}: {op}", op.process)).collect();
        Self { rule, spot, what, around }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "rule {} is broken for {:?}: {}", self.rule, self.spot, self.what)?;
        writeln!(
            f,
            "    spot, call, invoked, completed, outcome (at charged position uncharged retry limit remaining reset next)"
        )?;
        self.around.iter().try_for_each(|line| writeln!(f, "    {line}"))
    }
}

/// How many operations of a key are shown before and after a violation.
const AROUND: usize = 12;

/// By how much two clocks of a machine may run apart in so many microseconds, while one of them is slewed.
const fn drift(span: u64) -> u64 {
    1_000 + span / 1_000
}
