//! Observers and the admin API.

codes! {
    /// An observer has panicked. Requests go on, and it gets further events; its figures are probably wrong.
    OBSERVER_PANICKED = "PC901" Error "once per observer",
        "an observer of the rate limiter has panicked",
        "Correct the observer. The panic itself is on standard error, with its place.";

    /// An observer of the calls to Redis has panicked. Calls go on, and it gets further ones.
    CALL_OBSERVER_PANICKED = "PC902" Error "once per store",
        "an observer of the calls to redis has panicked",
        "Correct the observer. The panic itself is on standard error, with its place.";

    /// An operator wanted to change a limit by the admin API, and it failed. Nothing has changed.
    LIMIT_NOT_CHANGED = "PC903" Warn "each time",
        "a limit was not changed",
        "Read the answer of the admin API, which says why. The line has who it was (`actor`) and what was to be changed.";

    /// A change of a limit by the admin API has ended without an answer of the store. It may have been made.
    LIMIT_CHANGE_UNKNOWN = "PC904" Warn "each time",
        "a limit may have been changed",
        "Show the key or the policy by the admin API, and repeat the change if it was not made.";
}
