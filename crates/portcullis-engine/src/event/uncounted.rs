//! Why the admission of a request has no decisions.

use portcullis_core::Decision;

/// Why no enforced policy has decided about a request that is admitted.
#[derive(Clone, Copy, Debug, Default)]
pub enum Uncounted<'a> {
    /// A policy has decided, or the event is another one.
    #[default]
    None,
    /// The limiter is off.
    Off,
    /// None counts the request. The policies that are tried out have decided this.
    Shadows(&'a [Decision]),
}
