//! The permits of a charge under policies that limit requests in flight.

use std::sync::Arc;

use super::shared::SharedCharge;
use super::{Charge, ChargeBasis};
use crate::InFlightPermit;
use crate::config::LayerConfig;
use crate::in_flight::Permits;

impl Charge {
    /// The charge of a decision that has taken permits.
    pub(crate) fn holding(
        config: &Arc<LayerConfig>,
        basis: ChargeBasis,
        outer: Option<Self>,
        permits: Permits,
    ) -> Self {
        Self { shared: SharedCharge::new(config, || basis, outer, Some(permits)), only: None }
    }

    /// Takes the permits of a request [in flight](crate::RateLimitLayer::and_in_flight) for a task, which holds them until it drops
    /// them. The layer then does not release them at the end of the response.
    ///
    /// `None` if the request has no permit: no policy limits requests in flight, or the charge is narrowed
    /// [to another one](Self::for_policy); the store could not answer and the policy is open; limits are off; the permit was taken
    /// or released before. A charge takes the permits of its own layer, and [`outer`](Self::outer) those of the next one.
    #[must_use = "the permit is released when it is dropped"]
    pub fn take_permit(&self) -> Option<InFlightPermit> {
        let only = self.only.map(|only| self.at_admission()[only].policy());
        self.shared.permits.as_ref()?.take_permit(only)
    }
}
