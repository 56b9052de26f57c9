//! What a gRPC server states in the details of a status.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use http::HeaderMap;
use portcullis_response::internal::GRPC_STATUS_DETAILS;
use prost::Message as _;
use tonic_types::pb;

use super::{Hint, Invalid};

/// Reads `google.rpc.RetryInfo` in the details of a status.
pub(super) fn retry_info(headers: &HeaderMap) -> Hint {
    let Some(value) = headers.get(&GRPC_STATUS_DETAILS) else { return Ok(None) };
    let invalid = || Invalid::of(&GRPC_STATUS_DETAILS);
    if value.len() > MAX_DETAILS {
        return Err(invalid());
    }
    let bytes = base64_engine().decode(value.as_bytes()).map_err(|_| invalid())?;
    let status = pb::Status::decode(&*bytes).map_err(|_| invalid())?;
    let Some(any) = status.details.iter().find(|any| any.type_url.ends_with("/google.rpc.RetryInfo")) else {
        return Ok(None);
    };
    let info = pb::RetryInfo::decode(&*any.value).map_err(|_| invalid())?;
    let Some(delay) = info.retry_delay else { return Ok(None) };
    let seconds = u64::try_from(delay.seconds).map_err(|_| invalid())?;
    let nanos = u32::try_from(delay.nanos).ok().filter(|nanos| *nanos < 1_000_000_000);
    Ok(Some(Duration::new(seconds, nanos.ok_or_else(invalid)?)))
}

/// Servers send base64 with or without padding.
fn base64_engine() -> GeneralPurpose {
    let indifferent = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    GeneralPurpose::new(&base64::alphabet::STANDARD, indifferent)
}

/// What most servers accept for all headers together.
const MAX_DETAILS: usize = 8_192;
