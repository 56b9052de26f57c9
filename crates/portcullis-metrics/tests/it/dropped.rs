//! Refunds and charges after a request that could not be made.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;
use std::task::{Context, Waker};

use http::{Request, Response};
use portcullis_core::{Policy, Quota};
use portcullis_tower::{Global, PolicyExt as _, RateLimitLayer, ResponseOutcome};
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::failing::{Mode, Setup};

/// Polls a request until it waits for the service, and drops it in a mode of the store. There is no runtime.
fn leave(setup: &Setup, layer: &RateLimitLayer, mode: Mode) {
    setup.set(Mode::Ready);
    let service = layer.layer(service_fn(|_: Request<String>| pending::<Result<Response<()>, Infallible>>()));
    let mut response = Box::pin(service.oneshot(Request::new(String::new())));
    for _ in 0..4 {
        assert!(response.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    setup.set(mode);
    drop(response);
}

#[test]
fn dropped_corrections_are_counted_by_what_they_are() {
    let setup = Setup::new();
    let limit = |name| {
        let policy = Policy::fixed_window(name, Quota::per_week(100));
        policy.by(Global).charge_when(|outcome: &ResponseOutcome<'_>| outcome.status() == 401)
    };
    let layer = |limit| RateLimitLayer::new(Arc::clone(&setup.registry), limit);
    let (refunds, charges) =
        (layer(limit("refunds").refund_unanswered()), layer(limit("charges").charge_after()));
    for _ in 0..3 {
        leave(&setup, &refunds, Mode::Later);
    }
    for _ in 0..2 {
        leave(&setup, &charges, Mode::Later);
    }
    // A store that answers at once needs no runtime.
    leave(&setup, &refunds, Mode::Ready);
    leave(&setup, &charges, Mode::Ready);
    setup.counted(
        &[
            "portcullis_dropped_corrections_total",
            "portcullis_refunded_units_total",
            "portcullis_charged_units_total",
        ],
        &[
            ("portcullis_charged_units_total{policy=\"charges\"}", 1),
            ("portcullis_charged_units_total{policy=\"refunds\"}", 4),
            ("portcullis_dropped_corrections_total{correction=\"charge\"}", 2),
            ("portcullis_dropped_corrections_total{correction=\"refund\"}", 3),
            ("portcullis_refunded_units_total{policy=\"refunds\"}", 1),
        ],
    );
}
