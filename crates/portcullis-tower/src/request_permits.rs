//! Releases the permits of a request when its response has ended.

use std::panic::{AssertUnwindSafe, catch_unwind};

use http::{Response, StatusCode};

use crate::ResponseBody;
use crate::body::{BodyEnd, BodyObserver};
use portcullis_engine::engine::permits::Permits;
use portcullis_engine::{EventKeys, EventKind};

/// The permits of a request that went to the inner service. Released when it is dropped, whoever else shares them; `None` once they
/// are left to others.
pub(crate) struct RequestPermits(Option<Permits>);

/// The permits of a request whose connection outlives the response. Who uses the connection keeps a permit or the charge.
struct UpgradedPermits(Permits);

impl RequestPermits {
    pub(crate) fn new(permits: Permits) -> Self {
        Self(Some(permits))
    }

    /// Releases what is held until the headers, and the rest when the body of the response has ended.
    pub(crate) fn release_at_end<B>(mut self, response: &mut Response<ResponseBody<B>>) {
        let Some(permits) = &self.0 else { return };
        permits.release_at_headers();
        let status = response.status();
        let is_upgraded =
            status == StatusCode::SWITCHING_PROTOCOLS || (status.is_success() && permits.is_connect());
        // Whether the body is complete at its end makes no difference, so neither does its length.
        let observer: Box<dyn BodyObserver> = match is_upgraded.then(|| self.0.take()).flatten() {
            Some(permits) => Box::new(UpgradedPermits(permits)),
            None => Box::new(self),
        };
        response.body_mut().observe(None, observer);
    }
}

impl Drop for RequestPermits {
    fn drop(&mut self) {
        if let Some(permits) = &self.0 {
            permits.release();
        }
    }
}

impl BodyObserver for RequestPermits {
    fn ended(self: Box<Self>, _: BodyEnd) {}
}

impl BodyObserver for UpgradedPermits {
    /// A panic, of an observer of events, ends here, because the body may be dropped during another panic.
    fn ended(self: Box<Self>, _: BodyEnd) {
        if let Some((store, policy)) = self.0.unreachable() {
            let emit = || store.emit(EventKind::UpgradeReleased { policy: &policy }, || EventKeys::None);
            drop(catch_unwind(AssertUnwindSafe(emit)));
        }
    }
}
