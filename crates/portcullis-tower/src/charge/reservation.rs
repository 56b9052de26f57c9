//! Settles the reservation of a request when its response has ended.

use std::panic::{AssertUnwindSafe, catch_unwind};

use http::request::Parts;
use http::{Extensions, Method, Response, StatusCode};
use portcullis_core::Decision;

use super::Charge;
use super::usage::{Counter, Usage};
use crate::body::{BodyEnd, BodyObserver, stated_length};
use crate::{OnAbort, ResponseBody};

/// The reservation of a request. Settled once: when the response body ends, or when this is dropped before there is a body.
pub(crate) struct Reservation(Box<Reserved>);

struct Reserved {
    charge: Charge,
    usage: Usage,
    /// The method of the request is `HEAD`, so the response has no body.
    is_head: bool,
    is_settled: bool,
}

impl Reservation {
    /// Leaves the counter of the usage in a request. `None` if no policy of the charge reserves.
    pub(super) fn start(charge: &Charge, parts: &mut Parts) -> Option<Self> {
        let usage = leave_usage(charge, &mut parts.extensions)?;
        let is_head = parts.method == Method::HEAD;
        Some(Self(Box::new(Reserved { charge: charge.clone(), usage, is_head, is_settled: false })))
    }

    /// Settles when the body of the response has ended.
    pub(crate) fn settle_at_end<B>(self, response: &mut Response<ResponseBody<B>>) {
        // A server drops the body of such a response without polling it.
        let length = if self.0.is_head || has_no_body(response.status()) {
            Some(0)
        } else {
            stated_length(response.headers())
        };
        response.body_mut().observe(length, self.0);
    }
}

/// Leaves the counter of the usage in the extensions of a request. `None` if no policy of the charge reserves.
pub(super) fn leave_usage(charge: &Charge, extensions: &mut Extensions) -> Option<Usage> {
    let policies = charge.shared.config.policies();
    let counter = |(index, decision): (usize, &Decision)| {
        let name = decision.policy();
        let reserves = policies.iter().find(|layer_policy| layer_policy.policy.name() == name)?;
        Some(Counter::new(name.clone(), index, reserves.reservation?))
    };
    let counters = charge.at_admission().iter().enumerate().filter_map(counter).collect();
    let usage = Usage::new(counters, extensions.get::<Usage>().cloned())?;
    extensions.insert(usage.clone());
    Some(usage)
}

/// Whether responses with this status never have a body (RFC 9110, section 6.4.1).
fn has_no_body(status: StatusCode) -> bool {
    status.is_informational() || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}

impl Reserved {
    /// Settles once. A panic, of an observer of events, ends here, because it would abort the process if it left a destructor
    /// during another panic.
    fn settle_once(&mut self, end: BodyEnd) {
        if !std::mem::replace(&mut self.is_settled, true) {
            drop(catch_unwind(AssertUnwindSafe(|| self.settle(end))));
        }
    }

    fn settle(&self, end: BodyEnd) {
        let shared = &self.charge.shared;
        let (config, ledger, basis) = (&shared.config, shared.ledger(), shared.charged());
        for counter in self.usage.counters() {
            let used = match (end, counter.on_abort) {
                (BodyEnd::Complete, _) | (_, OnAbort::Used) => counter.units(),
                (_, OnAbort::Nothing) => Some(0),
                _ => None,
            };
            let Some(used) = used else { continue };
            // It is settled already if the handler has done so.
            for correction in ledger.close(basis, Some(counter.index)).into_iter().flatten() {
                for (receipt, cost) in correction.keeping_slots().receipts_to_settle(used) {
                    config.limits.engine().backlog.settler.settle(&config.limits, receipt, cost);
                }
            }
        }
    }
}

impl BodyObserver for Reserved {
    fn ended(mut self: Box<Self>, end: BodyEnd) {
        self.settle_once(end);
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.settle_once(BodyEnd::Dropped);
    }
}
