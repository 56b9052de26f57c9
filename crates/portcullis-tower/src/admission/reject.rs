//! Makes the response to a request that is rejected.

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};
use http_body_util::Full;
use portcullis_core::Key;

use crate::KeyError;
use crate::Rejection;
use crate::config::LayerConfig;
use portcullis_engine::Rejected;
use portcullis_engine::{EventKeys, EventKind, FoundKeys};
use portcullis_response::internal::Cause;

/// The response to a request that is rejected, with the key of its client, by which the discarding of bodies is limited.
pub(crate) struct RejectedRequest {
    pub(crate) response: Response<Full<Bytes>>,
    pub(crate) key: Option<Key>,
    /// The status of the response, or of the rejection in HTTP if the response has the status of a success.
    pub(crate) status: StatusCode,
}

/// The response to a request that its limits reject, which was emitted.
pub(crate) fn by_limits(config: &LayerConfig, rejected: &Rejected, parts: &Parts) -> RejectedRequest {
    respond(config, Cause::Limits(rejected), parts)
}

/// The response to a request that is rejected whatever its limits say.
pub(super) fn planned(
    config: &LayerConfig,
    rejection: &PlannedRejection,
    parts: &Parts,
    keys: Option<&FoundKeys>,
) -> RejectedRequest {
    let cause = match rejection {
        PlannedRejection::Denied => Cause::Denied,
        PlannedRejection::Identity(error) => {
            emit_without_key(config, error, keys);
            return respond(config, Cause::NoKey(error), parts);
        }
        PlannedRejection::LookUp(error) if error.is_client_fault() => Cause::NoKey(error),
        PlannedRejection::LookUp(_) => Cause::LookupFailed,
    };
    emit(config, cause, keys);
    respond(config, cause, parts)
}

/// Emits the rejection of a request or a check whose key cannot be found.
pub(crate) fn emit_without_key(config: &LayerConfig, error: &KeyError, keys: Option<&FoundKeys>) {
    if !error.is_client_fault() {
        config.limits.emit(EventKind::Misconfigured { error }, || EventKeys::found(keys));
    }
    emit(config, Cause::NoKey(error), keys);
}

/// The response to a request that has waited, if the inner service is then not ready.
pub(crate) fn not_ready(config: &LayerConfig, parts: &Parts, keys: Option<&FoundKeys>) -> RejectedRequest {
    config.limits.emit(EventKind::NotReady, || EventKeys::found(keys));
    let cause = Cause::Limits(&Rejected::Overloaded);
    emit(config, cause, keys);
    respond(config, cause, parts)
}

/// A rejection that does not depend on the checks.
pub(crate) enum PlannedRejection {
    Identity(KeyError),
    /// A look-up has failed, or found that there is no identity.
    LookUp(KeyError),
    /// A list denies the request.
    Denied,
}

fn emit(config: &LayerConfig, cause: Cause<'_>, keys: Option<&FoundKeys>) {
    let kind = EventKind::Rejected { reason: cause.reason(), decisions: &[] };
    config.limits.emit(kind, || EventKeys::found(keys));
}

fn respond(config: &LayerConfig, cause: Cause<'_>, parts: &Parts) -> RejectedRequest {
    let rejection = Rejection::new(parts, cause).retried_later_by(config.responses.retry_offset(cause));
    let response = config.responses.reject(&rejection);
    // In gRPC, and where the program makes the response, it may be that of a success.
    let is_error = response.status().is_client_error() || response.status().is_server_error();
    let status = if is_error { response.status() } else { rejection.status() };
    RejectedRequest { response, key: rejection.key(), status }
}
