//! Arrivals in virtual time, the same on every run.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng as _, SeedableRng as _};

/// How a client sends, on average `load` times its limit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pattern {
    /// Each request whenever it comes, independent of all others.
    Poisson,
    /// Idle nine tenths of the time; between, for a tenth of a period on average, at ten times the rate.
    Bursty,
}

/// The instants, in microseconds, at which one client sends: ascending and without end.
#[derive(Debug)]
pub(crate) struct Arrivals {
    random: Pcg64Mcg,
    now: f64,
    /// The mean time between two requests while the client sends.
    gap: f64,
    /// How long it goes on sending, and the mean of that; none if it never pauses.
    spell: Option<(f64, f64)>,
}

impl Arrivals {
    /// A client that sends `rate` requests per `period` microseconds on average, from some instant of its own on.
    pub(crate) fn new(pattern: Pattern, rate: f64, period: f64, seed: u64) -> Self {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let now = START + period * unit(&mut random);
        let (gap, mean) = match pattern {
            Pattern::Poisson => (period / rate, None),
            Pattern::Bursty => (period / rate / PEAK, Some(period / PEAK)),
        };
        let spell = mean.map(|mean| (exponential(&mut random, mean), mean));
        Self { random, now, gap, spell }
    }
}

impl Iterator for Arrivals {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let mut gap = exponential(&mut self.random, self.gap);
        if let Some((left, mean)) = &mut self.spell {
            // The exponential distribution has no memory: what is left of a gap when the client goes on is a gap.
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

/// More than 0, at most 1.
fn unit(random: &mut Pcg64Mcg) -> f64 {
    ((random.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
}

fn exponential(random: &mut Pcg64Mcg, mean: f64) -> f64 {
    -mean * unit(random).ln()
}

/// How much faster than its average a bursty client sends, and how much longer it pauses.
const PEAK: f64 = 10.0;
/// Some instant with whole days before it.
const START: f64 = 20_000.0 * 86_400e6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_send_at_the_rate_they_were_asked_to() {
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
