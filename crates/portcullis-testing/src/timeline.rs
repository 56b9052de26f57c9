//! Random timelines, and the first decision in which two subjects differ on one.
//!
//! A [`Timeline`] says what happens in terms of what was answered before: "a microsecond before the wait that was announced",
//! "twice the limit". So it makes sense under any quota, goes where errors of one live, and still does when it is made
//! shorter. [`compare`] drives two subjects along it and compares every field of every answer; [`explore`] makes
//! timelines by the hundred, shortens the one on which something differs, and insists that they were worth it. [`agree`]
//! is both for two subjects that keep what they hold, and [`under_every_algorithm!`](crate::under_every_algorithm) makes a
//! test of it for each algorithm.
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
pub use explore::{Finding, explore, seed};
pub use mix::Mix;

/// What timelines are made of.
///
/// Steps are checks under one or several of up to three policies and three keys, with costs from 0 to beyond what can
/// ever fit, refunds and settlements (also of several charges at once, and long after the charges), and resets. Quotas go
/// from 1 per 30 days to 10 million per second.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Profile {
    algorithm: Option<AlgorithmKind>,
    steps: usize,
    clock_steps: bool,
    quota_changes: bool,
}

/// An algorithm that timelines can be about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlgorithmKind {
    /// A bucket of tokens, with either refill.
    TokenBucket,
    /// The generic cell rate algorithm.
    Gcra,
    /// A queue.
    LeakyBucket,
    /// A count per window, with every kind of anchor.
    FixedWindow,
    /// A count per slot, with one slot and with many.
    SlidingWindow,
    /// Every unit with its time: limits up to 2000.
    SlidingLog,
}

impl Profile {
    /// Every algorithm, clock steps and changes of quotas; up to 500 steps.
    pub fn everything() -> Self {
        Self { algorithm: None, steps: 500, clock_steps: true, quota_changes: true }
    }

    /// Only this algorithm.
    pub fn only(self, algorithm: AlgorithmKind) -> Self {
        Self { algorithm: Some(algorithm), ..self }
    }

    /// At most so many steps per timeline, half of that on average.
    pub fn steps(self, steps: usize) -> Self {
        Self { steps, ..self }
    }

    /// Time never goes backwards.
    pub fn without_clock_steps(self) -> Self {
        Self { clock_steps: false, ..self }
    }

    /// Quotas stay what they are.
    pub fn without_quota_changes(self) -> Self {
        Self { quota_changes: false, ..self }
    }
}

/// What happens, in terms of what was answered before.
#[derive(Clone, Debug)]
pub struct Timeline {
    models: Vec<Model>,
    start: Timestamp,
    steps: Vec<Step>,
}

impl Timeline {
    /// The policies at the start, and what is meant by each.
    pub fn models(&self) -> impl Iterator<Item = (PolicyName, Model)> + '_ {
        NAMES.iter().map(|name| PolicyName::literal(name)).zip(self.models.iter().copied())
    }

    /// How many steps it has.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether nothing happens.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    fn policies(&self) -> Vec<Policy> {
        self.models().map(|(name, model)| policy(name, model)).collect()
    }
}

fn policy(name: PolicyName, model: Model) -> Policy {
    Policy::new(name, model.strategy().expect("only models that have a strategy are generated"))
}

#[derive(Clone, Debug)]
struct Step {
    when: When,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum When {
    AtOnce,
    /// One of the instants that earlier decisions have announced and that are still to come, the nearest being 0, and
    /// how many microseconds after it.
    Announced {
        which: usize,
        after: i64,
    },
    /// Later by so many thousandths of the first policy's period.
    Later(u64),
    /// The clock steps, by microseconds.
    Step(i64),
    /// The clock steps, by quarters of the first policy's period and microseconds.
    StepByQuarters(i64, i64),
}

#[derive(Clone, Debug)]
enum What {
    /// Asks one policy, or each of them by its own amount.
    Check {
        key: usize,
        only: Option<usize>,
        amounts: [Amount; 3],
    },
    /// Refunds one receipt. Receipts are counted from the newest, which is 0.
    Refund {
        which: usize,
        under_the_present_quota: bool,
        if_newest: bool,
    },
    /// Settles one receipt, and keeps the receipt of what is charged then.
    Settle {
        which: usize,
        to: Amount,
        under_the_present_quota: bool,
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
    Reset {
        key: usize,
        policy: usize,
    },
    SetQuota {
        policy: usize,
        to: Model,
    },
}

/// A cost, in terms of the most that fits at once.
#[derive(Clone, Copy, Debug)]
enum Amount {
    Peek,
    Units(u32),
    Sixteenths(u32),
    /// So much more than fits.
    TooMuch(u32),
}

impl Amount {
    fn of(self, most: u32) -> u32 {
        match self {
            Self::Peek => 0,
            Self::Units(units) => units,
            Self::Sixteenths(parts) => {
                u32::try_from(u64::from(most) * u64::from(parts) / 16).expect("at most the whole").max(1)
            }
            Self::TooMuch(more) => most.saturating_add(more),
        }
    }
}

const NAMES: [&str; 3] = ["p0", "p1", "p2"];
