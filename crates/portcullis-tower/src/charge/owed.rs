//! What a request owes once it goes to the inner service, until its response has ended: one list of obligations.

mod corrections;
mod outcome;
#[cfg(feature = "usage")]
mod reading;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use http::request::Parts;
use http::{HeaderMap, Method, Response, StatusCode};
use portcullis_core::Receipt;
use smallvec::SmallVec;

use crate::body::{BodyEnd, BodyObserver, stated_length};
use crate::config::LayerConfig;
use crate::{Charge, ResponseBody, Usage};
use portcullis_engine::engine::keyed_limit::UnsettledPermit;
use portcullis_engine::engine::permits::Permits;
use portcullis_engine::{EventKeys, EventKind};

pub(crate) use corrections::Corrections;
use outcome::Head;
pub(crate) use outcome::of_outcome;
#[cfg(feature = "usage")]
use reading::UsageScans;

/// The obligations of one request. Each is met once: by the head of the response, its end, or when this is dropped.
///
/// # Cancel safety
///
/// If it is dropped after the inner service was called, the request has no outcome. Corrections that the store does not answer at
/// once continue in the background.
pub(crate) struct Owed {
    config: Arc<LayerConfig>,
    /// `None` if no obligation is about it.
    charge: Option<Charge>,
    obligations: Obligations,
    /// Whether the inner service was called.
    is_called: bool,
    /// The response has no body.
    is_head: bool,
    /// The head of a response whose outcome is known with its trailers.
    head: Option<Box<Head>>,
    /// Present if the usage is read from the response.
    #[cfg(feature = "usage")]
    scans: Option<Box<UsageScans>>,
}

pub(crate) type Obligations = SmallVec<[Obligation; 1]>;

/// One obligation. Those that an outcome decides about have the index of their policy in the layer.
pub(crate) enum Obligation {
    /// Units that the policy at `index` of the charge was charged are refunded, unless the outcome charges the request.
    RefundUnless { policy: usize, index: usize, units: u64 },
    /// Like `RefundUnless`, but of a shadow policy.
    RefundShadowUnless { policy: usize, receipt: Receipt },
    /// Units are charged to the policy at `index` of the charge, if the outcome charges the request.
    ChargeIf { policy: usize, index: usize, units: u64, permit: Option<UnsettledPermit> },
    /// What was reserved is settled to what the response has used.
    SettleTo(Usage),
    /// Permits are released, whoever else shares them.
    Release(Permits),
    /// The connection outlives the response. Who uses it keeps a permit or the charge.
    LeaveTo(Permits),
}

impl Owed {
    pub(crate) fn new(config: &Arc<LayerConfig>) -> Box<Self> {
        Box::new(Self {
            config: Arc::clone(config),
            charge: None,
            obligations: Obligations::new(),
            is_called: false,
            is_head: false,
            head: None,
            #[cfg(feature = "usage")]
            scans: None,
        })
    }

    /// Releases the permits of the request at the end of its response.
    pub(crate) fn release(&mut self, permits: Permits) {
        self.obligations.push(Obligation::Release(permits));
    }

    /// Adds what the outcome of the request decides about.
    pub(crate) fn add(&mut self, of_outcome: Obligations, charge: Option<Charge>) {
        self.charge = charge;
        self.obligations.extend(of_outcome);
    }

    /// Records that the inner service is called next, and leaves it the counter of a usage to which the charge is settled. Until then
    /// nothing is corrected here.
    pub(crate) fn call(&mut self, usage: Option<(Usage, Charge)>, parts: &Parts) {
        self.is_called = true;
        self.is_head = parts.method == Method::HEAD;
        if let Some((usage, charge)) = usage {
            self.charge = Some(charge);
            self.obligations.push(Obligation::SettleTo(usage));
        }
    }

    /// Whether nothing is left to be done.
    pub(crate) fn is_over(&self) -> bool {
        self.obligations.is_empty()
    }

    /// Meets what is left at the end of the body.
    #[cold]
    pub(crate) fn observe<B>(mut self: Box<Self>, response: Response<B>) -> Response<ResponseBody<B>> {
        let status = response.status();
        for obligation in &mut self.obligations {
            let Obligation::Release(permits) = obligation else { continue };
            permits.release_at_headers();
            let is_upgraded =
                status == StatusCode::SWITCHING_PROTOCOLS || (status.is_success() && permits.is_connect());
            if is_upgraded {
                *obligation = Obligation::LeaveTo(permits.clone());
            }
        }
        // A server drops the body of such a response without polling it.
        let has_no_body = self.is_head || has_no_body(status);
        #[cfg(feature = "usage")]
        self.read_usage(has_no_body, &response);
        let length = if has_no_body { Some(0) } else { stated_length(response.headers()) };
        let mut response = response.map(ResponseBody::inner);
        response.body_mut().observe(length, self);
        response
    }

    /// Meets all obligations where no caller waits, in a destructor or at the end of a body. A panic, of an observer of events, ends
    /// here, because it would abort the process if it left a destructor during another panic.
    fn end(&mut self, end: BodyEnd) {
        let contained = |meet: &mut dyn FnMut()| drop(catch_unwind(AssertUnwindSafe(meet)));
        contained(&mut || drop(self.correct_at_end(end)));
        #[cfg(feature = "usage")]
        if end == BodyEnd::Complete {
            contained(&mut || self.emit_lost_usage());
        }
        let charge = self.charge.take();
        for obligation in &self.obligations {
            if let (Obligation::SettleTo(usage), Some(charge)) = (obligation, &charge) {
                contained(&mut || charge.settle_to(usage, end));
            }
        }
        // A charge keeps permits within reach.
        drop(charge);
        for obligation in self.obligations.drain(..) {
            contained(&mut || obligation.release());
        }
    }
}

#[cfg(feature = "usage")]
impl Owed {
    /// Begins to read the usage from the response.
    fn read_usage<B>(&mut self, has_no_body: bool, response: &Response<B>) {
        let usage = self.obligations.iter().find_map(|obligation| match obligation {
            Obligation::SettleTo(usage) => Some(usage),
            _ => None,
        });
        self.scans = usage.and_then(|usage| UsageScans::of(usage, has_no_body, response)).map(Box::new);
    }

    fn emit_lost_usage(&self) {
        for (counter, cause) in self.scans.iter().flat_map(|scans| scans.lost()) {
            let kind = EventKind::UsageLost { policy: counter.policy(), cause };
            self.config.limits.emit(kind, || EventKeys::None);
        }
    }
}

impl Obligation {
    fn release(&self) {
        match self {
            Self::Release(permits) => permits.release(),
            Self::LeaveTo(permits) => {
                if let Some((limits, policy)) = permits.unreachable() {
                    limits.emit(EventKind::UpgradeReleased { policy: &policy }, || EventKeys::None);
                }
            }
            _ => {}
        }
    }
}

impl BodyObserver for Owed {
    #[cfg(feature = "usage")]
    fn data(&mut self, data: &[u8]) {
        if let Some(scans) = &mut self.scans {
            scans.push(data);
        }
    }

    fn trailers(&mut self, trailers: &HeaderMap) {
        if let Some(head) = &mut self.head {
            head.trailers = Some(trailers.clone());
        }
    }

    fn ended(mut self: Box<Self>, end: BodyEnd) {
        self.end(end);
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        if !self.is_over() {
            self.end(BodyEnd::Dropped);
        }
    }
}

/// Whether responses with this status never have a body (RFC 9110, section 6.4.1).
fn has_no_body(status: StatusCode) -> bool {
    status.is_informational() || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
}
