//! The permit of a request in flight.

use std::fmt;
use std::sync::Arc;

use http::{Extensions, HeaderMap, StatusCode};
use portcullis_response::internal::GRPC_STATUS;
use portcullis_tower::GrpcClaim;
use portcullis_tower::internal::ListedShed as _;

use super::ShedConfig;
use super::places::Place;
use crate::limit::{End, Sample};
use crate::shared::{Counts, Shared};

/// A request in flight. Dropped when the body of its response has ended, or whatever else ends it.
#[derive(Debug)]
pub(crate) struct Permit {
    config: Arc<ShedConfig>,
    started: u64,
    waiting: u32,
    is_pressed: bool,
    has_head: bool,
    /// Whoever has it last ends the request.
    handed_over: Option<ShedPermit>,
}

/// A request in flight, for a task that outlives its response, such as one that uses an upgraded connection. In the extensions of requests
/// [if the layer leaves it there](crate::ShedLayer::leave_permit).
///
/// The request is in flight as long as a clone of it exists, in all layers that leave it there.
#[derive(Clone, Debug)]
#[must_use = "the request is not in flight any more when it is dropped"]
pub struct ShedPermit(Arc<Held>);

struct Held {
    shared: Arc<Shared>,
    place: Option<Place>,
    /// The permit of a layer around this one.
    outer: Option<ShedPermit>,
    /// That the response may prove.
    claim: Option<GrpcClaim>,
}

impl Held {
    fn permit(shared: &Arc<Shared>, place: Option<Place>) -> ShedPermit {
        ShedPermit(Arc::new(Self { shared: Arc::clone(shared), place, outer: None, claim: None }))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // First, so that its caller does not have it beyond its share when it is not in flight any more.
        self.place = None;
        self.shared.leave();
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Held")
    }
}

impl Permit {
    /// `place` is that of its caller, if callers have shares.
    pub(crate) fn new(config: &Arc<ShedConfig>, counts: Counts, place: Option<Place>) -> Self {
        let shared = &config.shared;
        Self {
            config: Arc::clone(config),
            started: shared.now(),
            waiting: counts.waiting,
            is_pressed: counts.in_flight.saturating_mul(2) >= shared.limit(),
            has_head: false,
            handed_over: place.map(|place| Held::permit(shared, Some(place))),
        }
    }

    /// Keeps the claim of the request to be a call of gRPC until its response head.
    pub(crate) fn keep_claim(&mut self, claim: GrpcClaim) {
        self.change(|held| held.claim = Some(claim));
    }

    /// Leaves a permit in the extensions of the request.
    pub(crate) fn hand_over(&mut self, extensions: &mut Extensions) {
        let permit = self.change(|held| held.outer = extensions.remove()).clone();
        extensions.insert(permit);
    }

    /// Changes what is held, before it has a clone.
    fn change(&mut self, change: impl FnOnce(&mut Held)) -> &ShedPermit {
        let shared = &self.config.shared;
        let permit = self.handed_over.get_or_insert_with(|| Held::permit(shared, None));
        if let Some(held) = Arc::get_mut(&mut permit.0) {
            change(held);
        }
        permit
    }

    /// The response head is there. Returns the permit if the body holds it as well.
    pub(crate) fn head(mut self, status: StatusCode, headers: &HeaderMap) -> Option<Self> {
        if let Some(claim) = self.handed_over.as_ref().and_then(|permit| permit.0.claim.as_ref()) {
            claim.answered(headers);
        }
        let end = if (self.config.overload_status)(status) {
            End::Overloaded
        } else if status.as_u16() >= 400 || headers.get(&GRPC_STATUS).is_some_and(|code| code != "0") {
            End::Unserved
        } else {
            End::Served
        };
        self.waited(end);
        self.config.shared.head();
        (!self.config.until_head).then_some(self)
    }

    fn waited(&mut self, end: End) {
        let Self { config, started, waiting, is_pressed, .. } = self;
        self.has_head = true;
        let shared = &config.shared;
        let (waiting, is_pressed) = (*waiting, *is_pressed);
        shared.sample(
            Sample { started: *started, now: shared.now(), waiting, is_pressed, end },
            config.tolerance,
        );
        shared.waited();
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.has_head {
            self.waited(End::Unserved);
        }
        if self.handed_over.is_none() {
            self.config.shared.leave();
        }
    }
}
