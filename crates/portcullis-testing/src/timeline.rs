//! Random timelines, and the first difference of two systems on one.
//!
//! A [`Timeline`] describes its steps relative to earlier answers: "a microsecond before the announced wait", "twice the
//! limit". It is therefore valid under any quota, covers the instants at which errors are likely, and stays valid when it
//! shrinks. [`compare`] runs a timeline on two systems and compares every field of every answer. [`explore`] generates
//! hundreds of timelines, shrinks the first with a difference, and requires a balanced mix of answers. [`agree`] combines
//! both for two systems that keep their state between timelines, and
//! [`under_every_algorithm!`](crate::under_every_algorithm) generates a test for each algorithm.
//!
//! ```
//! use portcullis_testing::timeline::{Profile, compare, explore};
//! use portcullis_testing::Pure;
//!
//! let runtime = tokio::runtime::Builder::new_current_thread().build()?;
//! let mix = explore(Profile::everything(), 10, 42, |timeline| {
//!     let (mut one, mut other) = (Pure::new(), Pure::new());
//!     runtime.block_on(compare(&mut one, &mut other, timeline))
//! })?;
//! assert!(mix.denied * 20 >= mix.steps);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod agree;
mod callers;
mod difference;
mod drive;
mod explore;
mod generate;
mod mix;
mod models;

use portcullis_core::{Policy, PolicyName, Timestamp};

use crate::oracle::Model;

pub use agree::{Comparison, agree};
pub use difference::Difference;
pub use drive::compare;
pub use explore::{Finding, explore, seed, steps};
pub use mix::Mix;

/// The parameters of generated timelines.
///
/// Steps are checks under one or several of up to three policies and three keys, with costs from 0 to more than can ever
/// fit, refunds and settlements (also of several charges at once, and long after the charges), renewals, and resets. Quotas range
/// from 1 per 30 days to 10 million per second; some policies allow another debt than the default. Under policies with quotas of single
/// callers the checks alternate between the smallest and the largest, as two instances would.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Profile {
    algorithm: Option<AlgorithmKind>,
    steps: usize,
    clock_steps: bool,
    quota_changes: bool,
}

/// An algorithm of the policies in a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Exhaustive: a test must not compile until it covers a new algorithm.
pub enum AlgorithmKind {
    /// The token bucket, with greedy and interval refill.
    TokenBucket,
    /// The generic cell rate algorithm.
    Gcra,
    /// The leaky bucket as a queue.
    LeakyBucket,
    /// The fixed window, with every kind of anchor.
    FixedWindow,
    /// The calendar window, with the [calendars](crate::calendars).
    CalendarWindow,
    /// The sliding window, with one slot and with many.
    SlidingWindow,
    /// The sliding log, with limits up to 2000.
    SlidingLog,
    /// The limit on requests in flight, whose permits are renewed as well.
    InFlight,
}

impl Profile {
    /// All algorithms, clock steps and quota changes, with up to 500 steps.
    pub fn everything() -> Self {
        Self { algorithm: None, steps: 500, clock_steps: true, quota_changes: true }
    }

    /// Restricts the policies to this algorithm.
    pub fn only(self, algorithm: AlgorithmKind) -> Self {
        Self { algorithm: Some(algorithm), ..self }
    }

    /// The algorithm that the policies are restricted to.
    pub fn algorithm(&self) -> Option<AlgorithmKind> {
        self.algorithm
    }

    /// Sets the maximum number of steps per timeline. The average is half of it.
    pub fn steps(self, steps: usize) -> Self {
        Self { steps, ..self }
    }

    /// Excludes steps of the clock, so that time never goes backwards.
    pub fn without_clock_steps(self) -> Self {
        Self { clock_steps: false, ..self }
    }

    /// Excludes changes of quotas, and quotas of single callers.
    pub fn without_quota_changes(self) -> Self {
        Self { quota_changes: false, ..self }
    }
}

/// A sequence of steps that are described relative to earlier answers.
#[derive(Clone, Debug)]
pub struct Timeline {
    models: Vec<Model>,
    start: Timestamp,
    steps: Vec<Step>,
}

impl Timeline {
    /// The names of the initial policies with their models.
    pub fn models(&self) -> impl Iterator<Item = (PolicyName, Model)> + '_ {
        NAMES.iter().map(|name| PolicyName::literal(name)).zip(self.models.iter().copied())
    }

    /// The number of steps.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether there are no steps.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    fn policies(&self) -> Vec<Policy> {
        self.models().map(|(name, model)| policy(&name, model)).collect()
    }
}

fn policy(name: &PolicyName, model: Model) -> Policy {
    model.policy(name).expect("only models that have a policy are generated")
}

#[derive(Clone, Debug)]
struct Step {
    timing: Timing,
    operation: Operation,
}

#[derive(Clone, Copy, Debug)]
enum Timing {
    AtOnce,
    /// An instant that an earlier decision announced and that has not passed, counted from the nearest, which is 0, plus
    /// an offset in microseconds.
    Announced {
        which: usize,
        after: i64,
    },
    /// Later by thousandths of the first policy's period.
    Later(u64),
    /// The clock steps, by microseconds.
    Step(i64),
    /// The clock steps, by quarters of the first policy's period and microseconds.
    StepByQuarters(i64, i64),
}

#[derive(Clone, Debug)]
enum Operation {
    /// Checks one policy, or all of them, each with its own amount.
    Check {
        key: usize,
        only: Option<usize>,
        amounts: [Amount; 3],
    },
    /// Refunds one receipt. Receipts are counted from the newest, which is 0.
    Refund {
        which: usize,
        with_current_quota: bool,
        if_newest: bool,
    },
    /// Settles one receipt, and keeps the receipt of what remains charged.
    Settle {
        which: usize,
        to: Amount,
        with_current_quota: bool,
    },
    /// Joins one receipt with at most `most` others of the same key and policy, the newest first.
    Join {
        which: usize,
        most: usize,
    },
    /// Refunds the oldest receipts, at most `most`.
    RefundOldest {
        most: usize,
    },
    /// Renews the permits of one receipt, which is kept.
    Renew {
        which: usize,
    },
    Reset {
        key: usize,
        policy: usize,
    },
    SetQuota {
        policy: usize,
        to: Model,
    },
}

/// A cost relative to the most units that fit at one instant.
#[derive(Clone, Copy, Debug)]
enum Amount {
    Peek,
    Units(u64),
    Sixteenths(u64),
    /// More than fits, by this number of units.
    TooMuch(u64),
    /// Several times what fits.
    Times(u64),
}

impl Amount {
    fn resolve(self, most: u64) -> u64 {
        match self {
            Self::Peek => 0,
            Self::Units(units) => units,
            Self::Sixteenths(parts) => (most * parts / 16).max(1),
            Self::TooMuch(more) => most.saturating_add(more),
            Self::Times(times) => most.saturating_mul(times),
        }
    }
}

const NAMES: [&str; 3] = ["p0", "p1", "p2"];
