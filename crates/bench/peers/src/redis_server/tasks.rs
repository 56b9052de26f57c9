//! What one process with two threads gets from the server over one connection.
//!
//! Process and server share the machine, so that two cores show less than two machines would.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Error, Result, ensure};
use portcullis_bench::server::{Calls, Server};
use portcullis_bench::{Comparison, Round, Target, interleaved};
use tokio::runtime::{Builder, Runtime};

use super::clients::{Limit, connect};
use crate::scale::Scale;

/// Rates, latencies and the CPU time of the server.
pub(super) fn measure(scale: &Scale, server: Server, redis_cell: bool) -> Result<[Comparison; 3]> {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut limits = vec![
        ("ours", Arc::new(runtime.block_on(Limit::ours(&server))?)),
        ("fred with a bare GCRA script", Arc::new(runtime.block_on(Limit::script(&server))?)),
        ("fred INCR", Arc::new(Limit::Increment(runtime.block_on(connect(&server))?))),
    ];
    if redis_cell {
        limits
            .push(("fred with redis-cell", Arc::new(Limit::RedisCell(runtime.block_on(connect(&server))?))));
    }
    let server = RefCell::new(server);
    let mut tables = [
        Comparison::new("Decisions per second of one process"),
        Comparison::new("Median time of a decision"),
        Comparison::new("CPU time of the server per decision, with the network"),
    ];
    for (tasks, keys) in [1, 64, 512].into_iter().flat_map(|tasks| [(tasks, scale.keys), (tasks, 1)]) {
        let load = Load { tasks, keys, length: scale.round };
        let mut cases: Vec<_> =
            limits.iter().map(|(_, limit)| load.round(&runtime, &server, limit)).collect();
        let figures = interleaved(scale.rounds, &mut cases)?;
        for (other, (beside, _)) in limits.iter().enumerate().skip(1) {
            let columns: [fn(&Calls) -> f64; 3] =
                [|round| round.rate, |round| round.latency, |round| round.cpu];
            let units = ["/s", "µs", "µs"];
            let targets = load.targets(other);
            for (((table, column), unit), target) in tables.iter_mut().zip(columns).zip(units).zip(targets) {
                let column = |case: usize| figures[case].iter().map(column).collect::<Vec<_>>();
                table.push(&load.name(), beside, unit, &column(0), &column(other), target);
            }
        }
    }
    Ok(tables)
}

/// Tasks that decide one after the other, about the keys in turns.
#[derive(Clone, Copy, Debug)]
struct Load {
    tasks: usize,
    keys: usize,
    length: Duration,
}

impl Load {
    fn name(self) -> String {
        let keys = if self.keys == 1 { "one hot key".to_owned() } else { format!("{} keys", self.keys) };
        let tasks = if self.tasks == 1 { "1 task".to_owned() } else { format!("{} tasks", self.tasks) };
        format!("{tasks}, {keys}")
    }

    /// The targets of the rate, the latency and the CPU time, beside the script (1) and INCR (2).
    fn targets(self, other: usize) -> [Target; 3] {
        let rate = match (self.tasks, self.keys, other) {
            (64, 1, 1) => Target::AtLeast(4.5),
            (64, 1, 2) => Target::AtLeast(1.5),
            (64, _, 1) => Target::AtLeast(2.0),
            (64, _, 2) => Target::AtLeast(0.7),
            _ => Target::None,
        };
        let latency = if (self.tasks, other) == (1, 1) { Target::AtMost(1.03) } else { Target::None };
        [rate, latency, Target::None]
    }

    fn round<'a>(
        self,
        runtime: &'a Runtime,
        server: &'a RefCell<Server>,
        limit: &'a Arc<Limit>,
    ) -> Round<'a, Calls, Error> {
        Box::new(move || {
            let limit = Arc::clone(limit);
            server.borrow_mut().calls(runtime, self.tasks, self.length, move |_, number| {
                let limit = Arc::clone(&limit);
                async move {
                    ensure!(limit.is_allowed(number % self.keys).await?, "the quota is never used up");
                    Ok(())
                }
            })
        })
    }
}
