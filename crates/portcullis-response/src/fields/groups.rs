//! Which headers show a budget: the dialects of clients.

use std::fmt;

use http::HeaderName;

use crate::headers::{
    RATELIMIT, RATELIMIT_LIMIT, RATELIMIT_POLICY, RATELIMIT_REMAINING, RATELIMIT_RESET, X_RATELIMIT_DEGRADED,
    X_RATELIMIT_LIMIT, X_RATELIMIT_REMAINING, X_RATELIMIT_RESET, X_RATELIMIT_SHADOW,
};

bitflags::bitflags! {
    /// The headers that show clients their budget. Combine them with `|`.
    ///
    /// They show the same decision, that of the decisive policy, on responses to admitted requests and on rejections. `Retry-After`
    /// is not one of them: every rejection for which a retry can succeed has it.
    ///
    /// A shared cache that stores a response stores the figures of one client and shows them to others: use [`NONE`](Self::NONE)
    /// if responses are cacheable, or make them `Cache-Control: private`.
    ///
    /// ```
    /// use portcullis::headers::RateLimitHeaders;
    ///
    /// let both = RateLimitHeaders::X_RATELIMIT | RateLimitHeaders::IETF;
    /// let names: Vec<_> = both.names().map(|name| name.to_string()).collect();
    /// assert_eq!(names[..2], ["x-ratelimit-limit", "x-ratelimit-remaining"]);
    /// assert!(names.contains(&"ratelimit-policy".to_owned()));
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub struct RateLimitHeaders: u8 {
        /// `X-RateLimit-Limit`, `-Remaining` and `-Reset`, the last in seconds from now, rounded up. The default.
        const X_RATELIMIT = 1;
        /// `RateLimit-Policy` with the policies that count the request, and `RateLimit` with the decisive one, as structured
        /// fields:
        ///
        /// - `q`, the quota: the maximum of the remaining units; `w`, the window: the seconds in which `q` units are
        ///   replenished, rounded up, or instead `qu="concurrent-requests"` for a limit on requests in flight;
        /// - `r`, the remaining units; `t`, the seconds until there are more: on a rejection the value of `Retry-After`,
        ///   otherwise, only if nothing remains, the time until the next unit, rounded up.
        ///
        /// Source: draft-ietf-httpapi-ratelimit-headers-11.
        const IETF = 1 << 1;
        /// `RateLimit-Limit`, `-Remaining` and `-Reset`, the last in seconds from now, rounded up: the headers of the drafts
        /// before the two fields of [`IETF`](Self::IETF), for clients of services that have sent them, such as Kong or Express.
        ///
        /// Source: draft-ietf-httpapi-ratelimit-headers-06.
        const IETF_DRAFT_6 = 1 << 2;
        /// `X-RateLimit-Shadow` on responses to requests that a `Limit::shadow` policy would have
        /// rejected: the names of those policies. It shows clients limits that are not enforced yet.
        const SHADOW = 1 << 3;
        /// `X-RateLimit-Limit-Tokens`, `X-RateLimit-Remaining-Tokens` and `X-RateLimit-Reset-Tokens` under a policy `tokens`, and so on:
        /// the figures of each policy that counts the request, side by side, and on a rejection those of the policy that denies. The
        /// reset is a duration such as `6m0s`, `1.5s` or `20ms`. Characters of a policy's name that headers cannot have are `-`.
        ///
        /// With policies named `tokens` and `requests` they are the headers of OpenAI, which its clients read. They replace headers of
        /// the same names that the inner service has set.
        const BY_POLICY = 1 << 5;
        /// No headers of its own: see [`reset_as_unix_time`](Self::reset_as_unix_time).
        const UNIX_TIME = 1 << 4;
    }
}

impl RateLimitHeaders {
    /// No headers.
    pub const NONE: Self = Self::empty();

    /// Makes `X-RateLimit-Reset` the Unix time at which the full limit is available again, in whole seconds, rounded up, on the
    /// store's clock, as in the APIs of GitHub and X. The other headers do not change.
    #[must_use]
    pub const fn reset_as_unix_time(self) -> Self {
        self.union(Self::UNIX_TIME)
    }

    /// Returns the names of the headers that may be written, without those of [single policies](Self::BY_POLICY). They include `X-RateLimit-Degraded`, which is set if the store could
    /// not answer; without figures, nothing was counted.
    pub fn names(self) -> impl Iterator<Item = HeaderName> {
        let degraded = self.has_figures().then(|| X_RATELIMIT_DEGRADED.clone());
        let names = FIGURES.into_iter().chain([(Self::SHADOW, &X_RATELIMIT_SHADOW)]);
        let names = names.filter(move |(group, _)| self.contains(*group));
        names.map(|(_, name)| name.clone()).chain(degraded)
    }

    /// Whether any header shows a budget.
    pub(crate) const fn has_figures(self) -> bool {
        self.intersects(Self::X_RATELIMIT.union(Self::IETF).union(Self::IETF_DRAFT_6).union(Self::BY_POLICY))
    }
}

impl Default for RateLimitHeaders {
    fn default() -> Self {
        Self::X_RATELIMIT
    }
}

impl fmt::Debug for RateLimitHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_unix_time = self.contains(Self::UNIX_TIME);
        let names = self.names().map(|name| {
            let more = if name == X_RATELIMIT_RESET && is_unix_time { " (Unix time)" } else { "" };
            format!("{name}{more}")
        });
        let own = self.contains(Self::BY_POLICY).then(|| "x-ratelimit-* of each policy".to_owned());
        f.debug_set().entries(names.chain(own)).finish()
    }
}

/// The headers that show a budget.
static FIGURES: [(RateLimitHeaders, &HeaderName); 8] = [
    (RateLimitHeaders::X_RATELIMIT, &X_RATELIMIT_LIMIT),
    (RateLimitHeaders::X_RATELIMIT, &X_RATELIMIT_REMAINING),
    (RateLimitHeaders::X_RATELIMIT, &X_RATELIMIT_RESET),
    (RateLimitHeaders::IETF, &RATELIMIT),
    (RateLimitHeaders::IETF, &RATELIMIT_POLICY),
    (RateLimitHeaders::IETF_DRAFT_6, &RATELIMIT_LIMIT),
    (RateLimitHeaders::IETF_DRAFT_6, &RATELIMIT_REMAINING),
    (RateLimitHeaders::IETF_DRAFT_6, &RATELIMIT_RESET),
];

/// Whether a header shows a budget. Comparing the names of a response with it costs less than looking up all of [`FIGURES`],
/// because most responses have few headers.
pub(super) fn is_figure(name: &HeaderName) -> bool {
    let text = name.as_str();
    (text.starts_with("ratelimit") || text.starts_with("x-ratelimit-"))
        && FIGURES.iter().any(|(_, figure)| *figure == name)
}
