//! Runs many timelines and shrinks the first with a difference.

use std::cell::RefCell;
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

use super::generate::timelines;
use super::{Difference, Mix, Profile, Timeline};

/// Runs `test` on timelines until one shows a difference, and shrinks that one. Without a difference, at least 5 % of all
/// steps must be allow, deny, never and peek each, and at least half of the steps must be near an announced instant.
///
/// The same seed generates the same timelines. `test` also runs on shrunk timelines, so it must start with fresh systems,
/// or use [`compare`](super::compare), which takes fresh keys.
///
/// # Errors
///
/// If there is a difference, or the mix of steps is not balanced. The error contains the seed.
pub fn explore(
    profile: Profile,
    timelines_to_run: u32,
    seed: u64,
    test: impl FnMut(&Timeline) -> Result<Mix, Difference>,
) -> Result<Mix, Box<Finding>> {
    let test = RefCell::new(test);
    let mix = RefCell::new(Mix::default());
    let config = Config {
        cases: timelines_to_run,
        failure_persistence: None,
        max_shrink_iters: MAX_SHRINK_ITERATIONS,
        ..Config::default()
    };
    let mut bytes = *b"portcullis: seed";
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::XorShift, &bytes));
    let result = runner.run(&timelines(profile), |timeline| {
        let found = (*test.borrow_mut())(&timeline).map_err(|_| TestCaseError::fail("a difference"))?;
        *mix.borrow_mut() += found;
        Ok(())
    });
    let what = match result {
        Ok(()) => match mix.borrow().imbalance() {
            None => return Ok(*mix.borrow()),
            Some(imbalance) => imbalance,
        },
        Err(TestError::Fail(_, shortest)) => match (*test.borrow_mut())(&shortest) {
            Err(difference) => difference.to_string(),
            Ok(_) => format!("a difference that does not recur on {shortest:#?}"),
        },
        Err(TestError::Abort(reason)) => format!("the run was aborted: {reason}"),
    };
    Err(Box::new(Finding { seed, what }))
}

/// The number of random steps per algorithm that a test should run: the environment variable `PORTCULLIS_RANDOM_STEPS`,
/// else 10 000.
///
/// # Panics
///
/// If the variable is not a number from 1 000, below which a mix of steps is not balanced.
pub fn steps() -> u64 {
    let Ok(steps) = std::env::var("PORTCULLIS_RANDOM_STEPS") else { return 10_000 };
    let number = steps.parse().ok().filter(|steps| *steps >= 1_000);
    number.unwrap_or_else(|| panic!("PORTCULLIS_RANDOM_STEPS must be a number from 1000, not {steps:?}"))
}

/// The seed in the environment variable `PORTCULLIS_SEED`, or one derived from the current time.
pub fn seed() -> u64 {
    let chosen = std::env::var("PORTCULLIS_SEED").ok().and_then(|seed| seed.parse().ok());
    chosen.unwrap_or_else(|| {
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        u64::try_from(nanos & u128::from(u32::MAX)).unwrap_or(0)
    })
}

/// The result of a failed run, with the seed that repeats it.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("seed {seed} (PORTCULLIS_SEED={seed} repeats it): {what}")]
pub struct Finding {
    seed: u64,
    what: String,
}

impl Finding {
    /// The seed of the timelines.
    pub fn seed(&self) -> u64 {
        self.seed
    }
}

impl fmt::Debug for Finding {
    /// Prints the display form, for `unwrap`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

const MAX_SHRINK_ITERATIONS: u32 = 4_096;
