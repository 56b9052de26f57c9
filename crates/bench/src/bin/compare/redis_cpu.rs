//! The CPU time of a decision on a Redis server.

use std::time::Duration;

use anyhow::{Context as _, Result};
use portcullis_bench::Spread;
use portcullis_bench::redis;
use portcullis_bench::server::{BATCH, Recorded, Server, admits};
use portcullis_core::Strategy;

use crate::contenders::{CONTENDERS, LIMIT};
use crate::table::{Table, digits};

/// CPU time of the server per decision, in microseconds.
#[derive(Clone, Debug)]
pub(crate) struct Cost {
    pub(crate) name: &'static str,
    pub(crate) allowed: f64,
    /// `None` for the baselines, which decide nothing.
    pub(crate) denied: Option<f64>,
}

/// Measures the baselines, which are lower bounds, and then all contenders at 100 per period, in interleaved rounds.
pub(crate) fn measure(server: &mut Server) -> Result<Vec<Cost>> {
    let sha = redis::text(redis::cmd("SCRIPT").arg("LOAD").arg("return 1").query(&mut server.connection)?)?;
    let script = redis::cmd("EVALSHA").arg(sha).arg(0);
    let baselines = [("PING", redis::cmd("PING")), ("EVALSHA of `return 1`", script)];
    let mut spent = vec![(Vec::new(), Vec::new()); baselines.len() + CONTENDERS.len()];
    let cases: Vec<_> = CONTENDERS
        .iter()
        .map(|contender| Case::new(server, contender.strategy(LIMIT, DAY)))
        .collect::<Result<_>>()?;
    for _ in 0..ROUNDS {
        for ((_, command), (allowed, _)) in baselines.iter().zip(&mut spent) {
            allowed.push(server.run(&vec![command.clone(); DECISIONS], BATCH)?.0);
        }
        for (case, (allowed, denied)) in cases.iter().zip(&mut spent[baselines.len()..]) {
            allowed.push(case.allowed(server, DECISIONS)?);
            denied.push(case.denied(server, KEYS, DECISIONS)?);
        }
    }
    let names =
        baselines.iter().map(|(name, _)| *name).chain(CONTENDERS.iter().map(|contender| contender.name));
    let costs = names.zip(spent).map(|(name, (allowed, denied))| Cost {
        name,
        allowed: Spread::of(allowed).median,
        denied: (!denied.is_empty()).then(|| Spread::of(denied).median),
    });
    Ok(costs.collect())
}

pub(crate) fn table(costs: &[Cost]) -> Table {
    let title = "Server CPU per decision in microseconds, limit 100";
    let header = ["", "allowed", "denied", "allowed, × PING", "denied, × PING"];
    let mut table = Table::new("cpu", title, &header);
    for Cost { name, allowed, denied } in costs {
        let ping = costs[0].allowed;
        let shown = |cost: Option<f64>| cost.map_or("-".to_owned(), digits);
        let cells =
            [Some(*allowed), *denied, Some(*allowed / ping), denied.map(|denied| denied / ping)].map(shown);
        table.push(name, cells);
    }
    table
}

/// The calls that measure a strategy, as the store sends them.
pub(crate) struct Case {
    strategy: Strategy,
    unit: Recorded,
    half: Recorded,
    all: Recorded,
}

impl Case {
    pub(crate) fn new(server: &mut Server, strategy: Strategy) -> Result<Self> {
        let limit = strategy.limit();
        let unit = server.recorded(strategy, 0, 1)?;
        let half = server.recorded(strategy, 0, limit / 2)?;
        let all = server.recorded(strategy, 0, limit)?;
        Ok(Self { strategy, unit, half, all })
    }

    /// CPU time per allowed decision, for keys that have used half of their limit before.
    pub(crate) fn allowed(&self, server: &mut Server, count: usize) -> Result<f64> {
        let each = self.strategy.limit().div_ceil(2).min(20);
        self.measure(server, &self.half, (count as u64).div_ceil(each) as u32, count, true)
    }

    /// CPU time per denied decision, for `keys` keys that have used their whole limit before.
    pub(crate) fn denied(&self, server: &mut Server, keys: u32, count: usize) -> Result<f64> {
        self.measure(server, &self.all, keys, count, false)
    }

    fn measure(
        &self,
        server: &mut Server,
        before: &Recorded,
        keys: u32,
        count: usize,
        admitted: bool,
    ) -> Result<f64> {
        let before: Vec<_> = (0..keys).map(|user| before.of(user)).collect();
        let decisions: Vec<_> = (0..keys).cycle().take(count).map(|user| self.unit.of(user)).collect();
        let spent = server.decisions(&before, &decisions, |reply| admits(reply) == admitted);
        spent.context(self.strategy.tag())
    }
}

pub(crate) const ROUNDS: usize = 9;
/// Long enough that almost nothing is replenished during the measurement.
pub(crate) const DAY: Duration = Duration::from_secs(24 * 3_600);
const KEYS: u32 = 1_000;
const DECISIONS: usize = 20_000;
