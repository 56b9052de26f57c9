//! Why a request is rejected, for closures and events.

/// Why a request does not reach the inner service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// A policy denies it, and it fits later: 429, in gRPC `RESOURCE_EXHAUSTED`. Without a wait if too many requests are in
    /// flight (`RateLimitLayer::and`), because it is unknown when one of them ends.
    Limited,
    /// Its key is blocked, by a lock-out (`Limit::lock_out`) or by hand (`Limiter::block`), until the end of
    /// the wait: 429, in gRPC `RESOURCE_EXHAUSTED`.
    Blocked,
    /// Too many requests with its key are unsettled under a policy that charges afterwards (`Limit::charge_after`): 429
    /// without a wait, in gRPC `RESOURCE_EXHAUSTED`.
    Unsettled,
    /// Its cost exceeds what a policy can ever admit: 400, in gRPC `INVALID_ARGUMENT`.
    NeverFits,
    /// A list of the layer denies it (`RateLimitLayer::deny`): 403, in gRPC `PERMISSION_DENIED`. Nothing is charged.
    Denied,
    /// Its identity is missing or malformed: 400, in gRPC `INVALID_ARGUMENT`.
    BadIdentity,
    /// Its credential is missing or malformed: 401, in gRPC `UNAUTHENTICATED`.
    Unauthenticated,
    /// The store cannot answer, and a policy [is closed](portcullis_core::FailureMode) in that case: 503, in gRPC
    /// `UNAVAILABLE`.
    StoreFailed,
    /// The store is overloaded, the inner service is not ready after a wait, or more requests wait than
    /// `Limiter::max_waiting_requests` allows: 503, in gRPC `UNAVAILABLE`. Nothing is charged, and the failure modes
    /// of the policies do not apply.
    Overloaded,
    /// A look-up has failed, or took longer than its deadline (`RateLimitLayer::lookup_deadline`): 503, in gRPC
    /// `UNAVAILABLE`.
    LookupFailed,
    /// The service is overloaded, and a layer sheds it, with a wait: 503, in gRPC `UNAVAILABLE`. Nothing is charged.
    Shed,
    /// The server is not configured to determine the identity, or the `Check` of a handler has policies that the limiter
    /// refuses: 500, in gRPC `INTERNAL`.
    Misconfigured,
}

impl Reason {
    /// Whether policies have decided so, which can be tried out.
    pub(crate) const fn is_of_policies(self) -> bool {
        matches!(self, Self::Limited | Self::Blocked | Self::NeverFits)
    }

    /// The name in spans, metrics and the admin API.
    ///
    /// ```
    /// assert_eq!(portcullis::Reason::NeverFits.name(), "never_fits");
    /// ```
    pub const fn name(self) -> &'static str {
        match self {
            Self::Limited => "limited",
            Self::Blocked => "blocked",
            Self::Unsettled => "unsettled",
            Self::NeverFits => "never_fits",
            Self::Denied => "denied",
            Self::BadIdentity => "bad_identity",
            Self::Unauthenticated => "unauthenticated",
            Self::StoreFailed => "store_failed",
            Self::Overloaded => "overloaded",
            Self::LookupFailed => "lookup_failed",
            Self::Shed => "shed",
            Self::Misconfigured => "misconfigured",
        }
    }
}
