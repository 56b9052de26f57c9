//! The responses to rejected requests.

use std::collections::BTreeMap;

use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::http::{Response, StatusCode};
use portcullis::layer::{GrpcCode, RejectionFormat};
use portcullis::{RateLimitLayer, Reason, Rejection};
use toml::{Table, Value};

use super::{number, text};
use crate::program;

/// Adds what the layer says of rejections, and what its policies say of theirs.
pub(super) fn of_layer<'a>(
    layer: RateLimitLayer,
    options: Option<&Table>,
    policies: impl Iterator<Item = (&'a String, &'a Table)>,
) -> RateLimitLayer {
    let layer = match options.and_then(|options| text(options, "reject_as")) {
        Some("json") => layer.reject_as(RejectionFormat::Json),
        Some("problem") => layer.reject_as(RejectionFormat::Problem),
        _ => layer,
    };
    let layer = match options.and_then(|options| number(options, "grpc_status")) {
        Some(number) => {
            let code = GrpcCode::from_number(number).expect("a status of a failed call");
            layer.reject_grpc_with(move |rejection, response| {
                if rejection.reason() == Reason::Limited {
                    response.set_code(code);
                }
            })
        }
        None => layer,
    };
    let of = |table: &Table| table.get("reject_with").and_then(Value::as_table).cloned();
    let by_default = options.and_then(of);
    let own: BTreeMap<_, _> =
        policies.filter_map(|(name, policy)| Some((name.clone(), of(policy)?))).collect();
    if by_default.is_none() && own.is_empty() {
        return layer;
    }
    layer.reject_with(move |rejection| {
        let policy = rejection.decision().map(|decision| decision.policy().as_str());
        let own = policy.and_then(|policy| own.get(policy));
        own.or(by_default.as_ref()).map_or_else(|| rejection.response(), |table| response(table, rejection))
    })
}

fn response(table: &Table, rejection: &Rejection<'_>) -> Response<Bytes> {
    if table.contains_key("function") {
        return program::page(rejection);
    }
    let mut response = rejection.response();
    if rejection.reason() != Reason::Limited {
        return response;
    }
    if let Some(status) = number(table, "status") {
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
    }
    if let Some(body) = text(table, "body") {
        let by_default = if body.starts_with('{') { "application/json" } else { "text/plain; charset=utf-8" };
        let content_type = text(table, "content_type").unwrap_or(by_default);
        response.headers_mut().insert(CONTENT_TYPE, content_type.parse().unwrap());
        *response.body_mut() = Bytes::from(body.to_owned());
    }
    response
}
