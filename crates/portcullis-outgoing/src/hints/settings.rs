//! What is obeyed of an answer, and for how long at most.

use std::time::Duration;

use http::HeaderName;
use portcullis_core::overrides;
use portcullis_identity::header_name;
use portcullis_response::headers::{X_RATELIMIT_REMAINING, X_RATELIMIT_RESET};

/// What a number in `X-RateLimit-Reset` is. Servers differ, and a number does not tell: 60 may be a minute from now, or the first
/// minute of 1970. So it is stated, and never guessed.
///
/// What tells by itself is read under each format: durations such as `6m0s`, instants of RFC 3339, and HTTP dates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResetFormat {
    /// Seconds from now, as in the headers of this crate.
    Seconds,
    /// Milliseconds from now.
    Milliseconds,
    /// The Unix time in seconds, as in the APIs of GitHub and X.
    UnixSeconds,
    /// The Unix time in milliseconds.
    UnixMilliseconds,
}

/// A pair of headers with the units that remain and the time at which there are more, such as `X-RateLimit-Remaining` and
/// `X-RateLimit-Reset`. Numbers may have a fraction. A header may have up to four values, in lines of their own or separated by
/// commas: the first reset belongs to the first number of units, and so on.
///
/// ```
/// use portcullis::outgoing::{RemainingHeaders, ResetFormat};
///
/// let github = RemainingHeaders::x_ratelimit(ResetFormat::UnixSeconds);
/// let discord = RemainingHeaders::named("x-ratelimit-remaining", "x-ratelimit-reset-after", ResetFormat::Seconds);
/// // `6m0s` states its units.
/// let requests = "x-ratelimit-remaining-requests";
/// let openai = RemainingHeaders::named(requests, "x-ratelimit-reset-requests", ResetFormat::Seconds);
/// # let _ = (github, discord, openai);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemainingHeaders {
    pub(super) remaining: HeaderName,
    pub(super) reset: HeaderName,
    pub(super) format: ResetFormat,
}

impl RemainingHeaders {
    /// `X-RateLimit-Remaining` and `X-RateLimit-Reset`.
    pub fn x_ratelimit(format: ResetFormat) -> Self {
        Self { remaining: X_RATELIMIT_REMAINING.clone(), reset: X_RATELIMIT_RESET.clone(), format }
    }

    /// Headers of other names, which are case-insensitive. Names from configuration or input are parsed to a `HeaderName` first.
    ///
    /// # Panics
    ///
    /// If a name is a text that is not a valid header name.
    #[track_caller]
    pub fn named(
        remaining: &(impl AsRef<str> + ?Sized),
        reset: &(impl AsRef<str> + ?Sized),
        format: ResetFormat,
    ) -> Self {
        Self { remaining: header_name(remaining.as_ref()), reset: header_name(reset.as_ref()), format }
    }
}

/// The settings of a layer about answers.
#[derive(Clone, Debug)]
pub(crate) struct HintSettings {
    /// The longest time for which a key is closed. See [`set_cap`](Self::set_cap).
    pub(super) cap: Duration,
    /// How long a refusal without a usable hint closes its key.
    pub(crate) without_hint: Duration,
    pub(crate) closes_at_zero: bool,
    pub(crate) remaining: Vec<RemainingHeaders>,
}

impl HintSettings {
    /// Sets the longest time for which a key is closed, and which a store keeps.
    pub(crate) fn set_cap(&mut self, cap: Duration) {
        self.cap = cap.min(overrides::MAX_LENGTH);
    }
}

impl Default for HintSettings {
    fn default() -> Self {
        Self {
            cap: Duration::from_secs(60),
            without_hint: Duration::from_secs(1),
            closes_at_zero: false,
            remaining: Vec::new(),
        }
    }
}
