//! The responses of the layer itself, and its additions to the responses of the inner service.

mod accept;
mod fields;
mod grpc;
mod individual;
mod lines;
mod names;
#[cfg(feature = "openapi")]
mod openapi;
mod prepared;
mod problem;
mod rejection;
mod soft_limits;
mod spread;
mod values;

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Response, header};
use http_body_util::Full;
use portcullis_core::{Decision, Policy};

use fields::Fields;
pub use fields::RateLimitHeaders;
pub(crate) use individual::Individual;
use portcullis_engine::Rejected;
use portcullis_identity::matching::grpc_content_type;
pub(crate) use rejection::Cause;
pub use rejection::Rejection;
pub(crate) use soft_limits::SoftLimits;
pub(crate) use spread::RetrySpread;
use spread::retry_seed;
pub(crate) use values::list as shadow_names;

/// The settings for the responses of a layer.
#[derive(Clone)]
pub(crate) struct ResponseSettings {
    headers: RateLimitHeaders,
    /// Made of `headers` by [`render`](ResponseSettings::render).
    fields: Fields,
    custom: Option<Arc<Custom>>,
    in_extensions: bool,
    retry_spread: Option<RetrySpread>,
    soft_limits: SoftLimits,
}

pub(crate) type Custom = dyn Fn(&Rejection<'_>) -> Response<Bytes> + Send + Sync;

impl ResponseSettings {
    pub(crate) fn new() -> Self {
        Self {
            headers: RateLimitHeaders::default(),
            fields: Fields::default(),
            custom: None,
            in_extensions: false,
            retry_spread: None,
            soft_limits: SoftLimits::default(),
        }
    }

    /// Renders the header values that are the same in all responses. The configuration calls it after each change of the
    /// settings or the policies.
    ///
    /// `listed` are the policies that the headers show, with their indexes in the layer.
    pub(crate) fn render<'a>(&mut self, listed: impl Iterator<Item = (usize, &'a Policy)>) {
        self.fields = Fields::new(self.headers, listed);
    }

    pub(crate) fn set_headers(&mut self, headers: RateLimitHeaders) {
        self.headers = headers;
    }

    pub(crate) fn headers(&self) -> RateLimitHeaders {
        self.headers
    }

    pub(crate) fn set_custom(&mut self, custom: Arc<Custom>) {
        self.custom = Some(custom);
    }

    pub(crate) fn custom(&self) -> Option<Arc<Custom>> {
        self.custom.clone()
    }

    pub(crate) fn put_decision_in_extensions(&mut self) {
        self.in_extensions = true;
    }

    pub(crate) fn set_soft_limits(&mut self, soft_limits: SoftLimits) {
        self.soft_limits = soft_limits;
    }

    #[inline]
    pub(crate) fn soft_limits(&self) -> &SoftLimits {
        &self.soft_limits
    }

    /// The headers to expose to pages of other origins.
    pub(crate) fn exposed(&self) -> Vec<HeaderName> {
        let warning = self.soft_limits.header_name().filter(|_| self.headers.has_figures());
        self.headers.names().chain(warning).chain([header::RETRY_AFTER]).collect()
    }

    pub(crate) fn set_retry_spread(&mut self, spread: RetrySpread) {
        self.retry_spread = Some(spread);
    }

    /// The time to add to the wait of a rejection: by its narrowest key, if retries are spread.
    pub(crate) fn retry_offset(&self, cause: Cause<'_>) -> Duration {
        match (&self.retry_spread, cause) {
            (Some(spread), Cause::Limits(Rejected::Limited { key, .. })) => {
                spread.offset(key.map(retry_seed))
            }
            _ => Duration::ZERO,
        }
    }

    /// The response to a request that does not reach the inner service, in the protocol of the request. `is_nested` is whether an
    /// outer layer has counted the request.
    pub(crate) fn reject(&self, rejection: &Rejection<'_>, is_nested: bool) -> Response<Full<Bytes>> {
        self.render_rejection(rejection, is_nested).map(Full::new)
    }

    /// The same, with the body in one piece.
    pub(crate) fn render_rejection(&self, rejection: &Rejection<'_>, is_nested: bool) -> Response<Bytes> {
        let mut response =
            self.render_prepared(rejection).unwrap_or_else(|| self.render_any(rejection, is_nested));
        if rejection.parts().method == Method::HEAD {
            leave_out_body(&mut response);
        }
        response
    }

    /// The response to the most frequent rejection, if it is one.
    fn render_prepared(&self, rejection: &Rejection<'_>) -> Option<Response<Bytes>> {
        let (outcome, _) = rejection.limited()?;
        if self.custom.is_some() || self.in_extensions || is_grpc(rejection.parts()) {
            return None;
        }
        let headers = self.fields.prepared_denial(outcome.decision(), rejection.retry_after()?)?;
        let (content_type, body) = problem::rendered(rejection);
        let mut response = Response::new(body);
        *response.status_mut() = rejection.status();
        *response.headers_mut() = headers(content_type);
        Some(response)
    }

    fn render_any(&self, rejection: &Rejection<'_>, is_nested: bool) -> Response<Bytes> {
        let mut response = match (grpc_content_type(rejection.parts()), &self.custom) {
            (Some(content_type), _) => grpc::response(rejection, content_type),
            (None, Some(custom)) => custom(rejection),
            (None, None) => rejection.response(),
        };
        // A closure cannot remove the headers that follow.
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, NO_STORE.clone());
        if let Some(challenge) =
            rejection.challenge().filter(|_| !headers.contains_key(header::WWW_AUTHENTICATE))
        {
            headers.insert(header::WWW_AUTHENTICATE, challenge.clone());
        }
        let mut has_figures = false;
        if let (Cause::Shed, Some(wait)) = (rejection.cause(), rejection.retry_after()) {
            headers.insert(header::RETRY_AFTER, values::number(wait.as_secs()));
        }
        if let Some((outcome, checked)) = rejection.limited() {
            let decision = outcome.decision();
            let (individual, retry_after) = (Individual::Of(outcome), rejection.retry_after());
            has_figures = self.fields.write_denial(decision, checked, individual, retry_after, headers);
            if self.in_extensions {
                response.extensions_mut().insert(decision.clone());
            }
        }
        if let (Cause::NoKey(error), true) = (rejection.cause(), self.in_extensions) {
            response.extensions_mut().insert(error.clone());
        }
        if !has_figures && is_nested {
            mark_as_decided(&mut response);
        }
        response
    }

    /// Whether the response to an admitted request shows its decisions.
    pub(crate) fn show_decisions(&self) -> bool {
        self.headers.has_figures() || self.in_extensions
    }

    /// Writes the headers of an admitted request; figures set by an inner layer win. `is_nested` is whether an outer layer has
    /// counted the request.
    pub(crate) fn write_admitted<B>(
        &self,
        decision: &Decision,
        all: &[Decision],
        individual: Individual<'_>,
        is_nested: bool,
        response: &mut Response<B>,
    ) {
        if response.extensions().get::<InnerDecided>().is_none() {
            self.fields.write_if_absent(decision, all, individual, response.headers_mut());
            if is_nested && !self.headers.has_figures() && decision.is_metered() {
                mark_as_decided(response);
            }
        }
        if self.headers.has_figures() {
            self.soft_limits.write(all, response.headers_mut());
        }
        if self.in_extensions && response.extensions().get::<Decision>().is_none() {
            response.extensions_mut().insert(decision.clone());
        }
    }
}

/// A rejection is never cached.
static NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// The headers that a rejection has in most cases, with the `Content-Length` that the server adds: reserved at once, because a
/// header map that grows is allocated again.
const USUAL_HEADERS: usize = 12;

/// Whether a request is a call of gRPC or gRPC-Web.
pub(crate) fn is_grpc(parts: &Parts) -> bool {
    grpc_content_type(parts).is_some()
}

/// Marks the response of a layer that has decided or rejected and whose headers do not show it, so that outer layers do not
/// write their budget. Not called if no outer layer has counted the request, because the mark allocates.
pub(crate) fn mark_as_decided<B>(response: &mut Response<B>) {
    response.extensions_mut().insert(InnerDecided);
}

#[derive(Clone)]
struct InnerDecided;

/// Replaces the body by its length in `Content-Length`. Not every server drops the body: over HTTP/2, content in a response to
/// HEAD is a protocol error.
///
/// Source: RFC 9110, sections 8.6 and 9.3.2; RFC 9113, section 8.1.1.
fn leave_out_body(response: &mut Response<Bytes>) {
    let body = mem::take(response.body_mut());
    // A closure that handles HEAD has set the length itself.
    if !body.is_empty() && !response.headers().contains_key(header::CONTENT_LENGTH) {
        response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    }
}

/// Rounded up, so that a retry after this number of seconds is not too early.
fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0))
}
