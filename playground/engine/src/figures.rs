//! The counters of a lane.

mod exact;

use std::time::Duration;

use portcullis_core::{Policy, Quota, Strategy};

use crate::by_key::ByKey;
use crate::lane::{Lane, Row, Verdict};
use crate::scene::{KeyKind, StoreKind};

/// What was counted.
pub(crate) struct Figures {
    /// Requests, admitted, of these waited and degraded, rejected by limits, because the store failed, shed.
    pub(crate) counts: [u64; 7],
    /// The waits of admitted requests: the median and the 95th percentile.
    pub(crate) wait: [u64; 2],
    /// The times from arrival to end, or to the end of the scene, likewise.
    pub(crate) latency: [u64; 2],
    /// The requests that were wrongly admitted and wrongly rejected, by exact logs. `None` where there is no such log.
    pub(crate) wrong: Option<[u64; 2]>,
    pub(crate) limits: Vec<OfLimit>,
}

/// What was counted under one limit.
pub(crate) struct OfLimit {
    pub(crate) period: u64,
    pub(crate) limit: u64,
    /// The most units that one key got in any period. Of requests in flight: at any instant.
    pub(crate) most: u64,
    /// What the algorithm promises as the most. `None` if it promises nothing.
    pub(crate) bound: Option<u64>,
}

impl Figures {
    pub(crate) fn of(lane: &Lane<'_>) -> Self {
        let rows = &lane.rows;
        let count = |wanted: &dyn Fn(&Row) -> bool| rows.iter().filter(|row| wanted(row)).count() as u64;
        let counts = [
            rows.len() as u64,
            count(&|row| row.is_admitted()),
            count(&|row| row.verdict == Verdict::Wait),
            count(&|row| row.is_admitted() && row.is_degraded),
            count(&|row| row.verdict == Verdict::Limited),
            count(&|row| row.verdict == Verdict::StoreFailed),
            count(&|row| row.verdict == Verdict::Shed),
        ];
        let admitted = || rows.iter().filter(|row| row.is_admitted());
        let duration = lane.scene.duration * 1_000;
        let latencies = admitted().map(|row| row.end.unwrap_or(duration).saturating_sub(row.request.at));
        Self {
            counts,
            wait: percentiles(admitted().map(|row| row.wait).collect()),
            latency: percentiles(latencies.collect()),
            wrong: exact::wrong(lane),
            limits: (0..lane.settings.limits.len()).map(|index| of_limit(lane, index)).collect(),
        }
    }
}

impl Row {
    pub(crate) fn is_admitted(&self) -> bool {
        matches!(self.verdict, Verdict::Pass | Verdict::Wait)
    }

    /// When it may start.
    fn starts(&self) -> u64 {
        self.request.at + self.wait
    }

    /// What it costs in the end.
    fn units(&self, settles: bool) -> u64 {
        self.request.uses.filter(|_| settles).unwrap_or(self.request.cost)
    }

    /// Whose budget the row is charged to under a limit.
    fn budget(&self, key: KeyKind) -> (usize, u32) {
        match key {
            KeyKind::All => (0, 0),
            KeyKind::Client => (self.request.client, self.request.member),
        }
    }
}

/// The smallest values that half and 95 % of all do not exceed.
fn percentiles(mut values: Vec<u64>) -> [u64; 2] {
    values.sort_unstable();
    [50, 95].map(|percent| {
        let rank = (values.len() * percent).div_ceil(100);
        values.get(rank.saturating_sub(1)).copied().unwrap_or(0)
    })
}

fn of_limit(lane: &Lane<'_>, index: usize) -> OfLimit {
    let settings = &lane.settings.limits[index];
    let strategy = settings.policy.strategy();
    let period = micros(strategy.quota().map_or(strategy.window(), Quota::period));
    // Each charge counts for a period; a permit until its request ends.
    let mut budgets = ByKey::new();
    for row in lane.rows.iter().filter(|row| row.is_admitted()) {
        let (at, units) = (row.starts(), row.units(settings.settle));
        let end = match strategy {
            Strategy::InFlight(_) => row.end.unwrap_or(u64::MAX),
            _ => at.saturating_add(period),
        };
        let changes = budgets.get_or_insert_with(row.budget(settings.key), Vec::new);
        changes.extend([(at, true, units), (end, false, units)]);
    }
    let most = budgets.values_mut().map(most_at_once).max().unwrap_or(0);
    OfLimit { period, limit: strategy.limit(), most, bound: bound(lane, &settings.policy) }
}

/// The most units at any instant, of those that begin and end.
fn most_at_once(changes: &mut Vec<(u64, bool, u64)>) -> u64 {
    changes.sort_unstable();
    let (mut now, mut most) = (0_u64, 0);
    for (_, begins, units) in changes {
        now = if *begins { now + *units } else { now.saturating_sub(*units) };
        most = most.max(now);
    }
    most
}

/// What a policy promises as the most units of a key in any period, over all instances.
fn bound(lane: &Lane<'_>, policy: &Policy) -> Option<u64> {
    let strategy = policy.strategy();
    let limit = strategy.limit();
    let promised = match strategy {
        Strategy::TokenBucket(_) | Strategy::Gcra(_) | Strategy::LeakyBucket(_) => {
            limit + strategy.quota().map_or(0, Quota::limit)
        }
        Strategy::FixedWindow(_) | Strategy::CalendarWindow(_) | Strategy::SlidingWindow(_) => limit * 2,
        Strategy::SlidingLog(_) | Strategy::InFlight(_) => limit,
    };
    let instances = u64::from(lane.settings.instances);
    let leased = match lane.settings.store {
        StoreKind::Shared => policy.max_lease().map_or(0, |units| units.get().saturating_mul(instances)),
        StoreKind::Share => 0,
    };
    (!policy.is_unlimited()).then_some(promised.saturating_add(leased))
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
