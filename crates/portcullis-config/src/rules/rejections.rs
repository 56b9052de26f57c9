//! `reject_with`: the status and the body that a file states, and which of several policies makes the response to a rejected request.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use portcullis_core::{Decision, PolicyName};
use portcullis_tower::{RateLimitLayer, Reason, Rejection};

use super::rule::Rule;
use crate::fields::Fields;
use crate::hooks::RejectWith;

/// Adds the functions of these rules to their layer, which has the options of `[layer]` already.
pub(super) fn add<'r, I: Iterator<Item = &'r Rule>>(
    layer: RateLimitLayer,
    rules: impl Fn() -> I,
) -> RateLimitLayer {
    let Some(first) = rules().find_map(|rule| rule.reject_with.0.clone()) else { return layer };
    let rules = rules().map(|rule| (rule.name().clone(), rule.reject_with.0.clone()));
    let rules: Vec<(PolicyName, Option<Arc<RejectWith>>)> = rules.collect();
    let otherwise = layer.rejection();
    layer.reject_with(move |rejection| {
        let rule = decisive(rejection).and_then(|policy| rules.iter().find(|(name, _)| name == policy));
        let own = rule.map_or(Some(&first), |(_, reject_with)| reject_with.as_ref());
        own.or(otherwise.as_ref()).map_or_else(|| rejection.response(), |reject_with| reject_with(rejection))
    })
}

/// The policy that rejects the request. `None` if no policy does, such as where the key is missing.
fn decisive<'a>(rejection: &Rejection<'a>) -> Option<&'a PolicyName> {
    rejection.decision().map(Decision::policy).or_else(|| rejection.violated_policies().next())
}

/// The response of a table without a function. `None` after a finding.
pub(super) fn of_table(fields: &Fields<'_>) -> Option<Arc<RejectWith>> {
    if !["status", "body", "content_type"].into_iter().any(|field| fields.has(field)) {
        fields
            .missing(&["function", "status", "body"], "the table makes no response")
            .help("write { status = 503, body = \"..\" } or { function = \"name\" }");
        return None;
    }
    let status = if fields.has("status") { Some(status(fields)?) } else { None };
    let body: Option<String> = fields.read("body");
    let content_type: Option<HeaderValue> = fields.parse("content_type");
    if fields.has("content_type") && !fields.has("body") {
        fields.missing(&["body"], "there is no `body` of this content type");
        return None;
    }
    if let Some(body) = body.as_ref().filter(|body| body.len() > MAX_BODY) {
        let message = format!("a body of {} bytes is longer than the bound of {MAX_BODY}", body.len());
        fields.error("body", message).help("write a short text, and link to a page");
        return None;
    }
    if fields.has("body") && body.is_none() || fields.has("content_type") && content_type.is_none() {
        return None;
    }
    let body = body.map(|body| {
        let is_json = body.trim_start().starts_with(['{', '[']);
        let by_default = HeaderValue::from_static(if is_json { JSON } else { PLAIN });
        (content_type.unwrap_or(by_default), Bytes::from(body))
    });
    Some(Arc::new(move |rejection: &Rejection<'_>| own(rejection, status, body.as_ref())))
}

/// A status that says what a rejection is.
fn status(fields: &Fields<'_>) -> Option<StatusCode> {
    let number: u16 = fields.read("status")?;
    match StatusCode::from_u16(number) {
        Ok(status)
            if (status.is_client_error() || status.is_server_error()) && !NEED_MORE.contains(&status) =>
        {
            Some(status)
        }
        _ => {
            let message = format!("the status {number} does not fit a request beyond a limit");
            let help = "write one from 400 to 599 that needs no header of its own, such as 429, 503 or 403";
            fields.error("status", message).help(help);
            None
        }
    }
}

/// Errors of the client's identity and of the server stay as they are: they are not about a limit.
fn own(
    rejection: &Rejection<'_>,
    status: Option<StatusCode>,
    body: Option<&(HeaderValue, Bytes)>,
) -> Response<Bytes> {
    let mut response = rejection.response();
    if !matches!(
        rejection.reason(),
        Reason::Limited | Reason::Blocked | Reason::Unsettled | Reason::NeverFits
    ) {
        return response;
    }
    if let Some(status) = status {
        *response.status_mut() = status;
    }
    if let Some((content_type, body)) = body {
        response.headers_mut().insert(header::CONTENT_TYPE, content_type.clone());
        *response.body_mut() = body.clone();
    }
    response
}

/// A response with one of these has to have a header that no rejection has, or is about the form of the request.
const NEED_MORE: [StatusCode; 7] = [
    StatusCode::UNAUTHORIZED,
    StatusCode::METHOD_NOT_ALLOWED,
    StatusCode::PROXY_AUTHENTICATION_REQUIRED,
    StatusCode::REQUEST_TIMEOUT,
    StatusCode::RANGE_NOT_SATISFIABLE,
    StatusCode::UPGRADE_REQUIRED,
    StatusCode::NETWORK_AUTHENTICATION_REQUIRED,
];
const JSON: &str = "application/json";
const PLAIN: &str = "text/plain; charset=utf-8";
/// It is kept for each rule, and sent with each rejection.
const MAX_BODY: usize = 65_536;
