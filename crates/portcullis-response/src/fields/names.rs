//! The names of header lines, each made where a line is inserted: a clone of a static name would be made by a call through a pointer, and
//! read back from memory.

use http::HeaderName;

/// Makes a name.
pub(super) type Name = fn() -> HeaderName;

macro_rules! names {
    ($($name:ident: $text:literal,)+) => {
        $(
            #[inline]
            pub(super) fn $name() -> HeaderName {
                const { HeaderName::from_static($text) }
            }
        )+
    };
}

names! {
    x_ratelimit_limit: "x-ratelimit-limit",
    x_ratelimit_remaining: "x-ratelimit-remaining",
    x_ratelimit_reset: "x-ratelimit-reset",
    ratelimit: "ratelimit",
    ratelimit_policy: "ratelimit-policy",
    ratelimit_limit: "ratelimit-limit",
    ratelimit_remaining: "ratelimit-remaining",
    ratelimit_reset: "ratelimit-reset",
    retry_after: "retry-after",
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers;

    #[test]
    fn names_are_those_of_the_public_constants() {
        for (name, public) in [
            (x_ratelimit_limit as Name, &headers::X_RATELIMIT_LIMIT),
            (x_ratelimit_remaining, &headers::X_RATELIMIT_REMAINING),
            (x_ratelimit_reset, &headers::X_RATELIMIT_RESET),
            (ratelimit, &headers::RATELIMIT),
            (ratelimit_policy, &headers::RATELIMIT_POLICY),
            (ratelimit_limit, &headers::RATELIMIT_LIMIT),
            (ratelimit_remaining, &headers::RATELIMIT_REMAINING),
            (ratelimit_reset, &headers::RATELIMIT_RESET),
            (retry_after, &http::header::RETRY_AFTER),
        ] {
            assert_eq!(name(), *public);
        }
    }
}
