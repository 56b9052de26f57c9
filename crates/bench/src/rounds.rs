//! Interleaved rounds, and their statistics.

use std::convert::Infallible;
use std::time::Instant;

/// A case to measure: its name, and a closure that runs it a given number of times.
pub type Case<'a> = (&'a str, Box<dyn FnMut(u32) + 'a>);

/// A case that measures itself: each call is one round, and returns what was measured in it.
pub type Round<'a, T, E> = Box<dyn FnMut() -> Result<T, E> + 'a>;

/// Returns the median time of one iteration of each case, in nanoseconds, in the order of the cases.
///
/// The cases take turns, `rounds` times, as [`interleaved`] describes.
///
/// ```
/// let mut count = 0;
/// let medians = portcullis_bench::medians(&mut [("count", Box::new(|times| count += times))], 3, 10);
/// assert_eq!((medians.len(), count), (1, 40));
/// ```
pub fn medians(cases: &mut [Case<'_>], rounds: usize, times: u32) -> Vec<f64> {
    let mut runs: Vec<Round<'_, f64, Infallible>> = Vec::with_capacity(cases.len());
    for (_, run) in cases {
        runs.push(Box::new(move || {
            let start = Instant::now();
            run(times);
            Ok(start.elapsed().as_secs_f64() * 1e9 / f64::from(times))
        }));
    }
    let measured = interleaved(rounds, &mut runs).unwrap_or_else(|never| match never {});
    measured.into_iter().map(|figures| Spread::of(figures).median).collect()
}

/// Runs the cases in turns, so that other load on the machine affects all of them, and returns the figures of each case by
/// round.
///
/// There is one round more than `rounds`: the first warms caches, branch predictors and connections, and is dropped. Every other
/// round runs the cases in the opposite order, so that no case always follows the same one. The first error of a case ends the measurement.
///
/// ```
/// use portcullis_bench::{Round, interleaved};
///
/// let mut count = 0;
/// let mut cases: [Round<'_, u32, String>; 1] = [Box::new(|| {
///     count += 1;
///     Ok(count)
/// })];
/// assert_eq!(interleaved(3, &mut cases)?, [[2, 3, 4]]);
/// # Ok::<(), String>(())
/// ```
pub fn interleaved<T, E>(rounds: usize, cases: &mut [Round<'_, T, E>]) -> Result<Vec<Vec<T>>, E> {
    let mut measured: Vec<Vec<T>> = cases.iter().map(|_| Vec::with_capacity(rounds)).collect();
    for round in 0..=rounds {
        let mut order: Vec<usize> = (0..cases.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for index in order {
            let figure = cases[index]()?;
            if round > 0 {
                measured[index].push(figure);
            }
        }
    }
    Ok(measured)
}

/// The median of figures, and the range of the middle four fifths of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// A tenth of the figures is lower.
    pub low: f64,
    /// Half of the figures are lower.
    pub median: f64,
    /// A tenth of the figures is higher.
    pub high: f64,
}

impl Spread {
    /// The spread of `figures`, in any order; not a number if there are none.
    ///
    /// ```
    /// use portcullis_bench::Spread;
    ///
    /// let spread = Spread::of((0..=10).rev().map(f64::from).collect());
    /// assert_eq!(spread, Spread { low: 1.0, median: 5.0, high: 9.0 });
    /// ```
    pub fn of(mut figures: Vec<f64>) -> Self {
        figures.sort_by(f64::total_cmp);
        let last = figures.len().saturating_sub(1);
        let at = |tenths: usize| figures.get(last * tenths / 10).copied().unwrap_or(f64::NAN);
        Self { low: at(1), median: at(5), high: at(9) }
    }

    /// The spread of the quotients of two cases, round by round: what slows down a round affects both.
    ///
    /// ```
    /// use portcullis_bench::Spread;
    ///
    /// assert_eq!(Spread::of_ratio(&[1.0, 4.0, 9.0], &[1.0, 2.0, 3.0]).median, 2.0);
    /// ```
    pub fn of_ratio(ours: &[f64], theirs: &[f64]) -> Self {
        Self::of(ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect())
    }
}
