//! The responses of a layer itself, and its additions to the responses of the inner service.

use std::fmt;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Response, header};
use http_body_util::Full;
use portcullis_core::Decision;

use crate::bodies::CustomGrpc;
use crate::fields::{Fields, HeaderRenameError, HeaderRenames, Individual, ShownPolicy, SoftLimits, values};
use crate::rejection::{Cause, Rejection, RejectionResponse};
use crate::spread::{RetrySpread, retry_seed};
use crate::{GrpcRejection, RateLimitHeaders, RejectionFormat, bodies, fields};
use portcullis_engine::Rejected;
use portcullis_identity::matching::grpc_content_type;

/// The settings for the responses of a layer.
#[derive(Clone, Default)]
pub struct ResponseSettings {
    pub(crate) headers: RateLimitHeaders,
    /// Made of `headers` by [`render`](ResponseSettings::render).
    pub(crate) fields: Fields,
    pub(crate) custom: Option<Arc<CustomResponse>>,
    grpc: Option<Arc<CustomGrpc>>,
    format: RejectionFormat,
    in_extensions: bool,
    retry_spread: Option<RetrySpread>,
    soft_limits: SoftLimits,
    pub(crate) renames: HeaderRenames,
}

/// Makes the response of a rejection.
pub type CustomResponse = dyn Fn(&Rejection<'_>) -> Response<Bytes> + Send + Sync;

impl ResponseSettings {
    /// Renders the header values that are the same in all responses. The configuration calls it after each change of the
    /// settings or the policies.
    ///
    /// `enforced` are the policies that may reject requests.
    pub fn render(&mut self, enforced: &[ShownPolicy<'_>]) {
        self.soft_limits = SoftLimits::of(enforced);
        let listed = enforced.iter().filter(|shown| shown.is_listed);
        self.fields = Fields::new(self.headers, listed.map(|shown| (shown.index, shown.policy)));
    }

    /// Sets the headers that show clients their budget.
    pub fn set_headers(&mut self, headers: RateLimitHeaders) {
        self.headers = headers;
    }

    /// Gives a header another name.
    ///
    /// # Errors
    ///
    /// If it shows no budget, or the name is that of another header.
    pub fn rename_header(&mut self, from: HeaderName, to: HeaderName) -> Result<(), HeaderRenameError> {
        self.renames.add(from, to)
    }

    /// Returns these settings for a layer, whose own names of headers replace those that are set so far.
    #[must_use]
    pub fn inherited(&self) -> Self {
        let mut settings = self.clone();
        settings.renames.inherit();
        settings
    }

    /// The headers that show clients their budget.
    pub fn headers(&self) -> RateLimitHeaders {
        self.headers
    }

    /// Sets what makes the response of a rejection.
    pub fn set_custom<R: RejectionResponse>(
        &mut self,
        custom: impl Fn(&Rejection<'_>) -> R + Send + Sync + 'static,
    ) {
        self.custom = Some(Arc::new(move |rejection| custom(rejection).into_response()));
    }

    /// What makes the response of a rejection, if it was set.
    pub fn custom(&self) -> Option<Arc<CustomResponse>> {
        self.custom.clone()
    }

    /// Sets what changes the response of a rejection in gRPC.
    pub fn set_grpc(&mut self, change: impl Fn(&Rejection<'_>, &mut GrpcRejection) + Send + Sync + 'static) {
        self.grpc = Some(Arc::new(change));
    }

    /// Sets the format of bodies for clients without a preference.
    pub fn set_format(&mut self, format: RejectionFormat) {
        self.format = format;
    }

    /// The format of bodies for clients without a preference.
    pub fn format(&self) -> RejectionFormat {
        self.format
    }

    /// Leaves the decision in the extensions of responses.
    pub fn put_decision_in_extensions(&mut self) {
        self.in_extensions = true;
    }

    /// The policies that warn.
    #[inline]
    pub fn soft_limits(&self) -> &SoftLimits {
        &self.soft_limits
    }

    /// Returns these settings without a closure that makes responses.
    #[cfg(feature = "openapi")]
    pub(crate) fn with_default_responses(&self) -> Self {
        Self { custom: None, renames: HeaderRenames::default(), ..self.clone() }
    }

    /// The headers to expose to pages of other origins.
    pub fn exposed(&self) -> Vec<HeaderName> {
        let warning = self.soft_limits.header_name().filter(|_| self.headers.has_figures());
        let names = self.headers.names().map(|name| self.renames.name_of(&name).clone());
        names.chain(self.fields.own_names().cloned()).chain(warning).chain([header::RETRY_AFTER]).collect()
    }

    /// Spreads the retries of rejected clients.
    pub fn set_retry_spread(&mut self, spread: RetrySpread) {
        self.retry_spread = Some(spread);
    }

    /// The time to add to the wait of a rejection: by its narrowest key, if retries are spread.
    pub fn retry_offset(&self, cause: Cause<'_>) -> Duration {
        match (&self.retry_spread, cause) {
            (Some(spread), Cause::Limits(Rejected::Limited { key, .. })) => {
                spread.offset(key.map(retry_seed))
            }
            _ => Duration::ZERO,
        }
    }

    /// The response to a request that does not reach the inner service, in the protocol of the request.
    pub fn reject(&self, rejection: &Rejection<'_>) -> Response<Full<Bytes>> {
        self.render_rejection(rejection).map(Full::new)
    }

    /// Like [`reject`](Self::reject), but the body is in one piece.
    pub fn render_rejection(&self, rejection: &Rejection<'_>) -> Response<Bytes> {
        let rejection = &rejection.in_format(self.format);
        let mut response = self.render_prepared(rejection).unwrap_or_else(|| self.render_any(rejection));
        if rejection.parts().method == Method::HEAD {
            leave_out_body(&mut response);
        }
        response
    }

    /// The response to the most frequent rejection, if it is one.
    fn render_prepared(&self, rejection: &Rejection<'_>) -> Option<Response<Bytes>> {
        let (outcome, _) = rejection.limited()?;
        let is_plain = self.custom.is_none() && self.renames.is_empty() && !self.in_extensions;
        if !is_plain || is_grpc(rejection.parts()) {
            return None;
        }
        let headers = self.fields.prepared_denial(outcome.decision(), rejection.retry_after_seconds()?)?;
        let (content_type, body) = bodies::rendered(rejection);
        let mut response = Response::new(body);
        *response.status_mut() = rejection.status();
        *response.headers_mut() = headers(content_type);
        Some(response)
    }

    fn render_any(&self, rejection: &Rejection<'_>) -> Response<Bytes> {
        let mut response = match (grpc_content_type(rejection.parts()), &self.custom) {
            (Some(content_type), _) => bodies::grpc_response(rejection, content_type, self.grpc.as_deref()),
            (None, Some(custom)) => custom(rejection),
            (None, None) => rejection.response(),
        };
        // A closure cannot remove the headers that follow.
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, fields::NO_STORE.clone());
        if let Some(challenge) =
            rejection.challenge().filter(|_| !headers.contains_key(header::WWW_AUTHENTICATE))
        {
            headers.insert(header::WWW_AUTHENTICATE, challenge.clone());
        }
        let mut has_figures = false;
        if let (Cause::Shed, Some(wait)) = (rejection.cause(), rejection.retry_after_seconds()) {
            headers.insert(header::RETRY_AFTER, values::number(wait));
        }
        if let Some((outcome, checked)) = rejection.limited() {
            let decision = outcome.decision();
            let (individual, retry_after) = (Individual::Of(outcome), rejection.retry_after_seconds());
            has_figures = self.fields.write_denial(decision, checked, individual, retry_after, headers);
            if has_figures && !self.renames.is_empty() {
                self.renames.apply(headers);
                // An outer layer would not recognise them.
                has_figures = false;
            }
            if self.in_extensions {
                response.extensions_mut().insert(decision.clone());
            }
        }
        if let (Cause::NoKey(error), true) = (rejection.cause(), self.in_extensions) {
            response.extensions_mut().insert(error.clone());
        }
        // The figures of an outer layer beside this status would be taken for those that reject.
        if !has_figures {
            mark_as_decided(&mut response);
        }
        response
    }

    /// Whether the response to an admitted request shows its decisions.
    #[inline]
    pub fn show_decisions(&self) -> bool {
        self.headers.has_figures() || self.in_extensions
    }

    /// Writes the headers of an admitted request; figures set by an inner layer win. `is_nested` is whether an outer layer has
    /// left its charge.
    pub fn write_admitted<B>(
        &self,
        decision: &Decision,
        all: &[Decision],
        individual: Individual<'_>,
        is_nested: bool,
        response: &mut Response<B>,
    ) {
        if response.extensions().get::<InnerDecided>().is_none() {
            let is_written = self.fields.write_if_absent(decision, all, individual, response.headers_mut());
            let is_renamed = is_written && !self.renames.is_empty();
            if is_renamed {
                self.renames.apply(response.headers_mut());
            }
            let is_hidden = is_nested && !self.headers.has_figures() && decision.is_metered();
            // An outer layer would not recognise what is renamed, and whether there is one is not known.
            if is_renamed || is_hidden {
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

impl fmt::Debug for ResponseSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseSettings").field("headers", &self.headers).finish_non_exhaustive()
    }
}

/// Whether a request is a call of gRPC or gRPC-Web.
pub fn is_grpc(parts: &Parts) -> bool {
    grpc_content_type(parts).is_some()
}

/// Marks the response of a layer that has decided or rejected and whose headers do not show it, so that outer layers do not
/// write their budget. The mark allocates.
fn mark_as_decided<B>(response: &mut Response<B>) {
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
