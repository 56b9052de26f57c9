//! The store in memory.

codes! {
    /// The memory of this policy is full. New keys share states, so that they limit each other.
    MEMORY_FULL = "PC401" Warn "once a minute",
        "the memory store has no room for more keys of this policy",
        "If the keys are real clients, raise the capacity: `--memory-keys`, in code `capacity`. If they are made up, put a limit by address \
         beside the policy.";

    /// There are as many grants and blocks under this policy as memory has room for. A further one is refused.
    OVERRIDES_FULL = "PC402" Warn "once a minute",
        "the memory store has no room for more overrides of this policy",
        "Revoke grants and blocks that are no longer needed, give them an end, or raise `override_capacity` in code.";
}
