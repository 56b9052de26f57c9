//! Random pauses, so that many processes do not act at the same instant.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::time::Duration;

/// Returns a pause between half and one and a half times `mean`.
pub(crate) fn around(mean: Duration) -> Duration {
    // Every new `RandomState` has another key, which is random enough for a pause.
    let chance = RandomState::new().hash_one(()) % 1_000;
    mean / 2 + mean * u32::try_from(chance).unwrap_or_default() / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_spread_over_half_to_one_and_a_half() {
        let mean = Duration::from_millis(100);
        let pauses: Vec<_> = (0..1_000).map(|_| around(mean)).collect();
        assert!(pauses.iter().all(|pause| (mean / 2..mean * 3 / 2).contains(pause)));
        assert!(pauses.iter().any(|pause| *pause < mean * 3 / 4));
        assert!(pauses.iter().any(|pause| *pause > mean * 5 / 4));
    }
}
