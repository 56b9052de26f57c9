//! The setup of a limiter and its layers.

codes! {
    /// Limits are switched off: nothing is counted, and every request passes.
    LIMITS_OFF = "PC101" Warn "once per limiter, when it is made",
        "the rate limiter is switched off: every request passes",
        "Nothing in tests. In production, correct the setting that leads to `Limiter::off()`.";

    /// The setup lacks something without which no request can be decided, such as the address of the client. Requests get 500, and a
    /// descriptor of Envoy `INVALID_ARGUMENT`.
    CANNOT_DECIDE = "PC102" Error "at once, then once an hour",
        "the rate limiter cannot decide requests, and rejects them",
        "Do what `error` says. Most often an Axum server is not served by `into_make_service_with_connect_info::<SocketAddr>()`, or a \
         descriptor has no `remote_address`.";

    /// Two layers that have this policy are inside each other, so that each request is charged twice.
    CHARGED_TWICE = "PC103" Warn "at once, then once an hour",
        "one request is charged twice: two layers with this policy are inside each other",
        "Remove one of the two layers. Often one is around a router and the other one around a route of it.";

    /// A limiter lists as many layers as `layers` says. Those beyond limit requests as well, but no list shows them.
    TOO_MANY_LAYERS = "PC104" Warn "once per limiter",
        "the rate limiter has more layers than it lists",
        "Build each layer once, at the start, and clone it, in place of a new one for each request or connection.";

    /// A handler takes a `Charge`, and no layer has left one in the request, which gets 500.
    CHARGE_MISSING = "PC105" Error "once a minute",
        "no rate limit layer has left a charge in this request",
        "Add `.with_charge()` to the layer, in rules `with_charge = true`, or put a layer around the route. A handler that requests \
         without limits reach as well takes an `Option<Charge>`.";

    /// A handler takes a `Usage`, and no policy reserves units for the request, which gets 500.
    USAGE_MISSING = "PC106" Error "once a minute",
        "no rate limit layer has reserved units for this request",
        "Add `.reserve(..)` to a policy of the layer. A handler that requests without limits reach as well takes an `Option<Usage>`.";

    /// A handler takes an `Option<Charge>`, and always gets `None`, because the layer that counts its requests leaves none.
    CHARGE_NOT_LEFT = "PC107" Error "once a minute",
        "a handler takes an `Option<Charge>`, and a layer that has counted the request leaves none",
        "Add `.with_charge()` to the layer, in rules `with_charge = true`, or take no charge in the handler.";

    /// The mode of this policy was set to a share of its keys. A layer that was built later cannot enforce a share, because its clients
    /// choose their keys, and keeps the mode that it was built with.
    SHARE_IGNORED = "PC108" Warn "at once, then once an hour",
        "a policy is enforced for a share of its keys, but not in a layer that was built later",
        "Set the mode to enforced or shadow, or give the policy of that layer a key that is verified, or another name.";

    /// Keys in Redis are fingerprinted under a secret that everybody knows: whoever may read Redis can test which clients it has.
    PUBLISHED_SECRET = "PC109" Warn "once, when Redis is connected",
        "keys are fingerprinted under the published secret",
        "Set `PORTCULLIS_SECRET` to the same random value for all instances. Limits start anew under it.";
}
