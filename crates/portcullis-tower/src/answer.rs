//! The answers that the layer gives itself, and what it adds to those of the inner service.

mod accept;
mod fields;
mod grpc;
mod problem;
mod rejection;
mod values;

use std::iter;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Response, header};
use http_body_util::Full;
use portcullis_core::{Decision, Policy};

use crate::Charge;
use crate::headers::X_RATELIMIT_SHADOW;

use fields::Fields;
pub use fields::RateLimitHeaders;
pub(crate) use fields::exposed;
pub(crate) use rejection::Cause;
pub use rejection::{Reason, Rejection};
pub(crate) use values::list as shadow_names;

/// How a layer answers.
#[derive(Clone)]
pub(crate) struct Answers {
    fields: Fields,
    custom: Option<Arc<Custom>>,
    in_extensions: bool,
}

pub(crate) type Custom = dyn Fn(&Rejection<'_>) -> Response<Bytes> + Send + Sync;

impl Answers {
    pub(crate) fn new() -> Self {
        Self { fields: Fields::default(), custom: None, in_extensions: false }
    }

    /// Renders what is the same in all answers.
    pub(crate) fn know<'a>(&mut self, enforced: impl Iterator<Item = &'a Policy>) {
        self.fields = Fields::new(self.headers(), enforced);
    }

    /// Takes effect when the policies are [known](Answers::know) again.
    pub(crate) fn set_headers(&mut self, headers: RateLimitHeaders) {
        self.fields = Fields::new(headers, iter::empty());
    }

    pub(crate) fn headers(&self) -> RateLimitHeaders {
        self.fields.which()
    }

    pub(crate) fn set_custom(&mut self, custom: Arc<Custom>) {
        self.custom = Some(custom);
    }

    pub(crate) fn put_decision_in_extensions(&mut self) {
        self.in_extensions = true;
    }

    /// The response to a request that does not reach the inner service, in the manner of the request.
    pub(crate) fn refuse(&self, rejection: &Rejection<'_>) -> Response<Full<Bytes>> {
        let mut response = match (grpc::content_type(rejection.parts()), &self.custom) {
            (Some(content_type), _) => grpc::response(rejection, content_type),
            (None, Some(custom)) => custom(rejection),
            (None, None) => problem::response(rejection),
        };
        // From here on, what no closure can lose.
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(challenge) =
            rejection.challenge().filter(|_| !headers.contains_key(header::WWW_AUTHENTICATE))
        {
            headers.insert(header::WWW_AUTHENTICATE, challenge.clone());
        }
        if let Some(decision) = rejection.decision() {
            self.fields.refuse(decision, headers);
            match rejection.retry_after() {
                Some(wait) => headers.insert(header::RETRY_AFTER, values::number(wait.as_secs())),
                None => headers.remove(header::RETRY_AFTER),
            };
            if self.in_extensions {
                response.extensions_mut().insert(decision.clone());
            }
        }
        let tells_figures = rejection.decision().is_some() && self.headers().has_figures();
        if !tells_figures && rejection.parts().extensions.get::<Charge>().is_some() {
            response.extensions_mut().insert(HasSpoken);
        }
        if rejection.parts().method == Method::HEAD {
            leave_out_body(&mut response);
        }
        response.map(Full::new)
    }

    /// An inner layer that has spoken, or has written its own headers or decision, knows better.
    fn note<B>(&self, decision: &Decision, is_degraded: bool, is_inside: bool, response: &mut Response<B>) {
        if response.extensions().get::<HasSpoken>().is_none() {
            self.fields.note(decision, is_degraded, response.headers_mut());
            if is_inside && !self.headers().has_figures() && decision.is_metered() {
                response.extensions_mut().insert(HasSpoken);
            }
        }
        if self.in_extensions && response.extensions().get::<Decision>().is_none() {
            response.extensions_mut().insert(decision.clone());
        }
    }
}

/// Left in a response by a layer that has decided or refused and whose headers do not show it, for those outside: their
/// budget is not what the answer is about. Not left where no layer outside has counted the request, because it allocates.
#[derive(Clone)]
struct HasSpoken;

/// Says how long the body would have been. Not every server drops it: over HTTP/2, content in answer to HEAD is a protocol
/// error.
///
/// Source: RFC 9110, sections 8.6 and 9.3.2; RFC 9113, section 8.1.1.
fn leave_out_body(response: &mut Response<Bytes>) {
    let body = mem::take(response.body_mut());
    // A closure that knows about HEAD has said it itself.
    if !body.is_empty() && !response.headers().contains_key(header::CONTENT_LENGTH) {
        response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    }
}

/// What an admitted request's response is told.
#[derive(Default)]
pub(crate) struct Note {
    pub(crate) charge: Option<Charge>,
    /// The shadow policies that would have refused it.
    pub(crate) shadow: Option<HeaderValue>,
}

impl Note {
    pub(crate) fn write<B>(self, response: &mut Response<B>) {
        if let Some(charge) = self.charge {
            let is_inside = charge.outer().is_some();
            charge.with_current(|answers, decision, is_degraded| {
                answers.note(decision, is_degraded, is_inside, response);
            });
        }
        if let Some(names) = self.shadow {
            response.headers_mut().append(&X_RATELIMIT_SHADOW, names);
        }
    }
}

/// Rounded up: who comes back after so many seconds is not too early.
fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0))
}
