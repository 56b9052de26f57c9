//! What a gRPC server states in its headers.

use http::HeaderMap;

use super::{Hint, Invalid, number};
use portcullis_response::internal::{GRPC_RETRY_PUSHBACK_MS, GRPC_STATUS_DETAILS};

pub(super) const RESOURCE_EXHAUSTED: &[u8] = b"8";
pub(super) const UNAVAILABLE: &[u8] = b"14";

/// Reads the pushback. A negative one says that the call must not be repeated, which states no time.
///
/// Source: gRFC A6.
pub(super) fn pushback(headers: &HeaderMap) -> Hint {
    let Some(value) = headers.get(&GRPC_RETRY_PUSHBACK_MS) else { return Ok(None) };
    match value.as_bytes() {
        [b'-', digits @ ..] if number::parse(digits, number::MILLISECOND).is_some() => Ok(None),
        value => number::parse(value, number::MILLISECOND).ok_or(Invalid).map(Some),
    }
}

/// Reads `google.rpc.RetryInfo` in the details of a status.
#[cfg(feature = "tonic")]
pub(super) fn retry_info(headers: &HeaderMap) -> Hint {
    use base64::Engine as _;
    use prost::Message as _;
    use std::time::Duration;
    use tonic_types::pb;

    let Some(value) = headers.get(&GRPC_STATUS_DETAILS) else { return Ok(None) };
    if value.len() > MAX_DETAILS {
        return Err(Invalid);
    }
    let bytes = base64_engine().decode(value.as_bytes()).map_err(|_| Invalid)?;
    let status = pb::Status::decode(&*bytes).map_err(|_| Invalid)?;
    let Some(any) = status.details.iter().find(|any| any.type_url.ends_with("/google.rpc.RetryInfo")) else {
        return Ok(None);
    };
    let info = pb::RetryInfo::decode(&*any.value).map_err(|_| Invalid)?;
    let Some(delay) = info.retry_delay else { return Ok(None) };
    let seconds = u64::try_from(delay.seconds).map_err(|_| Invalid)?;
    let nanos = u32::try_from(delay.nanos).ok().filter(|nanos| *nanos < 1_000_000_000).ok_or(Invalid)?;
    Ok(Some(Duration::new(seconds, nanos)))
}

/// The details are not read without the feature `tonic`.
#[cfg(not(feature = "tonic"))]
pub(super) fn retry_info(_: &HeaderMap) -> Hint {
    Ok(None)
}

/// Servers send base64 with or without padding.
#[cfg(feature = "tonic")]
fn base64_engine() -> base64::engine::GeneralPurpose {
    use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

    let indifferent = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    GeneralPurpose::new(&base64::alphabet::STANDARD, indifferent)
}

/// What most servers accept for all headers together.
#[cfg(feature = "tonic")]
const MAX_DETAILS: usize = 8_192;
