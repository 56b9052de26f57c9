//! What a regional store counts.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use portcullis_core::Timestamp;
use portcullis_core::log::LogThrottle;
use portcullis_core::store::Figure;

/// The counters of one process, and whether home answers.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) purchases: Counter,
    pub(crate) denied: Counter,
    pub(crate) failed: Counter,
    pub(crate) refused: Counter,
    pub(crate) bought: Counter,
    pub(crate) credited: Counter,
    pub(crate) returned: Counter,
    pub(crate) lost: Counter,
    is_unreachable: AtomicBool,
    warned: LogThrottle,
}

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Figures {
    /// Records that home has answered a call. Returns whether it had not answered before.
    pub(crate) fn reached(&self) -> bool {
        self.is_unreachable.load(Ordering::Relaxed) && self.is_unreachable.swap(false, Ordering::Relaxed)
    }

    /// Records that home has not answered a call. Returns whether that has to be logged: once a minute.
    pub(crate) fn unreached(&self, now: Duration) -> bool {
        self.is_unreachable.store(true, Ordering::Relaxed);
        self.warned.due(Timestamp::EPOCH.saturating_add(now), BETWEEN_WARNINGS).is_some()
    }

    /// Visits the figures, with the number of purchases on their way and of keys.
    pub(crate) fn visit(&self, pending: u64, keys: u64, visit: &mut dyn FnMut(Figure<'_>)) {
        let mut counter = |name, counter: &Counter, help| visit(Figure::counter(name, counter.get(), help));
        counter("purchases", &self.purchases, "Purchases of units at the home store.");
        counter("purchases_denied", &self.denied, "Purchases that the home store has denied.");
        counter("purchases_failed", &self.failed, "Purchases that the home store has not answered.");
        counter("purchases_refused", &self.refused, "Purchases left out because too many were on their way.");
        counter("units_bought", &self.bought, "Units that the home store has charged for this region.");
        counter("units_credited", &self.credited, "Units bought that were credited in this region.");
        counter("units_returned", &self.returned, "Units bought that were refunded at the home store.");
        counter("units_lost", &self.lost, "Units bought that were neither credited nor refunded.");
        visit(Figure::gauge("purchases_pending", pending, "Purchases on their way."));
        visit(Figure::gauge(
            "purchase_keys",
            keys,
            "Keys whose charges this process keeps, to buy for them.",
        ));
        let unreachable = u64::from(self.is_unreachable.load(Ordering::Relaxed));
        visit(Figure::gauge(
            "home_unreachable",
            unreachable,
            "1 if the home store has not answered the last call.",
        ));
    }
}

const BETWEEN_WARNINGS: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreachable_home_is_logged_once_a_minute() {
        let figures = Figures::default();
        let at = |seconds| figures.unreached(Duration::from_secs(seconds));
        assert!(!figures.reached());
        assert_eq!([at(0), at(1), at(59), at(60), at(61)], [true, false, false, true, false]);
        assert!(figures.reached() && !figures.reached());
        assert!(!at(62));
    }

    #[test]
    fn figures_have_the_names_of_the_docs() {
        let figures = Figures::default();
        figures.lost.add(3);
        let mut seen = Vec::new();
        figures.visit(1, 2, &mut |figure| seen.push((figure.name, figure.value)));
        let names =
            ["purchases", "purchases_denied", "purchases_failed", "purchases_refused", "units_bought"];
        assert_eq!(seen.iter().map(|(name, _)| *name).take(5).collect::<Vec<_>>(), names);
        assert_eq!(
            seen[7..],
            [("units_lost", 3), ("purchases_pending", 1), ("purchase_keys", 2), ("home_unreachable", 0)]
        );
    }
}
