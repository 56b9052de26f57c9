//! Verdicts as messages.

use std::time::Duration;

use portcullis::rules::envoy::Unit;
use prost_types::Duration as ProtoDuration;

use super::headers::{ResponseHeaders, whole_seconds};
use super::{LimitStatus, Status, Verdict};
use crate::messages::rate_limit_response::rate_limit::Unit as ProtoUnit;
use crate::messages::rate_limit_response::{Code, DescriptorStatus, RateLimit};
use crate::messages::{HeaderValue, RateLimitResponse};

/// The response to a call.
pub(crate) fn response(verdict: Verdict, headers: ResponseHeaders) -> RateLimitResponse {
    let mut response = RateLimitResponse {
        overall_code: code(verdict.over).into(),
        statuses: verdict.statuses.iter().map(status).collect(),
        response_headers_to_add: headers.of(&verdict),
        ..RateLimitResponse::default()
    };
    // Native rules have made a response, which has the configured headers under their own names.
    if let Some(made) = verdict.response.filter(|_| headers != ResponseHeaders::None) {
        let (parts, body) = made.into_parts();
        let lines = parts.headers.iter().filter(|(name, _)| *name != http::header::CONTENT_LENGTH);
        response.response_headers_to_add =
            lines.filter_map(|(name, value)| header(name.as_str(), value)).collect();
        if verdict.over {
            response.raw_body = body.to_vec();
        }
    }
    response
}

fn code(over: bool) -> Code {
    if over { Code::OverLimit } else { Code::Ok }
}

fn status(status: &Status) -> DescriptorStatus {
    let Some(LimitStatus { limit, figures }) = &status.limit else {
        let limit_remaining = if status.is_unlimited { u32::MAX } else { 0 };
        return DescriptorStatus {
            code: code(status.over).into(),
            limit_remaining,
            ..DescriptorStatus::default()
        };
    };
    DescriptorStatus {
        code: code(status.over).into(),
        current_limit: Some(RateLimit {
            name: limit.name.clone(),
            requests_per_unit: limit.requests_per_unit,
            unit: limit.unit.map_or(ProtoUnit::Unknown, proto_unit).into(),
        }),
        limit_remaining: u32::try_from(figures.remaining).unwrap_or(u32::MAX),
        duration_until_reset: Some(duration(figures.reset)),
        quota: None,
    }
}

fn proto_unit(unit: Unit) -> ProtoUnit {
    match unit {
        Unit::Second => ProtoUnit::Second,
        Unit::Minute => ProtoUnit::Minute,
        Unit::Hour => ProtoUnit::Hour,
        Unit::Day => ProtoUnit::Day,
        Unit::Week => ProtoUnit::Week,
        Unit::Month => ProtoUnit::Month,
        Unit::Year => ProtoUnit::Year,
    }
}

/// Whole seconds: Envoy cuts off a fraction, and so would show a client 0 in place of a part of a second.
fn duration(length: Duration) -> ProtoDuration {
    ProtoDuration { seconds: i64::try_from(whole_seconds(length)).unwrap_or(i64::MAX), nanos: 0 }
}

fn header(name: &str, value: &http::HeaderValue) -> Option<HeaderValue> {
    Some(HeaderValue {
        key: name.to_owned(),
        value: value.to_str().ok()?.to_owned(),
        ..HeaderValue::default()
    })
}
