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
    let mut logs: ByKey<_, Vec<usize>> = ByKey::new();
    let mut wrong = [0, 0];
    for (number, row) in lane.rows.iter().enumerate().filter(|(_, row)| row.verdict != Verdict::Shed) {
        let mut fits = true;
        for (index, (limit, quota)) in limits.iter().zip(&quotas).enumerate() {
            let kept = logs.get_or_insert_with((index, row.budget(limit.key)), Vec::new);
            let log = Log { rows: &lane.rows, period: micros(quota.period()), settles: limit.settle };
            // What costs nothing always fits.
            fits &= log.most(kept, number) <= quota.limit() || log.units(number, row) == 0;
        }
        wrong[usize::from(fits)] += u64::from(row.is_admitted() != fits);
        if !fits {
            for (index, limit) in limits.iter().enumerate() {
                let kept = logs.get_or_insert_with((index, row.budget(limit.key)), Vec::new);
                kept.retain(|other| *other != number);
            }
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

/// How a log counts the requests that it keeps, which are those that fit.
struct Log<'a> {
    rows: &'a [Row],
    period: u64,
    settles: bool,
}

impl Log<'_> {
    /// Keeps a row. Returns the most units in any period with it. What is kept is in the order in which it starts.
    fn most(&self, kept: &mut Vec<usize>, number: usize) -> u64 {
        let row = &self.rows[number];
        kept.retain(|other| self.rows[*other].starts() + self.period > row.request.at);
        let place = kept.partition_point(|other| self.rows[*other].starts() <= row.starts());
        kept.insert(place, number);
        let (mut oldest, mut now, mut most) = (0, 0, 0);
        for (index, other) in kept.iter().enumerate() {
            let starts = self.rows[*other].starts();
            if starts >= row.starts() + self.period {
                break;
            }
            now += self.units(*other, row);
            while self.rows[kept[oldest]].starts() + self.period <= starts {
                now -= self.units(kept[oldest], row);
                oldest += 1;
            }
            if index >= place {
                most = most.max(now);
            }
        }
        most
    }

    /// What a row counts beside another one. Beside an admitted one only what was admitted counts, at what it costs in the end; beside a
    /// rejected one all that is kept, at what was known of it.
    fn units(&self, number: usize, beside: &Row) -> u64 {
        let row = &self.rows[number];
        if beside.is_admitted() {
            return if row.is_admitted() { row.units(self.settles) } else { 0 };
        }
        let has_ended = row.end.is_some_and(|end| end <= beside.request.at);
        row.units(self.settles && has_ended)
    }
}
