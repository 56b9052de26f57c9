//! What a program can change of a rejection in gRPC.

use http::HeaderMap;

use crate::Rejection;

/// Changes the response of a rejection in gRPC.
pub type CustomGrpc = dyn Fn(&Rejection<'_>, &mut GrpcRejection) + Send + Sync;

/// A rejection in gRPC, which the closure of `RateLimitLayer::reject_grpc_with` changes.
#[derive(Clone, Debug)]
pub struct GrpcRejection {
    pub(super) code: GrpcCode,
    pub(super) message: String,
    pub(super) headers: HeaderMap,
}

impl GrpcRejection {
    pub(super) fn new(code: GrpcCode, message: String) -> Self {
        Self { code, message, headers: HeaderMap::new() }
    }

    /// Returns the status, such as [`GrpcCode::ResourceExhausted`] of a request that its limits reject.
    pub fn code(&self) -> GrpcCode {
        self.code
    }

    /// Sets the status.
    pub fn set_code(&mut self, code: GrpcCode) {
        self.code = code;
    }

    /// Returns the message.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Sets the message, any text. It is in `grpc-message`, percent-encoded, and in the details.
    pub fn set_message(&mut self, message: impl Into<String>) {
        self.message = message.into();
    }

    /// Returns the headers, which are none at first. Those that make the response a rejection in gRPC are written over them: its type,
    /// status, message, details and pushback, `Cache-Control` and the figures of the budget.
    pub fn headers_mut(&mut self) -> &mut HeaderMap {
        &mut self.headers
    }
}

/// The status of a call that has failed.
///
/// Source: grpc.io, "Status codes and their use in gRPC".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum GrpcCode {
    /// The call was cancelled.
    Cancelled = 1,
    /// The error is unknown.
    Unknown = 2,
    /// The client has sent what is invalid.
    InvalidArgument = 3,
    /// The deadline has passed.
    DeadlineExceeded = 4,
    /// What was asked for does not exist.
    NotFound = 5,
    /// What was to be made exists.
    AlreadyExists = 6,
    /// The caller may not do this.
    PermissionDenied = 7,
    /// A quota is used up.
    ResourceExhausted = 8,
    /// The system is not in the state that the call needs.
    FailedPrecondition = 9,
    /// The call was aborted.
    Aborted = 10,
    /// A value is out of range.
    OutOfRange = 11,
    /// The method does not exist.
    Unimplemented = 12,
    /// An invariant is broken.
    Internal = 13,
    /// The service is unavailable at the moment.
    Unavailable = 14,
    /// Data is lost.
    DataLoss = 15,
    /// The caller has no valid credentials.
    Unauthenticated = 16,
}

impl GrpcCode {
    /// The status of this number, from configuration or input: `None` unless it is 1 to 16.
    ///
    /// ```
    /// use portcullis::layer::GrpcCode;
    ///
    /// assert_eq!(GrpcCode::from_number(14), Some(GrpcCode::Unavailable));
    /// assert_eq!([0, 17].map(GrpcCode::from_number), [None, None]);
    /// ```
    pub fn from_number(number: u64) -> Option<Self> {
        ALL.into_iter().find(|code| *code as u64 == number)
    }
}

const ALL: [GrpcCode; 16] = [
    GrpcCode::Cancelled,
    GrpcCode::Unknown,
    GrpcCode::InvalidArgument,
    GrpcCode::DeadlineExceeded,
    GrpcCode::NotFound,
    GrpcCode::AlreadyExists,
    GrpcCode::PermissionDenied,
    GrpcCode::ResourceExhausted,
    GrpcCode::FailedPrecondition,
    GrpcCode::Aborted,
    GrpcCode::OutOfRange,
    GrpcCode::Unimplemented,
    GrpcCode::Internal,
    GrpcCode::Unavailable,
    GrpcCode::DataLoss,
    GrpcCode::Unauthenticated,
];
