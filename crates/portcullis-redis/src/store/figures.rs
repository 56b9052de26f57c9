//! What the store reports about itself.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use portcullis_core::store::{Figure, FigureUnit};

use super::Inner;

impl Inner {
    /// Visits the figures of the store. In a cluster and with several connections each is a sum.
    pub(super) fn visit_figures(&self, visit: &mut dyn FnMut(Figure<'_>)) {
        let gauges = self.connection.gauges();
        for (name, value, help) in [
            ("connections", gauges.connected, "Connections to the server, in a cluster to all of its nodes."),
            (
                "connections_down",
                gauges.links - gauges.connected,
                "Connections that are lost or not yet made.",
            ),
            ("breaker_open", gauges.open, "Connections whose circuit breaker is open or half-open."),
            (
                "breaker_half_open",
                gauges.probing,
                "Connections whose circuit breaker has let a probe through.",
            ),
            ("breaker_closed", gauges.links - gauges.open, "Connections whose circuit breaker is closed."),
            ("calls_in_flight", gauges.in_flight, IN_FLIGHT),
            ("calls_in_flight_limit", gauges.in_flight_limit, IN_FLIGHT_LIMIT),
            ("calls_waiting", gauges.waiting, "Calls that wait because too many are in flight."),
            ("decisions_waiting", gauges.uncombined, "Decisions that wait for a combined call."),
        ] {
            visit(Figure::gauge(name, value, help));
        }
        self.visit_counters(visit);

        let (leases, leased_units) = self.leases.in_lease();
        visit(Figure::gauge("leases", leases, "Keys of which units are in lease."));
        visit(Figure::gauge(
            "leased_units",
            leased_units,
            "Units in lease: charged, and not yet spent or refunded.",
        ));
        let entries = self.denials.entries();
        visit(Figure::gauge("remembered_denials", entries, "Denials that are remembered now."));
    }

    fn visit_counters(&self, visit: &mut dyn FnMut(Figure<'_>)) {
        let stats = self.connection.stats();
        let get = |counter: &AtomicU64| counter.load(Relaxed);
        for (name, value, help) in [
            ("calls", get(&stats.calls), "Calls to the server that have ended, with or without a reply."),
            ("decisions", get(&stats.decisions), "Decisions in calls to the server."),
            ("breaker_opens", get(&stats.breaker_opens), "How often a circuit breaker has opened."),
            ("reconnects", get(&stats.reconnects), "Connections that replaced one that was lost."),
            ("scripts_loaded", get(&stats.scripts_loaded), "Scripts that were loaded on a server."),
            ("lease_hits", stats.lease_hits(), "Decisions that were paid from leases without a call."),
            (
                "remembered_denial_hits",
                self.denials.hits(),
                "Decisions that were denied from memory without a call.",
            ),
        ] {
            visit(Figure::counter(name, value, help));
        }
        let degraded = Figure::counter("degraded", stats.degraded(), DEGRADED);
        visit(degraded.in_unit(FigureUnit::Microseconds));
        for (name, value) in stats.errors() {
            visit(Figure::counter(name, value, ERRORS));
        }
    }
}

const IN_FLIGHT: &str = "Calls that were sent, and decisions that are about to be sent in a combined call.";
const IN_FLIGHT_LIMIT: &str = "The most calls in flight, which is lower while the server answers late.";
const DEGRADED: &str =
    "For how long connections have answered no calls, summed over the connections, up to now.";
const ERRORS: &str =
    "Decisions, their parts for a slot of a cluster, and other calls that failed with this kind of error.";
