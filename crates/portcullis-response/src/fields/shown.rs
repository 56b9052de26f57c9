//! What a layer tells of its policies.

use portcullis_core::Policy;

use super::Fraction;

/// A policy of a layer that may reject requests, as responses show it.
#[derive(Clone, Copy, Debug)]
pub struct ShownPolicy<'a> {
    /// The index of the policy in the layer.
    pub index: usize,
    /// The policy.
    pub policy: &'a Policy,
    /// Whether clients may know of the policy.
    pub is_listed: bool,
    /// The part of the limit from which on requests are marked.
    pub warn_at: Option<Fraction>,
}
