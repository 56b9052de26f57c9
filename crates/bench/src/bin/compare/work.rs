//! The CPU time of the largest decisions on a Redis server.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use portcullis_bench::Spread;
use portcullis_bench::redis;
use portcullis_bench::server::{Recorded, Server, admits};
use portcullis_core::store::Checks;
use portcullis_core::{FixedWindow, Quota, SlidingLog, SlidingWindow, Strategy};

use crate::redis_cpu::{DAY, ROUNDS};
use crate::table::{Table, digits, thousands};

/// Measures the server CPU per decision of each shape, in interleaved rounds.
pub(crate) fn measure(server: &mut Server) -> Result<Table> {
    let recorded = SHAPES
        .iter()
        .map(|shape| server.recorded(shape.kind.strategy()?, 0, shape.cost))
        .collect::<Result<Vec<_>>>()?;
    let mut spent = vec![Vec::new(); SHAPES.len()];
    for _ in 0..ROUNDS {
        for ((shape, recorded), spent) in SHAPES.iter().zip(&recorded).zip(&mut spent) {
            spent.push(shape.spent(server, recorded)?);
        }
    }
    let mut table =
        Table::new("work", "Server CPU per decision in milliseconds", &["", "slots of work", "server CPU"]);
    for (shape, spent) in SHAPES.iter().zip(spent) {
        let work = shape.checks * shape.kind.strategy()?.work();
        let refused = if work > Checks::MAX_WORK { ", refused" } else { "" };
        table
            .push(shape.name, [thousands(work.into()) + refused, digits(Spread::of(spent).median / 1_000.0)]);
    }
    Ok(table)
}

/// A decision whose checks differ only in their keys.
#[derive(Clone, Copy, Debug)]
struct Shape {
    name: &'static str,
    checks: u32,
    kind: Kind,
    cost: u64,
}

/// Sliding windows have this number of slots and a charge in each, and logs `used` units of their limit charged.
#[derive(Clone, Copy, Debug)]
enum Kind {
    FixedWindow,
    SlidingWindow(u32),
    SlidingLog { limit: u32, used: u32 },
}

impl Kind {
    fn strategy(self) -> Result<Strategy> {
        let plenty = Quota::new(4_000_000_000, DAY, None)?;
        Ok(match self {
            Self::FixedWindow => Strategy::FixedWindow(FixedWindow::new(plenty)?),
            Self::SlidingWindow(slots) => Strategy::SlidingWindow(SlidingWindow::with_slots(plenty, slots)?),
            Self::SlidingLog { limit, .. } => {
                Strategy::SlidingLog(SlidingLog::new(Quota::new(limit.into(), DAY, None)?)?)
            }
        })
    }
}

impl Shape {
    /// Server CPU per decision. Each decision has its own keys, because a charge changes the cost of the next one.
    fn spent(&self, server: &mut Server, recorded: &Recorded) -> Result<f64> {
        server.clear()?;
        for user in 0..DECISIONS * self.checks {
            self.prepare(server, recorded, user)?;
        }
        let decisions = (0..DECISIONS)
            .map(|index| recorded.several(index * self.checks..(index + 1) * self.checks, false));
        let (spent, replies) = server.run(&decisions.collect::<Vec<_>>(), DECISIONS as usize)?;
        ensure!(replies.iter().all(admits), "{} was denied", self.name);
        Ok(spent)
    }

    fn prepare(&self, server: &mut Server, recorded: &Recorded, user: u32) -> Result<()> {
        match self.kind {
            Kind::FixedWindow | Kind::SlidingLog { used: 0, .. } => {}
            // Written in the script's format: charging each slot would take a day.
            Kind::SlidingWindow(slots) => {
                let width = DAY.as_micros() as u64 / u64::from(slots);
                let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros() as u64;
                let numbers = [now - now % width + width, width, u64::from(slots)];
                let mut state: Vec<u8> =
                    numbers.iter().flat_map(|number| (*number as f64).to_le_bytes()).collect();
                // Counts of three bytes.
                state.push(3);
                state.extend(1_234_567_u32.to_le_bytes()[..3].repeat(slots as usize));
                redis::cmd("SET").arg(recorded.key(user)).bytes(state).query(&mut server.connection)?;
            }
            Kind::SlidingLog { used, .. } => {
                server.run(&[recorded.with_cost(user, used)], 1)?;
            }
        }
        Ok(())
    }
}

const fn shape(name: &'static str, checks: u32, kind: Kind, cost: u64) -> Shape {
    Shape { name, checks, kind, cost }
}

const SHAPES: &[Shape] = &[
    shape("1 fixed window", 1, Kind::FixedWindow, 1),
    shape("16 fixed windows", 16, Kind::FixedWindow, 1),
    shape("1 sliding window, 1 000 slots", 1, Kind::SlidingWindow(1_000), 1),
    shape("16 sliding windows, 64 slots", 16, Kind::SlidingWindow(64), 1),
    shape("16 sliding windows, 1 000 slots", 16, Kind::SlidingWindow(1_000), 1),
    shape("1 sliding log of 100 000, the last unit", 1, log(100_000, 99_999), 1),
    shape("1 sliding log of 100 000, all at once", 1, log(100_000, 0), 100_000),
    shape("16 sliding logs of 6 400, the last unit", 16, log(6_400, 6_399), 1),
    shape("16 sliding logs of 6 400, all at once", 16, log(6_400, 0), 6_400),
    shape("16 sliding logs of 100 000, all at once", 16, log(100_000, 0), 100_000),
];

const fn log(limit: u32, used: u32) -> Kind {
    Kind::SlidingLog { limit, used }
}

/// Decisions per batch.
const DECISIONS: u32 = 10;
