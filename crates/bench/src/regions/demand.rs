//! Where the requests of a key come from.

use std::f64::consts::TAU;

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng as _, SeedableRng as _};

use super::{SECOND, Setup, Span};

/// How active each region is, 1 on average over the day: a wave with the peaks of the regions spread over the day.
pub(super) fn activity(setup: &Setup, minute: u32) -> Vec<f64> {
    let regions = setup.regions as f64;
    let wave =
        |region: usize| 1.0 + SWING * (TAU * (f64::from(minute) / DAY - region as f64 / regions)).cos();
    (0..setup.regions).map(wave).collect()
}

/// Requests per second of the key with this rank, on average over the day: Zipf's law with exponent 1.
pub(super) fn rate(setup: &Setup, rank: u64) -> f64 {
    setup.rate / (rank as f64 * harmonic(setup.keys))
}

/// The kinds of keys. Each rank has one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nine of ten requests come from one region.
    Local(usize),
    /// The requests come from three regions.
    Three([usize; 3]),
    /// The requests come from all regions.
    Global,
}

impl Kind {
    /// Of ten keys six are local, three have three regions, and one is global.
    pub(super) fn of(setup: &Setup, rank: u64) -> Self {
        let mut random = Pcg64Mcg::seed_from_u64(rank);
        let region = (random.next_u64() % setup.regions as u64) as usize;
        match random.next_u64() % 10 {
            0..=5 => Self::Local(region),
            6..=8 => Self::three(setup, region),
            _ => Self::Global,
        }
    }

    pub(super) fn three(setup: &Setup, region: usize) -> Self {
        Self::Three([0, 1, 2].map(|third| (region + third * setup.regions / 3) % setup.regions))
    }

    /// The part of the key's requests that come from each region, 1 in sum.
    pub(super) fn parts(self, setup: &Setup) -> Vec<f64> {
        let even = 1.0 / setup.regions as f64;
        let mut parts = match self {
            Self::Local(_) => vec![even / 10.0; setup.regions],
            Self::Three(_) => vec![0.0; setup.regions],
            Self::Global => vec![even; setup.regions],
        };
        match self {
            Self::Local(region) => parts[region] += 0.9,
            Self::Three(regions) => regions.iter().for_each(|region| parts[*region] += 1.0 / 3.0),
            Self::Global => {}
        }
        parts
    }
}

/// The requests of a key in a span, in order: when and where.
#[derive(Debug)]
pub(super) struct Requests {
    random: Pcg64Mcg,
    at: f64,
    end: f64,
    /// Microseconds between two requests on average.
    gap: f64,
    /// Sums of the parts of the regions, 1 in the end.
    sums: Vec<f64>,
}

impl Requests {
    pub(super) fn new(setup: &Setup, rank: u64, span: &Span, activity: &[f64]) -> Self {
        let mut sums = Kind::of(setup, rank).parts(setup);
        let mut sum = 0.0;
        for (part, activity) in sums.iter_mut().zip(activity) {
            sum += *part * activity;
            *part = sum;
        }
        for part in &mut sums {
            *part /= sum;
        }
        let seed = rank << 16 | u64::from(span.minute) << 1 | u64::from(span.cut.is_some());
        Self {
            random: Pcg64Mcg::seed_from_u64(seed),
            at: 0.0,
            end: f64::from(span.windows) * setup.window_micros() as f64,
            gap: SECOND as f64 / (rate(setup, rank) * sum),
            sums,
        }
    }
}

impl Iterator for Requests {
    type Item = (u64, usize);

    fn next(&mut self) -> Option<Self::Item> {
        self.at -= crate::unit(&mut self.random).ln() * self.gap;
        let point = crate::unit(&mut self.random);
        let region = self.sums.iter().position(|sum| point <= *sum).unwrap_or(self.sums.len() - 1);
        (self.at < self.end).then_some((self.at as u64, region))
    }
}

/// The sum of 1/n up to this number.
pub(super) fn harmonic(number: u64) -> f64 {
    let number = number as f64;
    // Euler's constant and the first terms of the expansion: exact to 1e-3 for 1, and much better beyond.
    number.ln() + 0.577_215_664_901_532_9 + 0.5 / number - 1.0 / (12.0 * number * number)
}

/// At night a region has a tenth of its average requests, at its peak 1.9 times the average.
const SWING: f64 = 0.9;
/// Minutes.
const DAY: f64 = 1_440.0;
