//! Who a request is from: keys, proxies in front and look-ups.

codes! {
    /// Requests have no key for this policy, such as a credential. `on_missing` says what happens to them.
    IDENTITY_MISSING = "PC201" Warn "once a minute",
        "requests have no identity",
        "Nothing if single clients leave it out. If all requests have none, correct the key of the policy, or what has to write it, such \
         as a proxy.";

    /// Requests have a key that cannot be read, and get 400. `error` says what is wrong with one of them.
    IDENTITY_MALFORMED = "PC202" Warn "once a minute",
        "requests have a malformed identity",
        "Nothing if single clients send it. If all requests have it, correct the proxy that writes the value, or the key of the policy.";

    /// A policy in shadow mode finds no key for requests, which it would have rejected.
    SHADOW_UNIDENTIFIED = "PC203" Warn "once a minute",
        "a shadow policy would have rejected requests whose identity it cannot determine",
        "Look for the reason in `error` before the policy is enforced. If it is all requests, correct the key of the policy.";

    /// A look-up of a key or a quota fails or takes too long. Its requests get 503, unless the policy is in shadow mode.
    LOOKUP_FAILED = "PC204" Warn "once a minute",
        "look-ups fail, and requests are rejected with 503",
        "Look at what the look-up asks, such as a database: `error` says how it fails. If it is only slow, raise `lookup_deadline`.";

    /// A look-up of a quota fails or takes too long. Its callers get the quota of the policy.
    QUOTA_LOOKUP_FAILED = "PC205" Warn "once a minute",
        "look-ups of quotas fail, and their callers get the quota of the policy",
        "Look at what the look-up asks, such as a database: `error` says how it fails. If it is only slow, raise `lookup_deadline`.";

    /// Callers have quotas of their own that the policy does not use. They get the quota of the policy.
    QUOTA_REFUSED = "PC206" Warn "once a minute",
        "callers have quotas that their policy does not use",
        "Do what `error` says: correct the quota of the caller, or declare a range that includes it, in rules by `caller_quotas`.";

    /// Requests have a header of a proxy, such as `x-forwarded-for`, and the client is taken for the peer of the connection. Behind a
    /// proxy all clients are then charged as one.
    HEADER_NOT_READ = "PC207" Warn "at once, then once an hour",
        "a forwarding header is present, and ClientIp::peer() does not look at it",
        "If there is a proxy, name its networks and its header: in rules by `trusted_proxies` and `header` of `[client_ip]`, for \
         `portcullis proxy` by `--trust`, in code by `ClientIp::behind`. Nothing if there is none: clients made the header up.";

    /// The header that has the address of the client came from a peer that is no proxy of yours, and was ignored.
    PEER_NOT_TRUSTED = "PC208" Warn "at once, then once an hour",
        "a forwarding header came from a peer that is not trusted and is ignored",
        "If one of your proxies is missing in the trusted networks, add it: in rules `trusted_proxies`, for `portcullis proxy` \
         `--trust`. Nothing if a client made the header up.";

    /// All networks are trusted, such as `0.0.0.0/0`. A client that reaches the server without a proxy chooses the address that is
    /// charged.
    EVERY_ADDRESS_TRUSTED = "PC209" Warn "at once, then once an hour",
        "ClientIp trusts every address",
        "Name the networks of your proxies alone: in rules `trusted_proxies`, for `portcullis proxy` `--trust`.";

    /// A trusted proxy passed on more than one line of a header that has a single address. Such requests get 400.
    HEADER_REPEATED = "PC210" Warn "at once, then once an hour",
        "a trusted proxy passed on more than one line of a header that it should have overwritten",
        "Configure the proxy to replace what clients send in place of adding to it: in nginx by `proxy_set_header`.";

    /// A list names clients by their network, and requests have no address. No client is exempt by it.
    NO_ADDRESS_TO_COMPARE = "PC211" Error "at once, then once an hour",
        "a list by network of the rate limiter has no address to compare",
        "Do what `error` says. Most often an Axum server is not served by `into_make_service_with_connect_info::<SocketAddr>()`.";

    /// The key is the route of Axum, and no router has seen the request, because the layer is around it.
    NO_ROUTE = "PC212" Warn "at once, then once an hour",
        "Route::matched_path() finds no route, because no Axum router has seen the request",
        "Add the layer to the router by `Router::layer` or `Router::route_layer`.";

    /// Keys were rejected so often that they are blocked, one of them under this policy and for the time in `length`.
    LOCKED_OUT = "PC213" Warn "once a minute",
        "clients go on after their rejections and are locked out",
        "Look for guessing of passwords or keys, or for a client that retries at once. To let a client in again, unblock it by the admin \
         API.";

    /// The store fails, or keeps no blocks, so that it does not know how often keys were rejected. Clients are locked out late or not
    /// at all.
    REPORTS_FAILED = "PC214" Warn "once a minute",
        "reports of denials fail, so that clients are locked out late or not at all",
        "Look for an outage of the store near this line. If there is none, `error` says what the store lacks.";
}
