//! The size of a measurement.

use std::time::Duration;

use crate::Options;

/// How much of each is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// Rounds of each case that count; each table has one more before them.
    pub(crate) rounds: usize,
    /// Decisions in memory per thread and round.
    pub(crate) decisions: usize,
    /// Keys of most measurements with many keys.
    pub(crate) keys: usize,
    /// Keys of the measurements that exceed the caches of the processor.
    pub(crate) most_keys: usize,
    /// Requests per round, and clients that send them in turns.
    pub(crate) requests: usize,
    pub(crate) clients: usize,
    /// The length of a round with tasks that call Redis.
    pub(crate) round: Duration,
    /// Decisions of a round in which only the server's CPU time counts.
    pub(crate) server_decisions: u32,
    /// Rounds under wrk, and seconds per round.
    pub(crate) wrk: (usize, u32),
}

impl Scale {
    pub(crate) const fn of(options: &Options) -> Self {
        if options.common.quick { QUICK } else { FULL }
    }
}

const FULL: Scale = Scale {
    rounds: 21,
    decisions: 200_000,
    keys: 100_000,
    most_keys: 1_000_000,
    requests: 4_000,
    clients: 100_000,
    round: Duration::from_millis(300),
    server_decisions: 19_200,
    wrk: (5, 3),
};

const QUICK: Scale = Scale {
    rounds: 3,
    decisions: 2_000,
    keys: 1_000,
    most_keys: 10_000,
    requests: 100,
    clients: 1_000,
    round: Duration::from_millis(20),
    server_decisions: 960,
    wrk: (1, 1),
};
