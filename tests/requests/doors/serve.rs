//! Envoy's rate limit service, with one descriptor that has what Envoy knows of the request.

use axum::http::Response;
use portcullis::Limiter;
use portcullis_rls::messages::rate_limit_descriptor::Entry;
use portcullis_rls::messages::{RateLimitDescriptor, RateLimitRequest, rate_limit_response::Code};
use portcullis_rls::{RateLimitService, ResponseHeaders};

use super::{Answer, answer};
use crate::timeline::Step;

pub(crate) struct Serve(RateLimitService);

impl Serve {
    pub(super) fn new(limiter: &Limiter) -> Result<Self, String> {
        let rules = limiter.rules().unwrap().clone();
        let service = RateLimitService::native(limiter.clone(), rules).map_err(|error| error.to_string())?;
        Ok(Self(service.response_headers(ResponseHeaders::XRateLimit)))
    }

    /// `OK` is 200, `OVER_LIMIT` 429, and a call that fails 503.
    pub(super) async fn ask(&self, step: &Step) -> Answer {
        let peer = step.peer.to_string();
        let head = [(":method", step.method()), (":path", step.path()), ("remote_address", &*peer)];
        let entry = |(key, value): (&str, &str)| Entry { key: key.to_owned(), value: value.to_owned() };
        let entries = head.into_iter().chain(step.header_lines()).map(entry).collect();
        let descriptor = RateLimitDescriptor { entries, ..RateLimitDescriptor::default() };
        let request =
            RateLimitRequest { domain: "shop".to_owned(), descriptors: vec![descriptor], hits_addend: 0 };
        let Ok(decided) = self.0.decide(&request).await else {
            return answer(Response::builder().status(503).body("").expect("the response is valid"));
        };
        let status = if decided.overall_code() == Code::Ok { 200 } else { 429 };
        let mut response = Response::builder().status(status);
        for header in &decided.response_headers_to_add {
            response = response.header(&header.key, &header.value);
        }
        answer(response.body(decided.raw_body).expect("the headers are valid"))
    }
}
