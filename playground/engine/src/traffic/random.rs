//! Random numbers that every machine draws alike.

/// A generator of random numbers from a seed.
#[derive(Clone)]
pub(crate) struct Random(fastrand::Rng);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// A number of this range, both ends included.
    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        self.0.u64(least..=most.max(least))
    }

    /// A time that is exponentially distributed around this mean. It only compares numbers, because logarithms differ between machines.
    ///
    /// Source: von Neumann, Various techniques used in connection with random digits (1951).
    pub(crate) fn exponential(&mut self, mean: u64) -> u64 {
        let mut whole = 0_u64;
        loop {
            let first = self.0.u64(..);
            let (mut last, mut run) = (first, 1_u32);
            loop {
                let next = self.0.u64(..);
                if next >= last {
                    break;
                }
                (last, run) = (next, run + 1);
            }
            if run % 2 == 1 {
                let fraction = u64::try_from((u128::from(mean) * u128::from(first)) >> 64).unwrap_or(mean);
                return whole.saturating_mul(mean).saturating_add(fraction);
            }
            whole += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_times_have_their_mean_and_shape() {
        let mut random = Random::new(7);
        let times: Vec<u64> = (0..20_000).map(|_| random.exponential(1_000)).collect();
        let mean = times.iter().sum::<u64>() / 20_000;
        assert!((970..=1_030).contains(&mean), "{mean}");
        // One of e is longer than the mean.
        let longer = times.iter().filter(|time| **time > 1_000).count();
        assert!((7_100..=7_600).contains(&longer), "{longer}");
    }
}
