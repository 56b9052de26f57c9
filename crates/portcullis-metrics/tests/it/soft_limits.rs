//! Requests that are warned of a limit.

use std::sync::Arc;

use portcullis_core::{Policy, Quota};
use portcullis_tower::{Header, Limit, PolicyExt as _, RateLimitLayer};

use crate::support::{Recorded, from_user, send};

#[tokio::test]
async fn admitted_requests_from_the_fraction_on_are_counted() {
    let (registry, recorded) = Recorded::registry(100);
    let daily = |name, limit| Policy::fixed_window(name, Quota::per_day(limit));
    let layer = RateLimitLayer::new(
        Arc::clone(&registry),
        daily("daily", 5).by(Header::named("x-user")).warn_at(0.8),
    )
    .and(Limit::new(daily("total", 8)).warn_at(0.25))
    .and(daily("quiet", 5))
    .and(Limit::new(daily("trial", 5)).warn_at(0.2).shadow());
    for user in ["ada", "bob", "eve"] {
        let mut statuses = Vec::new();
        for _ in 0..7 {
            statuses.push(send(&layer, from_user(user)).await);
        }
        assert_eq!(statuses, [200, 200, 200, 200, 200, 429, 429]);
    }
    let expected = [
        ("portcullis_soft_limit_total{policy=\"daily\"}".to_owned(), 3 * 2),
        ("portcullis_soft_limit_total{policy=\"total\"}".to_owned(), 3 * 4),
    ];
    assert_eq!(recorded.nonzero(&["portcullis_soft_limit_total"]), expected.into());
}
