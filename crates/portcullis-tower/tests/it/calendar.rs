//! Calendar windows behind the layer.

use std::sync::Arc;

use portcullis_core::{CalendarWindow, ManualClock, Policy, PolicySettings, Secret, Timestamp, WindowTable};
use portcullis_memory::MemoryStore;
use portcullis_tower::{Global, PolicyExt as _, RateLimitHeaders, RateLimitLayer, Registry};

use crate::log::log;
use crate::probe::{probed, request, send};

/// The starts of January to April 2026, in UTC.
static STARTS: [Timestamp; 4] = [day(20_454), day(20_485), day(20_513), day(20_544)];
static MONTHS: WindowTable = table("months in UTC");
static SAME_MONTHS: WindowTable = table("months in UTC");
static OTHER_MONTHS: WindowTable = table("months in Utopia");

/// The start of a day, counted from 1970.
const fn day(number: u64) -> Timestamp {
    Timestamp::from_micros(number * 86_400_000_000)
}

const fn table(name: &'static str) -> WindowTable {
    match WindowTable::new(name, 673, &STARTS) {
        Ok(table) => table.made_from("2026a"),
        Err(_) => panic!("the starts ascend"),
    }
}

fn registry(clock: &ManualClock) -> Arc<Registry> {
    let store = MemoryStore::builder().clock(clock.clone()).build();
    Arc::new(Registry::new(Arc::new(store), Secret::published()))
}

#[tokio::test]
async fn headers_count_to_the_end_of_the_month() {
    let clock = ManualClock::new(STARTS[1]);
    let registry = registry(&clock);
    registry.headers(RateLimitHeaders::IETF | RateLimitHeaders::X_RATELIMIT);
    let policy = Policy::calendar_window("monthly", 1, &MONTHS);
    let (service, _) = probed(&RateLimitLayer::new(registry, policy.by(Global)));

    let admitted = send(&service, request(&[])).await;
    // The longest window, of 31 days, and what is left of February.
    assert_eq!(admitted.header("ratelimit-policy"), Some(r#""monthly";q=1;w=2678400"#));
    assert_eq!(admitted.header("ratelimit"), Some(r#""monthly";r=0;t=2419200"#));
    assert_eq!(admitted.header("x-ratelimit-reset"), Some("2419200"));
    let rejected = send(&service, request(&[])).await;
    assert_eq!((rejected.status, rejected.header("retry-after")), (429, Some("2419200")));

    clock.set(STARTS[2]);
    assert_eq!(send(&service, request(&[])).await.header("x-ratelimit-reset"), Some("2678400"));
}

#[test]
fn the_version_of_the_time_zone_data_is_logged_once() {
    let (log, _guard) = log();
    let registry = registry(&ManualClock::default());
    for name in ["first", "second"] {
        registry
            .register(
                &Policy::try_new(name, CalendarWindow::new(1, &MONTHS), PolicySettings::default()).unwrap(),
            )
            .unwrap();
    }
    let mut lines = log.lines();
    lines.retain(|line| !line.contains("is registered for checks in handlers"));
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert!(line.contains("version=\"2026a\"") && line.contains("policy=first"), "{line}");
}

#[test]
fn a_conflict_names_the_windows() {
    let registry = registry(&ManualClock::default());
    registry.register(&Policy::calendar_window("a", 5, &MONTHS)).unwrap();
    registry.register(&Policy::calendar_window("a", 5, &SAME_MONTHS)).unwrap();
    // Equal windows under another name have states of their own.
    assert!(registry.register(&Policy::calendar_window("a", 5, &OTHER_MONTHS)).is_err());
    let error = registry.register(&Policy::calendar_window("a", 6, &OTHER_MONTHS)).unwrap_err().to_string();
    assert!(error.contains("calendar_window 5 per window, months in UTC is registered"), "{error}");
    assert!(error.contains("calendar_window 6 per window, months in Utopia is refused"), "{error}");
}
