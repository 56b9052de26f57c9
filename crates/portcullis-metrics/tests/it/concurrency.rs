//! Exact counts while threads send requests at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use portcullis_core::{Policy, Quota};
use portcullis_tower::{Global, Header, Limit, PolicyExt as _, RateLimitLayer};

use crate::support::{Recorded, Truth, from_user, send};

const THREADS: u64 = 8;
const REQUESTS: u64 = 400;
const USERS: u64 = 4;

#[test]
fn metrics_equal_what_clients_and_another_observer_count() {
    let (registry, recorded) = Recorded::registry(1_000);
    let truth = Truth::default();
    registry.observe(Arc::new(truth.clone()));
    let window = |name, limit| Policy::fixed_window(name, Quota::per_week(limit));
    let search =
        RateLimitLayer::new(Arc::clone(&registry), window("search", 300).by(Header::named("x-user")).cost(2))
            .and(Limit::new(window("trial", 50)).shadow());
    let login = RateLimitLayer::new(Arc::clone(&registry), window("login", 500).by(Global));

    let (admitted, limited) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (search, login, admitted, limited) = (&search, &login, &admitted, &limited);
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                runtime.block_on(async {
                    for request in 0..REQUESTS {
                        let layer = if request % 4 == 0 { login } else { search };
                        let status =
                            send(layer, from_user(&format!("user {}", (thread + request) % USERS))).await;
                        let counter = if status == 200 { admitted } else { limited };
                        assert!(status == 200 || status == 429, "{status}");
                        counter.fetch_add(1, Ordering::Relaxed);
                    }
                });
            });
        }
    });

    let names = [
        "portcullis_requests_total",
        "portcullis_decisions_total",
        "portcullis_charged_units_total",
        "portcullis_would_reject_total",
    ];
    let counted = recorded.nonzero(&names);
    assert_eq!(counted, truth.counted());
    // The limits are known, so every number is.
    let [admitted, limited] = [admitted, limited].map(AtomicU64::into_inner);
    let login_requests = THREADS * REQUESTS / 4;
    let search_requests = THREADS * REQUESTS - login_requests;
    let search_admitted = USERS * 300 / 2;
    let expected = [
        ("portcullis_requests_total{outcome=\"admitted\"}", admitted),
        ("portcullis_requests_total{outcome=\"limited\"}", limited),
        ("portcullis_decisions_total{policy=\"login\",outcome=\"allowed\"}", 500),
        ("portcullis_decisions_total{policy=\"login\",outcome=\"denied\"}", login_requests - 500),
        ("portcullis_decisions_total{policy=\"search\",outcome=\"allowed\"}", search_admitted),
        (
            "portcullis_decisions_total{policy=\"search\",outcome=\"denied\"}",
            search_requests - search_admitted,
        ),
        ("portcullis_charged_units_total{policy=\"login\"}", 500),
        ("portcullis_charged_units_total{policy=\"search\"}", 2 * search_admitted),
        ("portcullis_charged_units_total{policy=\"trial\"}", USERS * 50),
        ("portcullis_would_reject_total{policy=\"trial\",cause=\"limited\"}", search_admitted - USERS * 50),
    ];
    let expected: BTreeMap<_, _> = expected.map(|(series, value)| (series.to_owned(), value)).into();
    assert_eq!(counted, expected);
    assert_eq!(admitted + limited, THREADS * REQUESTS);
}
