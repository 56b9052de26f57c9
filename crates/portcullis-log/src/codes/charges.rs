//! Charges, reservations and requests in flight.

codes! {
    /// Requests whose clients have disconnected stay charged, because too many refunds are in progress or there is no runtime.
    REFUND_DROPPED = "PC601" Warn "once a minute",
        "requests whose clients have disconnected stay charged",
        "Look for clients that disconnect in masses, or for a slow store. The charges end by themselves with their periods.";

    /// Requests that were to be charged by their outcome have ended outside of a Tokio runtime, and stay uncharged.
    CHARGE_DROPPED = "PC602" Warn "once a minute",
        "requests that were to be charged by their outcome stay uncharged",
        "Keep the runtime until all requests have ended: call `Limiter::drain` before it stops.";

    /// Requests have used so much more than was reserved that the key would owe more than the policy allows. `uncharged` units are lost.
    DEBT_EXCEEDED = "PC603" Warn "once a minute",
        "settlements exceed the debt that a policy allows",
        "Raise the estimate that is reserved, or `debt` of the policy.";

    /// The store was not told what was used. The reservations stay charged or, if `cause` says so, it is unknown.
    SETTLEMENT_LOST = "PC604" Warn "once a minute",
        "settlements of reservations are given up",
        "Look for an outage of the store near this line. `cause` says why the settlement is given up.";

    /// A response does not state what it has used, or not in a form that can be read. Its reservation stays charged.
    USAGE_LOST = "PC605" Warn "once a minute",
        "the usage of responses is not known",
        "Do what `cause` suggests. Streams of OpenAI state their usage with `\"stream_options\": {\"include_usage\": true}` alone.";

    /// The store has not been told in time that requests are still in flight, and counts them no longer: more than the limit may be.
    PERMIT_LAPSED = "PC606" Warn "once a minute",
        "the leases of requests in flight could not be renewed in time",
        "Look for an outage of the store near this line, or for a process that stood still. A longer `lease` survives longer outages.";

    /// An upgraded connection, as of a WebSocket, goes on, and is not counted as in flight.
    UPGRADE_RELEASED = "PC607" Warn "at once, then once an hour",
        "upgraded connections are not counted as in flight",
        "Move `charge.take_permit()` into the task that uses the connection, in code.";

    /// Too many requests with one key, or in all, wait for the response by which they are charged. More of them get 429.
    TOO_MANY_UNSETTLED = "PC608" Warn "once a minute",
        "too many requests with one key, or in all, have no outcome yet",
        "Look for a client with many requests at the same time, or for a slow service. `charge_after` sets the number for each key.";

    /// The closure of `charge_when` has panicked. Its requests stay charged.
    OUTCOME_PANICKED = "PC609" Error "once a minute",
        "the closure that charges by outcome has panicked, and requests stay charged",
        "Correct the closure. The panic itself is on standard error, with its place.";

    /// A reservation of another instance cannot be read here, because the two have other rules or versions. It stays charged.
    RESERVATION_UNREADABLE = "PC610" Warn "once a minute",
        "reservations of other instances cannot be read, and stay charged",
        "Give all instances the same rules and the same version. During a rollout it ends by itself.";

    /// The service has ended before it could tell the store what was used. The units stay charged.
    SETTLEMENTS_LEFT = "PC611" Warn "once, at the end",
        "settlements were not made: their units stay charged",
        "Look for an outage of the store near this line. The charges end by themselves with their periods.";
}
