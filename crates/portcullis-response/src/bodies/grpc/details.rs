//! The machine-readable details of a status: `google.rpc.Status` with `RetryInfo`, `QuotaFailure` and, for a blocked key, `ErrorInfo`.
//!
//! Six messages of two or three fields are encoded by hand, so that all builds of the crate send the same details, and none
//! needs a protobuf library. A test decodes them with Tonic's types.
//!
//! Source: googleapis, google/rpc/status.proto and `error_details.proto`; Protocol Buffers, "Encoding".

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use http::HeaderValue;

use crate::Rejection;
use crate::fields::values;

/// The value of `grpc-status-details-bin`, if the request was limited.
pub(super) fn header(code: u8, text: &str, rejection: &Rejection<'_>) -> Option<HeaderValue> {
    rejection.decision()?;
    let mut status = Vec::with_capacity(256);
    number(&mut status, 1, code.into());
    bytes(&mut status, 2, text.as_bytes());
    if let Some(wait) = rejection.retry_after() {
        any(&mut status, "type.googleapis.com/google.rpc.RetryInfo", &retry_info(wait));
    }
    any(&mut status, "type.googleapis.com/google.rpc.QuotaFailure", &quota_failure(rejection));
    if rejection.is_blocked() {
        any(&mut status, "type.googleapis.com/google.rpc.ErrorInfo", &blocked_info());
    }
    Some(values::value(STANDARD_NO_PAD.encode(status).as_bytes()))
}

fn retry_info(wait: Duration) -> Vec<u8> {
    let mut duration = Vec::new();
    number(&mut duration, 1, wait.as_secs().min(MAX_SECONDS));
    number(&mut duration, 2, wait.subsec_nanos().into());
    let mut info = Vec::new();
    bytes(&mut info, 1, &duration);
    info
}

/// One violation per policy that denies, with the policy as its subject.
fn quota_failure(rejection: &Rejection<'_>) -> Vec<u8> {
    let mut failure = Vec::new();
    let outcome = rejection.limited().map(|(outcome, _)| outcome);
    let checks = outcome.into_iter().flat_map(|outcome| outcome.checks().iter().zip(outcome.decisions()));
    for (check, decision) in checks.filter(|(_, decision)| !decision.is_allowed()) {
        let mut violation = Vec::new();
        bytes(&mut violation, 1, decision.policy().as_str().as_bytes());
        let (remaining, limit) = (decision.remaining(), decision.limit());
        let description = if decision.is_blocked() {
            if check.key.is_shared() { "these requests are blocked" } else { "this client is blocked" }
                .to_owned()
        } else {
            format!("{remaining} of {limit} units remain")
        };
        bytes(&mut violation, 2, description.as_bytes());
        bytes(&mut failure, 1, &violation);
    }
    failure
}

/// Distinguishes a block from a limit.
fn blocked_info() -> Vec<u8> {
    let mut info = Vec::new();
    bytes(&mut info, 1, b"BLOCKED");
    bytes(&mut info, 2, b"portcullis");
    info
}

/// Appends one of the details of a status.
fn any(status: &mut Vec<u8>, type_url: &str, message: &[u8]) {
    let mut any = Vec::with_capacity(type_url.len() + message.len() + 8);
    bytes(&mut any, 1, type_url.as_bytes());
    bytes(&mut any, 2, message);
    bytes(status, 3, &any);
}

fn bytes(message: &mut Vec<u8>, field: u8, value: &[u8]) {
    message.push(field << 3 | LENGTH_DELIMITED);
    varint(message, value.len() as u64);
    message.extend_from_slice(value);
}

/// Omits zero, which is the default of an absent number.
fn number(message: &mut Vec<u8>, field: u8, value: u64) {
    if value > 0 {
        message.push(field << 3 | VARINT);
        varint(message, value);
    }
}

fn varint(message: &mut Vec<u8>, mut value: u64) {
    while let low @ 0x80.. = value {
        message.push(u8::try_from(low & 0x7f).expect("seven bits") | 0x80);
        value >>= 7;
    }
    message.push(u8::try_from(value).expect("seven bits"));
}

const VARINT: u8 = 0;
const LENGTH_DELIMITED: u8 = 2;
/// About 10 000 years, the maximum of a `google.protobuf.Duration`.
const MAX_SECONDS: u64 = 315_576_000_000;
