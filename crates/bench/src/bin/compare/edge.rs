//! The maximum that a client gets admitted if it knows the algorithm and times its requests.

use portcullis_core::{Strategy, Timestamp};

use crate::contenders::{CONTENDERS, Contender, LIMIT, PERIOD};
use crate::table::{Table, digits};

/// The maximum that a greedy client got admitted, as a multiple of the limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Burst {
    pub(crate) contender: Contender,
    /// Within a hundredth of a period, as at the edge of a window.
    pub(crate) at_once: f64,
    /// Within any one period.
    pub(crate) in_a_period: f64,
    /// Within any one period, counting delayed requests when their delay ends.
    pub(crate) released: f64,
}

pub(crate) fn measure() -> Vec<Burst> {
    CONTENDERS.iter().map(|contender| worst(*contender)).collect()
}

pub(crate) fn table(bursts: &[Burst]) -> Table {
    let title = "Most admitted to a greedy client, as a multiple of the limit, 100 per minute";
    let header = ["", "within 1 % of a period", "within any one period", "let out within one period"];
    let mut table = Table::new("bursts", title, &header);
    for burst in bursts {
        table.push(burst.contender.name, [burst.at_once, burst.in_a_period, burst.released].map(digits));
    }
    table
}

/// The client has been idle. It begins a little before an edge, at an edge, or in between, uses all units that it can get,
/// and retries for three periods.
fn worst(contender: Contender) -> Burst {
    let strategy = contender.strategy(LIMIT, PERIOD);
    let period = PERIOD.as_micros() as u64;
    let mut burst = Burst { contender, at_once: 0.0, in_a_period: 0.0, released: 0.0 };
    let multiple = |max: usize| max as f64 / f64::from(LIMIT);
    for before_edge in [1, period / 200, period / 20, period / 2, period] {
        let (admitted, released) = admitted(&strategy, 1_000 * period - before_edge, period);
        burst.at_once = burst.at_once.max(multiple(densest(&admitted, period / 100)));
        burst.in_a_period = burst.in_a_period.max(multiple(densest(&admitted, period)));
        burst.released = burst.released.max(multiple(densest(&released, period)));
    }
    burst
}

/// Returns the instants at which requests were admitted, and at which their delays ended.
fn admitted(strategy: &Strategy, begin: u64, period: u64) -> (Vec<u64>, Vec<u64>) {
    let (mut state, mut admitted, mut released) = (None, Vec::new(), Vec::new());
    let often = begin..begin + 3 * period;
    let edges = (998 * period..1_003 * period).step_by(period as usize / 10);
    let mut tries: Vec<_> = often.clone().step_by(period as usize / 2_000).collect();
    tries.extend(edges.filter(|edge| often.contains(edge)));
    tries.sort_unstable();
    for at in tries {
        let now = Timestamp::from_micros(at);
        while strategy.evaluate(state.as_ref(), now, 1).admitted {
            strategy.charge(&mut state, now, 1);
            let delay = strategy.snapshot(state.as_ref(), now, 1, true).delay;
            admitted.push(at);
            released.push(at + delay.as_micros() as u64);
        }
    }
    released.sort_unstable();
    (admitted, released)
}

/// The maximum number of instants within one interval `[t, t + length)`.
fn densest(instants: &[u64], length: u64) -> usize {
    let within = |first: usize| instants[first..].partition_point(|at| *at < instants[first] + length);
    (0..instants.len()).map(within).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contenders::named;

    #[test]
    fn an_interval_excludes_its_end() {
        assert_eq!(densest(&[0, 5, 9, 10, 11], 10), 4);
        assert_eq!(densest(&[], 10), 0);
    }

    #[test]
    fn only_windows_admit_two_limits_at_an_edge() {
        let burst = |name| worst(named(name));
        let fixed = burst("fixed window");
        assert_eq!((fixed.at_once, fixed.in_a_period), (2.0, 2.0));
        assert!(burst("token bucket").at_once < 1.05);
        assert!(burst("token bucket").in_a_period > 1.95);
        assert!(burst("leaky bucket").released < 1.05);
        let log = burst("sliding log");
        assert_eq!((log.at_once, log.in_a_period), (1.0, 1.0));
    }
}
