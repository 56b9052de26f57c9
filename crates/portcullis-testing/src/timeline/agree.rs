//! Compares two systems that must give the same answers under every algorithm.

use std::pin::Pin;

use super::{Difference, Finding, Mix, Profile, compare, explore, seed};
use crate::subject::SystemUnderTest;

/// The future that runs one timeline on two systems.
pub type Comparison<'a> = Pin<Box<dyn Future<Output = Result<Mix, Difference>> + 'a>>;

/// Compares two systems for at least `steps` steps, on timelines of `profile` that each use their own keys. Prints the
/// [`seed`] and the mix of steps. `run` blocks on one comparison, in the runtime that the systems need.
///
/// ```
/// use portcullis_testing::Pure;
/// use portcullis_testing::timeline::{AlgorithmKind, Profile, agree};
///
/// let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// let profile = Profile::everything().only(AlgorithmKind::SlidingLog);
/// let (mut one, mut other) = (Pure::new(), Pure::new());
/// let mix = agree(profile, 2_000, &mut one, &mut other, |comparison| runtime.block_on(comparison))?;
/// assert!(mix.steps >= 2_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// Like [`explore`].
pub fn agree(
    profile: Profile,
    steps: u64,
    one: &mut dyn SystemUnderTest,
    other: &mut dyn SystemUnderTest,
    mut run: impl FnMut(Comparison<'_>) -> Result<Mix, Difference>,
) -> Result<Mix, Box<Finding>> {
    let seed = seed();
    println!("seed {seed}");
    let mut done = 0;
    let mix = explore(profile, timelines_for(steps, profile.steps), seed, |timeline| {
        if done >= steps {
            return Ok(Mix::default());
        }
        let mix = run(Box::pin(compare(&mut *one, &mut *other, timeline)))?;
        done += mix.steps;
        Ok(mix)
    })?;
    println!("{mix}");
    Ok(mix)
}

/// Generates a test that calls `$agree`, a function of a [`Profile`](crate::timeline::Profile), for each algorithm and for
/// all of them together, so that a store is tested alike under all of them.
///
/// ```
/// fn my_store_decides_like_the_algorithm(profile: portcullis_testing::timeline::Profile) {
///     // Runs `portcullis_testing::timeline::agree` on the profile.
/// #   let _ = profile;
/// }
///
/// portcullis_testing::under_every_algorithm!(my_store_decides_like_the_algorithm);
/// ```
#[macro_export]
macro_rules! under_every_algorithm {
    ($agree:path) => {
        $crate::under_every_algorithm! {
            $agree:
            under_the_token_bucket TokenBucket,
            under_gcra Gcra,
            under_the_leaky_bucket LeakyBucket,
            under_fixed_windows FixedWindow,
            under_calendar_windows CalendarWindow,
            under_sliding_windows SlidingWindow,
            under_the_sliding_log SlidingLog,
            under_limits_on_requests_in_flight InFlight,
        }

        #[test]
        fn under_several_algorithms_together() {
            $agree($crate::timeline::Profile::everything());
        }
    };
    ($agree:path: $($test:ident $algorithm:ident,)*) => {$(
        #[test]
        fn $test() {
            let profile = $crate::timeline::Profile::everything();
            $agree(profile.only($crate::timeline::AlgorithmKind::$algorithm));
        }
    )*};
}

/// Returns a number of timelines that very likely has enough steps: lengths are uniform up to the longest.
fn timelines_for(steps: u64, longest: usize) -> u32 {
    let expected = 2 * steps.div_ceil(u64::try_from(longest.max(1)).unwrap_or(u64::MAX));
    u32::try_from(expected + expected / 8 + SPARE).unwrap_or(u32::MAX)
}

const SPARE: u64 = 16;
