//! Arrivals in virtual time, the same on every run.

use portcullis_bench::unit;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng as _;

/// The pattern in which a client sends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pattern {
    /// Each request is independent of all others.
    Poisson,
    /// Idle nine tenths of the time; in between, for a tenth of a period on average, at ten times the rate.
    Bursty,
}

/// The instants, in microseconds, at which one client sends: ascending and without end.
#[derive(Debug)]
pub(crate) struct Arrivals {
    random: Pcg64Mcg,
    now: f64,
    /// The mean time between two requests while the client sends.
    gap: f64,
    /// How long the client keeps sending, and the mean of that; `None` if it never pauses.
    burst: Option<(f64, f64)>,
}

impl Arrivals {
    /// A client that sends `rate` requests per `period` microseconds on average, from a random instant on.
    pub(crate) fn new(pattern: Pattern, rate: f64, period: f64, seed: u64) -> Self {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let now = START + period * unit(&mut random);
        let (gap, mean) = match pattern {
            Pattern::Poisson => (period / rate, None),
            Pattern::Bursty => (period / rate / PEAK, Some(period / PEAK)),
        };
        let burst = mean.map(|mean| (exponential(&mut random, mean), mean));
        Self { random, now, gap, burst }
    }
}

impl Iterator for Arrivals {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let mut gap = exponential(&mut self.random, self.gap);
        if let Some((left, mean)) = &mut self.burst {
            // The exponential distribution is memoryless: after a pause, the rest of a gap is distributed like a whole gap.
            while gap > *left {
                self.now += *left + exponential(&mut self.random, (PEAK - 1.0) * *mean);
                *left = exponential(&mut self.random, *mean);
                gap = exponential(&mut self.random, self.gap);
            }
            *left -= gap;
        }
        self.now += gap;
        Some(self.now as u64)
    }
}

fn exponential(random: &mut Pcg64Mcg, mean: f64) -> f64 {
    -mean * unit(random).ln()
}

/// The ratio of a bursty client's peak rate to its average rate, and of its mean cycle to its mean burst.
const PEAK: f64 = 10.0;
/// The start of a day.
const START: f64 = 20_000.0 * 86_400e6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_send_at_the_given_rate() {
        for pattern in [Pattern::Poisson, Pattern::Bursty] {
            let (mut requests, mut periods) = (0.0, 0.0);
            for seed in 0..200 {
                let mut arrivals = Arrivals::new(pattern, 100.0, 1e6, seed);
                let (first, last) = (arrivals.next().unwrap(), arrivals.nth(3_999).unwrap());
                requests += 4_000.0;
                periods += (last - first) as f64 / 1e6;
            }
            let rate = requests / periods;
            assert!((97.0..103.0).contains(&rate), "{pattern:?}: {rate} per period");
        }
    }

    #[test]
    fn the_same_seed_is_the_same_traffic() {
        let first = |seed| Arrivals::new(Pattern::Bursty, 10.0, 1e6, seed).take(50).collect::<Vec<_>>();
        assert_eq!(first(7), first(7));
        assert_ne!(first(7), first(8));
        assert!(first(7).is_sorted());
    }
}
