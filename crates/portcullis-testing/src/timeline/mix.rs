//! Whether the steps of timelines are balanced.

use std::fmt;
use std::ops::AddAssign;

use portcullis_core::{Receipt, Retry, Verdict};

use crate::Checked;

/// The outcomes of the steps of timelines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mix {
    /// All steps.
    pub steps: u64,
    /// Checks that were charged.
    pub allowed: u64,
    /// Checks that were denied with a wait.
    pub denied: u64,
    /// Checks with a cost that can never fit.
    pub never: u64,
    /// Checks in which every cost is 0.
    pub peeked: u64,
    /// Receipts that were refunded or settled.
    pub corrected: u64,
    /// Corrected receipts with more than one run.
    pub several_runs: u64,
    /// Steps within a microsecond of an instant that an earlier decision announced.
    pub announced: u64,
}

impl Mix {
    pub(super) fn count(&mut self, checked: &Checked, peek: bool) {
        *match checked.decision.verdict() {
            Verdict::Allow { .. } if peek => &mut self.peeked,
            Verdict::Allow { .. } => &mut self.allowed,
            Verdict::Deny(Retry::After(_) | Retry::Unknown) => &mut self.denied,
            Verdict::Deny(Retry::Never) => &mut self.never,
        } += 1;
    }

    pub(super) fn count_corrected(&mut self, receipt: &Receipt) {
        self.corrected += 1;
        self.several_runs += u64::from(receipt.runs().len() > 1);
    }

    /// Describes an outcome that is too rare for a useful test, if there is one.
    ///
    /// ```
    /// use portcullis_testing::timeline::Mix;
    ///
    /// assert!(Mix::default().imbalance().is_some());
    /// ```
    pub fn imbalance(&self) -> Option<String> {
        let Self { steps, allowed, denied, never, peeked, announced, .. } = *self;
        let shares = [
            ("allow", allowed, LEAST_OF_EACH),
            ("deny", denied, LEAST_OF_EACH),
            ("never", never, LEAST_OF_EACH),
            ("peek", peeked, LEAST_OF_EACH),
            ("near an announced instant", announced, LEAST_ANNOUNCED),
        ];
        let (what, count, least) =
            shares.into_iter().find(|(_, count, least)| steps == 0 || count * 100 < steps * least)?;
        Some(format!("only {count} of {steps} steps are \"{what}\", less than {least} %: {self}"))
    }

    /// Asserts that a run of at least `steps` steps has tested corrections: one receipt per 30 steps was refunded or settled,
    /// and one receipt with several runs per 400 steps. [`imbalance`](Mix::imbalance) does not include corrections.
    ///
    /// ```
    /// use portcullis_testing::timeline::Mix;
    ///
    /// let mut mix = Mix::default();
    /// (mix.corrected, mix.several_runs) = (34, 3);
    /// mix.assert_corrections(1_000);
    /// ```
    ///
    /// # Panics
    ///
    /// If there were fewer corrections.
    #[track_caller]
    pub fn assert_corrections(&self, steps: u64) {
        let enough = self.corrected * STEPS_PER_CORRECTION >= steps
            && self.several_runs * STEPS_PER_CORRECTION_OF_SEVERAL_RUNS >= steps;
        assert!(enough, "too few corrections in {steps} steps: {self}");
    }
}

impl AddAssign for Mix {
    fn add_assign(&mut self, other: Self) {
        self.steps += other.steps;
        self.allowed += other.allowed;
        self.denied += other.denied;
        self.never += other.never;
        self.peeked += other.peeked;
        self.corrected += other.corrected;
        self.several_runs += other.several_runs;
        self.announced += other.announced;
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |count: u64| count * 100 / self.steps.max(1);
        write!(
            f,
            "{} steps: {} % allow, {} % deny, {} % never, {} % peek; {} % near an announced instant; {} receipts refunded \
             or settled, {} of them with several runs",
            self.steps,
            percent(self.allowed),
            percent(self.denied),
            percent(self.never),
            percent(self.peeked),
            percent(self.announced),
            self.corrected,
            self.several_runs
        )
    }
}

const LEAST_OF_EACH: u64 = 5;
const LEAST_ANNOUNCED: u64 = 50;
const STEPS_PER_CORRECTION: u64 = 30;
const STEPS_PER_CORRECTION_OF_SEVERAL_RUNS: u64 = 400;
