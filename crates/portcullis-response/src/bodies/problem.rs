//! Renders rejections in HTTP: text, JSON or problem details.

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use portcullis_core::PolicyName;
use serde_core::ser::SerializeMap as _;
use serde_core::{Serialize, Serializer};

use super::USUAL_HEADERS;
use super::accept::preferred;
use crate::fields::values::ItemBuf;
use crate::{Rejection, RejectionFormat};
use portcullis_engine::Reason;

impl Rejection<'_> {
    /// Returns the default response: plain text, `application/json` or `application/problem+json`, as the request's `Accept`
    /// prefers, or `RateLimitLayer::reject_as` where it does not. The headers of every rejection are added later.
    pub fn response(&self) -> Response<Bytes> {
        let (content_type, body) = rendered(self);
        let mut response = Response::new(body);
        *response.status_mut() = self.status();
        response.headers_mut().reserve(USUAL_HEADERS);
        response.headers_mut().insert(header::CONTENT_TYPE, content_type);
        response
    }
}

/// The content type of plain text. Static like all values that never change, so that its bytes are checked by the compiler.
static TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// The content type and the body of the default response.
pub(crate) fn rendered(rejection: &Rejection<'_>) -> (HeaderValue, Bytes) {
    let format = preferred(rejection.parts().headers.get_all(header::ACCEPT), rejection.format());
    // In constants, so that their bytes are checked by the compiler.
    match format {
        RejectionFormat::Text => (TEXT.clone(), text(rejection)),
        RejectionFormat::Json => (const { HeaderValue::from_static("application/json") }, json(rejection)),
        RejectionFormat::Problem => {
            (const { HeaderValue::from_static("application/problem+json") }, json(rejection))
        }
    }
}

fn text(rejection: &Rejection<'_>) -> Bytes {
    let mut line = ItemBuf::new();
    rejection.push_message(&mut line);
    line.push(b'\n');
    Bytes::copy_from_slice(&line)
}

/// Problem details. A derived implementation would cost each program the compilation of two more crates.
///
/// Source: RFC 9457, section 3; draft-ietf-httpapi-ratelimit-headers-11, section 5.
struct Problem<'a>(&'a Rejection<'a>);

impl Serialize for Problem<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(rejection) = self;
        let (r#type, title) = match rejection.reason() {
            Reason::Limited | Reason::Blocked | Reason::Unsettled => QUOTA_EXCEEDED,
            // The title is the reason phrase of the status.
            Reason::NeverFits
            | Reason::Denied
            | Reason::BadIdentity
            | Reason::Unauthenticated
            | Reason::Misconfigured => {
                ("about:blank", rejection.status().canonical_reason().unwrap_or_default())
            }
            _ => REDUCED_CAPACITY,
        };
        let mut problem = serializer.serialize_map(None)?;
        problem.serialize_entry("type", r#type)?;
        problem.serialize_entry("title", title)?;
        problem.serialize_entry("status", &rejection.status().as_u16())?;
        problem.serialize_entry("detail", &*rejection.message())?;
        let policies: Vec<_> = rejection.violated_policies().map(PolicyName::as_str).collect();
        if !policies.is_empty() {
            problem.serialize_entry("violated-policies", &policies)?;
        }
        // Seconds, equal to the header.
        if let Some(wait) = rejection.retry_after_seconds() {
            problem.serialize_entry("retry-after", &wait)?;
        }
        // An extension of its own: left out of all other rejections.
        if rejection.is_blocked() {
            problem.serialize_entry("blocked", &true)?;
        }
        problem.end()
    }
}

fn json(rejection: &Rejection<'_>) -> Bytes {
    let mut body = Vec::with_capacity(JSON_CAPACITY);
    serde_json::to_writer(&mut body, &Problem(rejection)).expect("numbers and strings are JSON");
    body.push(b'\n');
    body.into()
}

/// Holds the problem details of a policy or two, so that rendering them does not reallocate.
const JSON_CAPACITY: usize = 512;

/// The type and the title of a rejection by a limit.
pub(crate) const QUOTA_EXCEEDED: (&str, &str) = (
    "https://iana.org/assignments/http-problem-types#quota-exceeded",
    "Request cannot be satisfied as assigned quota has been exceeded",
);

/// The type and title of problem details where the server cannot decide.
pub(crate) const REDUCED_CAPACITY: (&str, &str) = (
    "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
    "Request cannot be satisfied due to temporary server capacity constraints",
);
