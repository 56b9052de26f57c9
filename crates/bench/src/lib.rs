//! Measures several cases against each other in one run.

use std::time::{Duration, Instant};

/// A case to measure: its name, and a closure that runs it a given number of times.
pub type Case<'a> = (&'a str, Box<dyn FnMut(u32) + 'a>);

/// Returns the median time of one iteration of each case, in nanoseconds, in the order of the cases.
///
/// The cases take turns, `rounds` times, so that other load on the machine affects all of them.
///
/// ```
/// let mut count = 0;
/// let medians = portcullis_bench::medians(&mut [("count", Box::new(|times| count += times))], 3, 10);
/// assert_eq!((medians.len(), count), (1, 40));
/// ```
pub fn medians(cases: &mut [Case<'_>], rounds: usize, times: u32) -> Vec<f64> {
    let mut measured = vec![Vec::with_capacity(rounds); cases.len()];
    for round in 0..=rounds {
        for ((_, run), measured) in cases.iter_mut().zip(&mut measured) {
            let start = Instant::now();
            run(times);
            // The first round warms the caches.
            if round > 0 {
                measured.push(start.elapsed());
            }
        }
    }
    measured
        .into_iter()
        .map(|times_taken| median(times_taken).as_secs_f64() * 1e9 / f64::from(times))
        .collect()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
