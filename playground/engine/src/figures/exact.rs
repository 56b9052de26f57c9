//! What exact logs say about the decisions of a lane.

use portcullis_core::{Quota, SlidingLog, Strategy};

use super::micros;
use crate::by_key::ByKey;
use crate::lane::{Lane, Row, Verdict};

/// The requests that were wrongly admitted and wrongly rejected, by a log of each limit. `None` where a limit has no such log.
pub(super) fn wrong(lane: &Lane<'_>) -> Option<[u64; 2]> {
    let limits = &lane.settings.limits;
    let quotas: Vec<Quota> =
        limits.iter().map(|limit| quota(limit.policy.strategy())).collect::<Option<_>>()?;
    if quotas.is_empty() {
        return None;
    }
    let mut logs = ByKey::new();
    let mut wrong = [0, 0];
    for (number, row) in lane.rows.iter().enumerate().filter(|(_, row)| row.verdict != Verdict::Shed) {
        let mut fits = true;
        for (index, (limit, quota)) in limits.iter().zip(&quotas).enumerate() {
            let log = logs.get_or_insert_with((index, row.budget(limit.key)), Vec::new);
            let most = Log { rows: &lane.rows, period: micros(quota.period()), settles: limit.settle }
                .most(log, number);
            // What costs nothing always fits.
            fits &= most <= quota.limit() || row.units(limit.settle) == 0;
        }
        if row.is_admitted() != fits {
            wrong[usize::from(fits)] += 1;
        }
    }
    Some(wrong)
}

/// The units and the period of a log beside a strategy.
fn quota(strategy: &Strategy) -> Option<Quota> {
    let quota = strategy.quota()?;
    let quota = Quota::new(quota.limit(), quota.period(), None).ok()?;
    SlidingLog::new(quota).ok().map(|_| quota)
}

/// How a log counts what was admitted, at the instants at which it may start.
struct Log<'a> {
    rows: &'a [Row],
    period: u64,
    settles: bool,
}

impl Log<'_> {
    /// The most units in any period with a row, which the log then keeps if it was admitted. `log` has the admitted rows before it, in the
    /// order in which they start.
    fn most(&self, log: &mut Vec<usize>, number: usize) -> u64 {
        let row = &self.rows[number];
        log.retain(|other| self.rows[*other].starts() + self.period > row.request.at);
        let place = log.partition_point(|other| self.rows[*other].starts() <= row.starts());
        log.insert(place, number);
        let (mut oldest, mut now, mut most) = (0, 0, 0);
        for (index, other) in log.iter().enumerate() {
            let starts = self.rows[*other].starts();
            if index > place && starts >= row.starts() + self.period {
                break;
            }
            now += self.units(*other, row);
            while self.rows[log[oldest]].starts() + self.period <= starts {
                now -= self.units(log[oldest], row);
                oldest += 1;
            }
            if index >= place {
                most = most.max(now);
            }
        }
        if !row.is_admitted() {
            log.remove(place);
        }
        most
    }

    /// What a row counts: what it costs in the end, but what was known of it beside a rejected one.
    fn units(&self, number: usize, beside: &Row) -> u64 {
        let row = &self.rows[number];
        let is_known = beside.is_admitted() || row.end.is_some_and(|end| end <= beside.request.at);
        row.units(self.settles && is_known)
    }
}
