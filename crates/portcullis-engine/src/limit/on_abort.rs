//! What a reservation is settled at if the response is aborted.

/// What is charged for a reservation if the response is aborted: the response body is dropped before its end, as when the client
/// disconnects, or fails; or there is no response, because the inner service fails or its future is dropped.
///
/// The argument of `Limit::reserve_or`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnAbort {
    /// What was counted (`Usage`) so far, as at the end of a complete response. If nothing was counted, not even zero, the
    /// reservation.
    #[default]
    Used,
    /// Nothing: the reservation is refunded, whatever was counted. Only for clients that are trusted: one that disconnects just
    /// before the end of each response is charged nothing.
    Nothing,
    /// The reservation, whatever was counted.
    Reservation,
}
