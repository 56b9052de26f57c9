//! Overload, and requests to other servers.

codes! {
    /// The service has as many requests in flight as it can serve in time. Those beyond get 503, by their class and the shares of callers.
    SHED = "PC801" Warn "once a minute",
        "the service is overloaded, and requests are rejected with 503",
        "Give the service more capacity, or limit the clients that cause the load. `limit` is the number of requests in flight that it \
         serves.";

    /// As many requests wait for a slot, a look-up or the service as may wait. More of them get 503.
    TOO_MANY_WAITING = "PC802" Warn "once a minute",
        "too many requests wait for a slot, a look-up or the inner service",
        "Look for slow look-ups or a slow service, lower `wait` of the policies, or raise `Limiter::max_waiting_requests` in code.";

    /// Requests have waited for their slot, and the service was not ready for them in time. They get 503.
    NOT_READY = "PC803" Warn "once a minute",
        "the inner service is not ready for requests that have waited",
        "Look at the load of the service. If it only needs longer, raise `ready_deadline`.";

    /// Servers refuse requests that the policy allows, and are left alone for the time in `length`.
    OUTGOING_CLOSED = "PC804" Warn "once a minute",
        "servers refuse outgoing requests",
        "Compare the policy with what the server allows. It may also count requests of other programs with the same credential.";

    /// Answers state a time in a form that cannot be read, in the header that `header` names. It is ignored.
    OUTGOING_HINT_IGNORED = "PC805" Warn "once a minute",
        "answers to outgoing requests have headers that cannot be used",
        "Compare the header with the documentation of the server, and tell it. The policy limits requests all the same.";

    /// A server has refused, and the other processes do not know it, because the store could not be told. They go on calling it.
    OUTGOING_NOT_SHARED = "PC806" Warn "once a minute",
        "keys of outgoing requests are closed in this process alone",
        "Look for an outage of the store near this line. A store that keeps no overrides cannot share them.";
}
