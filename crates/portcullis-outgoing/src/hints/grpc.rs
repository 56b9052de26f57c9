//! What a gRPC server states in its headers.

use http::HeaderMap;
use portcullis_response::internal::GRPC_RETRY_PUSHBACK_MS;

use super::{Hint, Invalid, number};

pub(super) const RESOURCE_EXHAUSTED: &[u8] = b"8";
pub(super) const UNAVAILABLE: &[u8] = b"14";

/// Reads the pushback. A negative one says that the call must not be repeated, which states no time.
///
/// Source: gRFC A6.
pub(super) fn pushback(headers: &HeaderMap) -> Hint {
    let Some(value) = headers.get(&GRPC_RETRY_PUSHBACK_MS) else { return Ok(None) };
    match value.as_bytes() {
        [b'-', digits @ ..] if number::parse(digits, number::MILLISECOND).is_some() => Ok(None),
        value => {
            let length = number::parse(value, number::MILLISECOND);
            length.ok_or_else(|| Invalid::of(&GRPC_RETRY_PUSHBACK_MS)).map(Some)
        }
    }
}
