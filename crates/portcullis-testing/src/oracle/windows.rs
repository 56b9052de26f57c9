//! The count of a window, from its log.

use std::time::Duration;

use portcullis_core::{Anchor, Report, Retry, Timestamp};

use super::Model;
use super::ledger::smallest;

/// Every charge and refund, each with the beginning of the window that it belongs to.
#[derive(Clone, Debug)]
pub(super) struct WindowLog {
    limit: u32,
    period: u64,
    anchor: Anchor,
    entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    window: i128,
    units: i128,
}

impl WindowLog {
    pub(super) fn new(model: Model, anchor: Anchor) -> Self {
        Self { limit: model.quota.limit(), period: model.period(), anchor, entries: Vec::new() }
    }

    pub(super) fn fits(&self, now: Timestamp, cost: u32) -> bool {
        self.count(now) + i128::from(cost) <= i128::from(self.limit)
    }

    pub(super) fn charge(&mut self, now: Timestamp, cost: u32) {
        self.add(now, cost.into());
    }

    pub(super) fn refund(&mut self, now: Timestamp, charged_at: Timestamp, cost: u32) {
        let charged_at = i128::from(charged_at.as_micros());
        if self.living(now).is_some_and(|begin| charged_at >= begin) {
            self.add(now, -i128::from(cost).min(self.count(now)));
        }
    }

    pub(super) fn force(&mut self, now: Timestamp, cost: u32) -> u32 {
        let room = 2 * i128::from(self.limit) - self.count(now);
        let charged = i128::from(cost).min(room);
        self.add(now, charged);
        u32::try_from(i128::from(cost) - charged).expect("no more is left out than was to be charged")
    }

    pub(super) fn report(&self, now: Timestamp, cost: u32, admitted: bool) -> Report {
        let remaining = self.remaining_after(now, 0);
        let ends_after = self.ends_after(now);
        let reset_after = smallest(ends_after, |wait| self.count_after(now, wait) == 0);
        let next_after =
            if remaining == self.limit { Duration::ZERO } else { self.until_more_remains(now, remaining) };
        let retry = (!admitted).then(|| {
            let fits = |wait| self.count_after(now, wait) + i128::from(cost) <= i128::from(self.limit);
            if cost > self.limit { Retry::Never } else { Retry::After(smallest(ends_after, fits)) }
        });
        Report { limit: self.limit, remaining, reset_after, next_after, retry, delay: Duration::ZERO }
    }

    fn until_more_remains(&self, now: Timestamp, remaining: u32) -> Duration {
        smallest(self.ends_after(now), |wait| self.remaining_after(now, wait) > remaining)
    }

    fn remaining_after(&self, now: Timestamp, wait: u64) -> u32 {
        let left = i128::from(self.limit) - self.count_after(now, wait);
        u32::try_from(left.max(0)).expect("at most the limit")
    }

    fn ends_after(&self, now: Timestamp) -> u64 {
        let Some(begin) = self.living(now) else { return 0 };
        let end = begin + i128::from(self.period);
        u64::try_from(end - i128::from(now.as_micros())).expect("a living window has not ended")
    }

    fn add(&mut self, now: Timestamp, units: i128) {
        let begin = self.living(now).unwrap_or_else(|| begin_of_window(self.anchor, self.period, now));
        self.entries.push(Entry { window: begin, units });
    }

    fn count(&self, now: Timestamp) -> i128 {
        self.count_after(now, 0)
    }

    fn count_after(&self, now: Timestamp, wait: u64) -> i128 {
        let Some(begin) = self.living(Timestamp::from_micros(now.as_micros() + wait)) else { return 0 };
        self.charged_in(begin)
    }

    /// The window that `now` is in, if anything is charged to it.
    fn living(&self, now: Timestamp) -> Option<i128> {
        let Entry { window, .. } = *self.entries.last()?;
        let lives = i128::from(now.as_micros()) < window + i128::from(self.period);
        (lives && self.charged_in(window) > 0).then_some(window)
    }

    fn charged_in(&self, window: i128) -> i128 {
        self.entries.iter().rev().take_while(|entry| entry.window == window).map(|entry| entry.units).sum()
    }
}

/// The beginning of the window that a charge at `now` belongs to, if none lives.
pub(super) fn begin_of_window(anchor: Anchor, period: u64, now: Timestamp) -> i128 {
    let now = i128::from(now.as_micros());
    let origin = match anchor {
        Anchor::Epoch => 0,
        Anchor::Instant(instant) => i128::from(instant.as_micros()),
        Anchor::FirstRequest => return now,
    };
    now - (now - origin).rem_euclid(i128::from(period))
}
