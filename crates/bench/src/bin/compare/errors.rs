//! How often an algorithm is wrong, compared with an exact log.
//!
//! The log keeps every unit that *this* limiter has admitted. A request is wrongly allowed if it is admitted although the
//! period before it contains the limit; it is wrongly denied if it is denied although that period contains less.

use std::collections::VecDeque;
use std::time::Duration;

use portcullis_bench::in_parallel;
use portcullis_core::{Strategy, Timestamp};

use crate::contenders::{CONTENDERS, Contender, LIMIT, PERIOD, named};
use crate::table::{Table, percent, thousands};
use crate::traffic::{Arrivals, Pattern};

/// The decisions about one kind of traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shares {
    pub(crate) requests: u64,
    pub(crate) admitted: u64,
    pub(crate) wrongly_allowed: u64,
    pub(crate) wrongly_denied: u64,
}

/// A contender with its shares under each traffic, in the order of [`TRAFFIC`].
pub(crate) type Row = (Contender, Vec<Shares>);

/// The clients and their rates.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Traffic {
    /// Clients that all send this multiple of their limit.
    Clients(Pattern, f64),
    /// Sources with different rates: the first sends 20 times its limit, the n-th an n-th of that.
    Crowd,
}

impl Traffic {
    pub(crate) fn run(self, strategy: &Strategy, limit: u32, period: Duration) -> Shares {
        let micros = period.as_secs_f64() * 1e6;
        let mut shares = Shares::default();
        match self {
            Self::Clients(pattern, load) => {
                for seed in 0..CLIENTS {
                    let arrivals = Arrivals::new(pattern, load * f64::from(limit), micros, seed);
                    shares.add(run_client(strategy, limit, period, arrivals.take(REQUESTS_PER_CLIENT)));
                }
            }
            Self::Crowd => {
                let rates = (1..=SOURCES).map(|source| f64::from(limit) * LOUDEST / f64::from(source));
                let periods = (REQUESTS / rates.clone().sum::<f64>()).max(MIN_PERIODS);
                for (seed, rate) in (0..).zip(rates) {
                    let mut arrivals = Arrivals::new(Pattern::Poisson, rate, micros, seed).peekable();
                    let end = arrivals.peek().map_or(0, |first| first + (periods * micros) as u64);
                    shares.add(run_client(strategy, limit, period, arrivals.take_while(|at| *at < end)));
                }
            }
        }
        shares
    }
}

impl Shares {
    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.admitted += other.admitted;
        self.wrongly_allowed += other.wrongly_allowed;
        self.wrongly_denied += other.wrongly_denied;
    }

    pub(crate) fn wrong(&self) -> u64 {
        self.wrongly_allowed + self.wrongly_denied
    }
}

/// All contenders under all traffic.
pub(crate) fn measure() -> Vec<Row> {
    let shares = |contender: &Contender| {
        let strategy = contender.strategy(LIMIT, PERIOD);
        TRAFFIC.iter().map(|(_, traffic)| traffic.run(&strategy, LIMIT, PERIOD)).collect()
    };
    in_parallel(CONTENDERS, |contender| (*contender, shares(contender)))
}

pub(crate) fn table(rows: &[Row]) -> Table {
    let title = "Wrongly allowed / wrongly denied, % of all requests, 100 per minute";
    let mut table = Table::new("errors", title, &header(""));
    for (contender, shares) in rows {
        table.push(contender.name, shares.iter().map(cell));
    }
    table
}

/// How much is admitted in total, compared with a sliding log that decides the same traffic on its own.
pub(crate) fn totals(rows: &[Row]) -> Table {
    let title = "Admitted in all, % of what the sliding log admits of the same traffic, 100 per minute";
    let mut table = Table::new("totals", title, &header(""));
    let log = rows.iter().find(|(contender, _)| contender.name == "sliding log").map(|(_, shares)| shares);
    for (contender, shares) in rows {
        let log = log.into_iter().flatten();
        table.push(
            contender.name,
            shares.iter().zip(log).map(|(own, log)| percent(own.admitted, log.admitted)),
        );
    }
    table
}

/// A cell of the table.
pub(crate) fn cell(shares: &Shares) -> String {
    let share = |part| percent(part, shares.requests);
    format!("{} / {}", share(shares.wrongly_allowed), share(shares.wrongly_denied))
}

/// The sliding window alone, for several limits and numbers of slots.
pub(crate) fn sliding_windows() -> Table {
    let title = "Sliding window: wrongly allowed and wrongly denied together, % of all requests";
    let mut table = Table::new("sliding-windows", title, &header("limit, slots"));
    let slots = [(1, "sliding window"), (10, "sliding window, 10 slots")];
    let windows: Vec<_> =
        [10, 100, 1_000].into_iter().flat_map(|limit| slots.map(|slots| (limit, slots))).collect();
    let rows = in_parallel(&windows, |&(limit, (slots, name))| {
        let strategy = named(name).strategy(limit, PERIOD);
        let share = |(_, traffic): &(_, Traffic)| {
            let shares = traffic.run(&strategy, limit, PERIOD);
            percent(shares.wrong(), shares.requests)
        };
        (
            format!("{} per minute, {slots}", thousands(limit.into())),
            TRAFFIC.iter().map(share).collect::<Vec<_>>(),
        )
    });
    for (name, cells) in rows {
        table.push(&name, cells);
    }
    table
}

fn header(first: &'static str) -> Vec<&'static str> {
    std::iter::once(first).chain(TRAFFIC.iter().map(|(name, _)| *name)).collect()
}

/// Runs one client from an empty state to the end of its requests.
fn run_client(
    strategy: &Strategy,
    limit: u32,
    period: Duration,
    arrivals: impl Iterator<Item = u64>,
) -> Shares {
    let mut shares = Shares::default();
    let (mut state, mut log) = (None, VecDeque::new());
    let period = period.as_micros() as u64;
    for at in arrivals {
        while log.front().is_some_and(|stamp| stamp + period <= at) {
            log.pop_front();
        }
        let fits = log.len() < limit as usize;
        let now = Timestamp::from_micros(at);
        let evaluation = strategy.evaluate(state.as_ref(), now, 1);
        strategy.apply_decision(&mut state, now, 1, evaluation, evaluation.admitted);
        shares.requests += 1;
        shares.admitted += u64::from(evaluation.admitted);
        shares.wrongly_allowed += u64::from(evaluation.admitted && !fits);
        shares.wrongly_denied += u64::from(!evaluation.admitted && fits);
        if evaluation.admitted {
            log.push_back(at);
        }
    }
    shares
}

pub(crate) const TRAFFIC: &[(&str, Traffic)] = &[
    ("Poisson 0.5×", Traffic::Clients(Pattern::Poisson, 0.5)),
    ("Poisson 1×", Traffic::Clients(Pattern::Poisson, 1.0)),
    ("Poisson 2×", Traffic::Clients(Pattern::Poisson, 2.0)),
    ("bursty 0.5×", Traffic::Clients(Pattern::Bursty, 0.5)),
    ("bursty 1×", Traffic::Clients(Pattern::Bursty, 1.0)),
    ("bursty 2×", Traffic::Clients(Pattern::Bursty, 2.0)),
    ("crowd", Traffic::Crowd),
];
/// A million requests in each cell.
const CLIENTS: u64 = 100;
const REQUESTS_PER_CLIENT: usize = 10_000;
const REQUESTS: f64 = 1e6;
const SOURCES: u32 = 20_000;
const LOUDEST: f64 = 20.0;
/// The minimum, so that the first period, which starts without history, has little weight.
const MIN_PERIODS: f64 = 40.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn one_client(name: &str, pattern: Pattern) -> Shares {
        let strategy = named(name).strategy(LIMIT, PERIOD);
        run_client(&strategy, LIMIT, PERIOD, Arrivals::new(pattern, 100.0, 60e6, 1).take(20_000))
    }

    #[test]
    fn the_log_is_never_wrong() {
        for pattern in [Pattern::Poisson, Pattern::Bursty] {
            assert_eq!(one_client("sliding log", pattern).wrong(), 0);
        }
    }

    #[test]
    fn more_slots_are_less_often_wrong() {
        for pattern in [Pattern::Poisson, Pattern::Bursty] {
            let (one, ten) =
                (one_client("sliding window", pattern), one_client("sliding window, 10 slots", pattern));
            assert!(0 < ten.wrong() && ten.wrong() < one.wrong(), "{one:?}, {ten:?}");
        }
    }

    /// A fixed window is wrong by design: it denies only after the limit of its own window is used.
    #[test]
    fn gcra_wrongly_denies_and_a_fixed_window_wrongly_allows() {
        let spaced = one_client("GCRA, burst 1", Pattern::Poisson);
        assert_eq!((spaced.wrongly_allowed, spaced.wrongly_denied > 5_000), (0, true));
        let window = one_client("fixed window", Pattern::Poisson);
        assert!(window.wrongly_allowed > 0);
    }
}
