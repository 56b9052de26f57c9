//! The options that all layers of rules have.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, StatusCode};
use portcullis_tower::matching::RequestMatcher;
use portcullis_tower::{GrpcCode, RateLimitHeaders, RateLimitLayer, RejectionFormat};

use crate::hooks::RejectWith;

/// The options of `[layer]`.
#[derive(Clone, Default)]
pub(super) struct LayerOptions {
    pub(super) headers: Option<RateLimitHeaders>,
    pub(super) header_names: Vec<(HeaderName, HeaderName)>,
    pub(super) spread_retries: Option<Duration>,
    pub(super) limit_preflights: bool,
    pub(super) lookup_deadline: Option<Duration>,
    pub(super) ready_deadline: Option<Duration>,
    pub(super) discard_bodies: Option<u64>,
    pub(super) decision_in_response: bool,
    pub(super) with_charge: bool,
    pub(super) except: Vec<Arc<dyn RequestMatcher>>,
    pub(super) deny: Vec<Arc<dyn RequestMatcher>>,
    pub(super) only: Vec<Arc<dyn RequestMatcher>>,
    pub(super) reject_with: Option<Arc<RejectWith>>,
    pub(super) reject_as: Option<RejectionFormat>,
    pub(super) grpc_status: Option<GrpcCode>,
    pub(super) show_generation: Option<HeaderName>,
}

impl std::fmt::Debug for LayerOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LayerOptions").field("headers", &self.headers).finish_non_exhaustive()
    }
}

impl LayerOptions {
    /// Leaves out what decides nothing.
    pub(super) fn only_decide(&mut self) {
        self.headers = Some(RateLimitHeaders::NONE);
        (self.header_names, self.show_generation) = Default::default();
        self.with_charge = false;
    }

    /// What concerns requests that are denied although no rule matches them.
    pub(super) fn deny_in(&self, layer: RateLimitLayer) -> RateLimitLayer {
        let mut layer = self.deny.iter().fold(layer, |layer, matcher| layer.deny(Arc::clone(matcher)));
        if let Some(bytes) = self.discard_bodies {
            layer = layer.discard_bodies(bytes);
        }
        if self.decision_in_response {
            layer = layer.decision_in_response();
        }
        if let Some(format) = self.reject_as {
            layer = layer.reject_as(format);
        }
        if let Some(code) = self.grpc_status {
            layer = layer.reject_grpc_with(move |rejection, response| {
                if rejection.status() == StatusCode::TOO_MANY_REQUESTS {
                    response.set_code(code);
                }
            });
        }
        match self.reject_with.clone() {
            Some(reject_with) => layer.reject_with(move |rejection| reject_with(rejection)),
            None => layer,
        }
    }

    /// The options have been checked against all rules when they were read.
    pub(super) fn apply(&self, mut layer: RateLimitLayer) -> RateLimitLayer {
        if let Some(headers) = self.headers {
            layer = layer.headers(headers);
        }
        for (name, own) in &self.header_names {
            layer = layer.rename_header(name, own.clone()).expect("the names were checked");
        }
        if let Some(spread) = self.spread_retries {
            layer = layer.spread_retries(spread);
        }
        if self.limit_preflights {
            layer = layer.limit_preflights();
        }
        if let Some(deadline) = self.lookup_deadline {
            layer = layer.lookup_deadline(deadline);
        }
        if let Some(deadline) = self.ready_deadline {
            layer = layer.ready_deadline(deadline);
        }
        layer = self.deny_in(layer);
        layer = self.only.iter().fold(layer, |layer, matcher| layer.only(Arc::clone(matcher)));
        layer = self.except.iter().fold(layer, |layer, matcher| layer.except(Arc::clone(matcher)));
        if self.with_charge { layer.with_charge() } else { layer }
    }
}
