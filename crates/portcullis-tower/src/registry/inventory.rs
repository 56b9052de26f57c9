//! What a registry limits.

use portcullis_core::Policy;

use super::Registry;
use crate::LayerSummary;

impl Registry {
    /// Returns the layers that exist: those that were applied to a service, as long as the service or one of its requests exists, and the
    /// rules of files, in the order in which they were applied. See [`LayerSummary`].
    ///
    /// At most 10 000 are listed at the same time. Beyond that number, layers limit and are not listed, and one line is logged.
    pub fn layers(&self) -> Vec<LayerSummary> {
        self.backend.inventory().layers()
    }

    /// Returns all registered policies as they are now, in alphabetical order of their names.
    pub fn policies(&self) -> Vec<Policy> {
        self.backend.policies().policies()
    }

    /// Returns how many permits of limits on requests [in flight](crate::RateLimitLayer::and_in_flight) this process holds.
    pub fn permits_in_flight(&self) -> usize {
        self.in_flight.held()
    }
}
