//! Figures that come and go.

use std::thread;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use portcullis_core::store::{Checks, Outcome, Receipt, Settlement, StoreFuture};
use portcullis_core::{Decision, Key, Policy, StoreError, StoreErrorKind};

use super::*;

type Report = (&'static str, Option<&'static str>, FigureKind, FigureUnit, u64);

/// A store that reports what a test sets, and decides nothing.
#[derive(Default)]
struct Reporting(Mutex<Vec<Report>>);

impl Reporting {
    fn report(&self, reports: &[Report]) {
        *self.0.lock().unwrap() = reports.to_vec();
    }
}

impl Store for Reporting {
    fn check(&self, _: Checks) -> StoreFuture<Outcome> {
        StoreFuture::ready(Err(decides_nothing()))
    }

    fn refund(&self, _: Receipt) -> StoreFuture<Decision> {
        StoreFuture::ready(Err(decides_nothing()))
    }

    fn settle(&self, _: Receipt, _: u64) -> StoreFuture<Settlement> {
        StoreFuture::ready(Err(decides_nothing()))
    }

    fn reset(&self, _: &Policy, _: Key) -> StoreFuture<()> {
        StoreFuture::ready(Err(decides_nothing()))
    }

    fn figures(&self, visit: &mut dyn FnMut(Figure<'_>)) {
        for (name, policy, kind, unit, value) in self.0.lock().unwrap().iter() {
            let policy = policy.map(PolicyName::literal);
            let figure = match kind {
                FigureKind::Counter => Figure::counter(name, *value, "A total."),
                _ => Figure::gauge(name, *value, "A number."),
            };
            let figure = figure.in_unit(*unit);
            visit(policy.as_ref().map_or(figure, |policy| figure.of_policy(policy)));
        }
    }
}

fn decides_nothing() -> StoreError {
    StoreError::new(StoreErrorKind::Unsupported, "it decides nothing")
}

const fn counter(name: &'static str, policy: Option<&'static str>, value: u64) -> Report {
    (name, policy, FigureKind::Counter, FigureUnit::Count, value)
}

const fn gauge(name: &'static str, policy: Option<&'static str>, value: u64) -> Report {
    (name, policy, FigureKind::Gauge, FigureUnit::Count, value)
}

struct Recorded {
    figures: Figures,
    events: Events,
    exporter: PrometheusHandle,
}

impl Recorded {
    fn new() -> Self {
        let recorder = PrometheusBuilder::new().build_recorder();
        let exporter = recorder.handle();
        let handles = Handles::of(Arc::new(recorder));
        Self { figures: Figures::new(&handles), events: Events::new(&handles), exporter }
    }

    fn refresh(&self, store: &Arc<Reporting>) {
        let store: Arc<dyn Store> = Arc::clone(store) as _;
        self.figures.refresh(&self.events, &store, 0);
    }

    /// The value of the series of a figure.
    fn value(&self, series: &str) -> String {
        let (text, series) = (self.exporter.render(), format!("portcullis_store_{series} "));
        let value = text.lines().find_map(|line| line.strip_prefix(&series));
        value.unwrap_or_else(|| panic!("no {series}in {text}")).to_owned()
    }
}

#[test]
fn figures_of_several_stores_are_added_up() {
    let (recorded, one, other) = (Recorded::new(), Arc::default(), Arc::<Reporting>::default());
    for (store, value) in [(&one, 100), (&other, 7)] {
        Reporting::report(store, &[counter("calls", None, value), gauge("leases", None, value)]);
    }
    for _ in 0..3 {
        recorded.refresh(&one);
        recorded.refresh(&other);
    }
    assert_eq!([recorded.value("calls_total"), recorded.value("leases")], ["107", "107"]);
    // A counter keeps what a store has counted that is gone.
    drop(one);
    recorded.refresh(&other);
    assert_eq!([recorded.value("calls_total"), recorded.value("leases")], ["107", "7"]);
}

#[test]
fn policies_that_a_store_forgets_leave_no_stale_gauges() {
    let (recorded, store) = (Recorded::new(), Arc::<Reporting>::default());
    let of = |overflows, entries| {
        [counter("overflows", Some("search"), overflows), gauge("entries", Some("search"), entries)]
    };
    store.report(&of(5, 20));
    recorded.refresh(&store);
    store.report(&[]);
    recorded.refresh(&store);
    let series = ["policy_overflows_total{policy=\"search\"}", "policy_entries{policy=\"search\"}"];
    assert_eq!(series.map(|series| recorded.value(series)), ["5", "0"]);
    // It comes back, and counts from zero.
    store.report(&of(2, 3));
    recorded.refresh(&store);
    assert_eq!(series.map(|series| recorded.value(series)), ["7", "3"]);
    // One of two versions of the policy is forgotten between two calls.
    store.report(&of(1, 3));
    recorded.refresh(&store);
    store.report(&of(3, 3));
    recorded.refresh(&store);
    assert_eq!(recorded.value(series[0]), "9");
}

#[test]
fn a_time_that_grows_never_falls() {
    let (recorded, store) = (Recorded::new(), Arc::<Reporting>::default());
    for (micros, expected) in [(1_500_000, "1.5"), (1_000_000, "1.5"), (2_000_000, "2.5")] {
        store.report(&[("degraded", None, FigureKind::Counter, FigureUnit::Microseconds, micros)]);
        recorded.refresh(&store);
        assert_eq!(recorded.value("degraded_seconds"), expected);
    }
}

#[test]
fn counters_are_exact_beyond_what_a_float_holds() {
    let (recorded, store) = (Recorded::new(), Arc::<Reporting>::default());
    for value in [(1 << 53) + 1, u64::MAX] {
        store.report(&[counter("calls", None, value)]);
        recorded.refresh(&store);
        assert_eq!(recorded.value("calls_total"), value.to_string());
    }
}

#[test]
fn calls_at_once_count_nothing_twice() {
    let (recorded, store) = (Recorded::new(), Arc::<Reporting>::default());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..200).for_each(|_| recorded.refresh(&store)));
        }
        for value in 1..=1_000 {
            store.report(&[counter("calls", None, value)]);
        }
    });
    recorded.refresh(&store);
    assert_eq!(recorded.value("calls_total"), "1000");
}
