//! The settings of a layer, by which it decides.

mod classes;
mod permit;
mod places;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};
use http_body_util::Full;
use portcullis_engine::{Class, Event, EventKind, Reason};
use portcullis_identity::matching::{PathReadings, RequestMatcher};
use portcullis_response::Rejection;
use portcullis_response::internal::{Cause, ResponseSettings, RetrySpread};
use portcullis_tower::internal::ListedShed as _;
use portcullis_tower::{BodyRate, Registry};

use crate::limit::{self, Tolerance};
use crate::shared::Shared;
use places::Caller;

pub(crate) use classes::Classes;
pub(crate) use permit::Permit;
pub use permit::ShedPermit;
pub(crate) use places::Places;

/// The settings of a layer, and what its services share.
#[derive(Clone)]
pub(crate) struct ShedConfig {
    pub registry: Arc<Registry>,
    pub shared: Arc<Shared>,
    pub responses: ResponseSettings,
    pub classes: Classes,
    /// Requests that are neither shed nor in flight.
    pub except: Vec<Arc<dyn RequestMatcher>>,
    /// The places of each caller, if callers have shares.
    pub places: Option<Arc<Places>>,
    /// In thousandths of the limit.
    pub reserved: u32,
    /// In thousandths of the limit.
    pub background: u32,
    pub tolerance: Tolerance,
    pub shortest_wait: Duration,
    /// The bytes that are read of the body of a rejected request.
    pub discarded_bytes: u64,
    /// `None` for request bodies that may take any time.
    pub body_rate: Option<BodyRate>,
    pub spread: RetrySpread,
    pub overload_status: Arc<dyn Fn(StatusCode) -> bool + Send + Sync>,
    pub until_head: bool,
    pub leaves_permit: bool,
    pub is_shadow: bool,
}

/// What becomes of a request.
pub(crate) enum Entry {
    /// Without a permit if the limiter is off, or the request is excepted.
    Admitted(Option<Permit>),
    Rejected(Response<Full<Bytes>>),
}

/// Why there is no place for a request.
struct NoPlace {
    class: Class,
    limit: u32,
    in_flight: u32,
}

impl ShedConfig {
    #[inline]
    pub(crate) fn enter(self: &Arc<Self>, parts: &Parts) -> Entry {
        let request = PathReadings::of(parts);
        if self.registry.is_off() || self.except.matches_with(&request) == Ok(true) {
            return Entry::Admitted(None);
        }
        let class = self.classes.of(&request);
        let (limit, share) = (self.shared.limit(), limit::share(class, self.reserved, self.background));
        let Some((places, caller)) = self.caller(parts) else {
            let most = limit::most(limit, share);
            return match self.shared.enter_below(most, u32::MAX) {
                Ok(counts) => Entry::Admitted(Some(Permit::new(self, counts, None))),
                Err(in_flight) => self.shed(parts, &NoPlace { class, limit, in_flight }, None),
            };
        };
        match places.enter(caller, &self.shared, share) {
            Ok((counts, place)) => Entry::Admitted(Some(Permit::new(self, counts, Some(place)))),
            Err(in_flight) => self.shed(parts, &NoPlace { class, limit, in_flight }, Some((places, caller))),
        }
    }

    /// The caller, if it has a share.
    #[inline]
    fn caller(&self, parts: &Parts) -> Option<(&Arc<Places>, Caller)> {
        let places = self.places.as_ref()?;
        Some((places, places.caller(parts, self.registry.secret())?))
    }

    #[cold]
    fn shed(
        self: &Arc<Self>,
        parts: &Parts,
        full: &NoPlace,
        caller: Option<(&Arc<Places>, Caller)>,
    ) -> Entry {
        let (is_shadow, shared) = (self.is_shadow, &self.shared);
        shared.rejected(self.tolerance);
        let NoPlace { class, limit, in_flight } = *full;
        self.emit(EventKind::Shed { class, limit, in_flight, is_shadow });
        if is_shadow {
            let place = caller.map(|(places, caller)| places.enter_anyway(caller));
            return Entry::Admitted(Some(Permit::new(self, shared.enter_anyway(), place)));
        }
        self.emit(EventKind::Rejected { reason: Reason::Shed, decisions: &[] });
        let wait = self.shortest_wait.saturating_add(self.spread.offset(None));
        let rejection = Rejection::new(parts, Cause::Shed).retried_later_by(wait);
        Entry::Rejected(self.responses.reject(&rejection))
    }

    fn emit(&self, kind: EventKind<'_>) {
        self.registry.engine().emit(&self.shared.log, &Event::new(&[], kind));
    }
}

impl fmt::Debug for ShedConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShedConfig").field("shared", &self.shared).finish_non_exhaustive()
    }
}
