//! What a registry limits, and when it reminds of what it does not.

use std::time::Duration;

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

    /// Sets when a line in the log reminds of a policy that limits nothing. A policy that has counted no request is told of once
    /// after `unused`, 1 hour by default, and one that is in shadow, or enforced for a share of its keys, after `tried_out`, 14 days by
    /// default, once for each such mode. [`Duration::MAX`] switches a reminder off.
    ///
    /// There is no task: the time is that of the store's clock, and a request that is decided after it writes the line. It counts from
    /// the first request that is decided after the policy was registered, or has got the mode, in this process; so a restart begins it
    /// anew, and a service without any requests logs nothing. A policy whose requests are all exempt counts none.
    pub fn set_audit(&self, unused: Duration, tried_out: Duration) {
        self.backend.policies().set_audits(unused, tried_out);
    }
}
