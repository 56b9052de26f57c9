//! What a regional store counts.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use portcullis_core::store::Figure;
use portcullis_log::{Counted, LogThrottle};

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
    home: Home,
}

/// Whether home answers.
#[derive(Debug)]
struct Home {
    is_unreachable: AtomicBool,
    unreached: LogThrottle,
}

impl Default for Home {
    fn default() -> Self {
        Self { is_unreachable: AtomicBool::new(false), unreached: LogThrottle::per_minute() }
    }
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
    /// Records that home has answered a call. Returns whether it had not answered before; then the log has all calls that were not answered.
    pub(crate) fn reached(&self) -> bool {
        let Home { is_unreachable, unreached } = &self.home;
        let is_new = is_unreachable.load(Ordering::Relaxed) && is_unreachable.swap(false, Ordering::Relaxed);
        if is_new {
            unreached.write_unsaid();
        }
        is_new
    }

    /// Records that home has not answered a call, and logs that once a minute.
    pub(crate) fn unreached<W: FnOnce(Counted) + Send + 'static>(&self, line: impl FnOnce() -> W) {
        self.home.is_unreachable.store(true, Ordering::Relaxed);
        self.home.unreached.count(0, None, line);
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
        let unreachable = u64::from(self.home.is_unreachable.load(Ordering::Relaxed));
        visit(Figure::gauge(
            "home_unreachable",
            unreachable,
            "1 if the home store has not answered the last call.",
        ));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_unreachable_home_is_logged_once_a_minute() {
        let (figures, (written, lines)) = (Figures::default(), mpsc::channel());
        let unreached = || {
            let written = written.clone();
            figures.unreached(|| move |counted: Counted| written.send(counted.events).unwrap());
        };
        let take = || lines.try_iter().collect::<Vec<_>>();
        assert!(!figures.reached());
        for _ in 0..3 {
            unreached();
        }
        assert_eq!(take(), [1]);
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert_eq!(take(), [2]);
        unreached();
        assert_eq!(take(), [0; 0]);
        // The line of what was not answered is before that of the answer.
        assert!(figures.reached());
        assert_eq!(take(), [1]);
        assert!(!figures.reached());
        unreached();
        assert_eq!(take(), [0; 0]);
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
