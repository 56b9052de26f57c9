//! Outages of the store, as layers see them begin and end.

use std::sync::Arc;
use std::time::Duration;

use portcullis_core::StoreErrorKind::{Overloaded, TimedOut, Unavailable};
use portcullis_core::{FailureMode, Policy, Quota};
use portcullis_tower::{Global, PolicyExt as _, RateLimitLayer};

use crate::failing::{Mode, Setup};
use crate::support::{from_user, send};

#[tokio::test(start_paused = true)]
async fn outages_and_recoveries_are_counted_for_each_layer() {
    let setup = Setup::new();
    let layers = ["open", "closed"].map(|name| {
        let failure = if name == "open" { FailureMode::Open } else { FailureMode::Closed };
        let policy = Policy::fixed_window(name, Quota::per_week(100)).on_store_failure(failure);
        RateLimitLayer::new(Arc::clone(&setup.registry), policy.by(Global))
    });
    for mode in [
        Mode::fails(Unavailable),
        Mode::fails(TimedOut),
        // Neither the end of an outage nor the begin of one.
        Mode::fails(Overloaded),
        Mode::Ready,
        Mode::Ready,
        Mode::fails(Overloaded),
        Mode::fails(Unavailable),
        Mode::Ready,
        Mode::fails(Unavailable),
    ] {
        setup.set(mode);
        for layer in &layers {
            send(layer, from_user("ada")).await;
        }
        tokio::time::advance(Duration::from_secs(2)).await;
    }
    setup.counted(
        &[
            "portcullis_outages_total",
            "portcullis_recoveries_total",
            "portcullis_unanswered_total",
            "portcullis_decisions_total",
        ],
        &[
            ("portcullis_decisions_total{policy=\"closed\",outcome=\"allowed\"}", 3),
            ("portcullis_decisions_total{policy=\"open\",outcome=\"allowed\"}", 3),
            ("portcullis_decisions_total{policy=\"open\",outcome=\"unmetered\"}", 4),
            ("portcullis_outages_total", 2 * 3),
            ("portcullis_recoveries_total", 2 * 2),
            ("portcullis_unanswered_total{kind=\"overloaded\"}", 2 * 2),
            ("portcullis_unanswered_total{kind=\"timed_out\"}", 2),
            ("portcullis_unanswered_total{kind=\"unavailable\"}", 2 * 3),
        ],
    );
}
