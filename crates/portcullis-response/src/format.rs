//! The formats of bodies.

/// A format for the body of a rejection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RejectionFormat {
    /// `text/plain`.
    #[default]
    Text,
    /// `application/json`, with the members of problem details.
    Json,
    /// `application/problem+json`.
    ///
    /// Source: RFC 9457.
    Problem,
}
