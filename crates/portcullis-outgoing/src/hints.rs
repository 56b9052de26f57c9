//! What an answer states about the time at which its server takes requests again.

mod date;
#[cfg(feature = "tonic")]
mod details;
mod grpc;
mod number;
mod retry_after;
mod settings;
mod structured;

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, StatusCode, header};

use portcullis_response::headers::RATELIMIT;
#[cfg(feature = "tonic")]
use portcullis_response::internal::GRPC_STATUS_DETAILS;
use portcullis_response::internal::{GRPC_RETRY_PUSHBACK_MS, GRPC_STATUS};

pub(crate) use settings::HintSettings;
pub use settings::{RemainingHeaders, ResetFormat};

/// A header has a value that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Invalid;

/// The time that a header states, from now on. `None` if the header is absent or states none.
type Hint = Result<Option<Duration>, Invalid>;

/// What an answer means for its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    /// For how long the key is closed, at most the longest time that is obeyed. `None` if it stays open.
    pub(crate) closed_for: Option<Duration>,
    /// Whether the answer has stated a longer time.
    pub(crate) is_capped: bool,
    /// A header that was to be obeyed and has an invalid value.
    pub(crate) ignored: Option<HeaderName>,
}

/// Reads an answer. `now` is the time on the clock of this process.
pub(crate) fn read(
    settings: &HintSettings,
    status: StatusCode,
    headers: &HeaderMap,
    now: impl Fn() -> SystemTime,
) -> Reading {
    let mut hints = Hints::default();
    let refusal = Refusal::of(status, headers);
    let stated = if let Some(refusal) = refusal {
        hints.add(&header::RETRY_AFTER, || retry_after::read(headers, &now));
        hints.add(&GRPC_RETRY_PUSHBACK_MS, || grpc::pushback(headers));
        #[cfg(feature = "tonic")]
        hints.add(&GRPC_STATUS_DETAILS, || details::retry_info(headers));
        if hints.longest.is_none() {
            hints.add(&RATELIMIT, || structured::exhausted(headers));
            if let Some(remaining) = &settings.remaining {
                hints.add(&remaining.reset, || reset(remaining, headers, &now));
            }
        }
        let stated = hints.longest.filter(|length| !length.is_zero());
        stated.or_else(|| (refusal == Refusal::Certain).then_some(settings.without_hint))
    } else if settings.closes_at_zero {
        hints.add(&RATELIMIT, || structured::exhausted(headers));
        if let Some(remaining) = &settings.remaining {
            hints.add(&remaining.remaining, || at_zero(remaining, headers, &now));
        }
        hints.longest
    } else {
        None
    };
    let closed_for = stated.map(|stated| whole_micros(stated.min(settings.cap)));
    let closed_for = closed_for.filter(|length| !length.is_zero());
    let is_capped = stated.is_some_and(|stated| stated > settings.cap);
    Reading { closed_for, is_capped, ignored: hints.ignored }
}

/// Rounds up to what a store keeps.
fn whole_micros(length: Duration) -> Duration {
    let micros = length.as_nanos().div_ceil(1_000);
    Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}

/// Why an answer is a refusal of too many requests.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Refusal {
    /// By its status.
    Certain,
    /// Only if it states a time: a server that is unavailable states one if it wants to be left alone until then.
    IfTimed,
}

impl Refusal {
    fn of(status: StatusCode, headers: &HeaderMap) -> Option<Self> {
        match status {
            StatusCode::TOO_MANY_REQUESTS => Some(Self::Certain),
            StatusCode::SERVICE_UNAVAILABLE => Some(Self::IfTimed),
            _ => match headers.get(&GRPC_STATUS)?.as_bytes() {
                grpc::RESOURCE_EXHAUSTED => Some(Self::Certain),
                grpc::UNAVAILABLE => Some(Self::IfTimed),
                _ => None,
            },
        }
    }
}

#[derive(Default)]
struct Hints {
    longest: Option<Duration>,
    ignored: Option<HeaderName>,
}

impl Hints {
    fn add(&mut self, name: &HeaderName, read: impl FnOnce() -> Hint) {
        match read() {
            Ok(length) => self.longest = self.longest.max(length),
            Err(Invalid) => self.ignored = Some(name.clone()),
        }
    }
}

/// The time until the reset, if nothing remains.
fn at_zero(names: &RemainingHeaders, headers: &HeaderMap, now: &impl Fn() -> SystemTime) -> Hint {
    let Some(value) = headers.get(&names.remaining) else { return Ok(None) };
    let remaining = number::parse(value.as_bytes(), number::SECOND).ok_or(Invalid)?;
    if remaining.is_zero() { reset(names, headers, now) } else { Ok(None) }
}

/// The time until the reset.
fn reset(names: &RemainingHeaders, headers: &HeaderMap, now: &impl Fn() -> SystemTime) -> Hint {
    let Some(value) = headers.get(&names.reset) else { return Ok(None) };
    let unit = match names.format {
        ResetFormat::Seconds | ResetFormat::UnixSeconds => number::SECOND,
        ResetFormat::Milliseconds | ResetFormat::UnixMilliseconds => number::MILLISECOND,
    };
    let time = number::parse(value.as_bytes(), unit).ok_or(Invalid)?;
    Ok(Some(match names.format {
        ResetFormat::Seconds | ResetFormat::Milliseconds => time,
        ResetFormat::UnixSeconds | ResetFormat::UnixMilliseconds => {
            match SystemTime::UNIX_EPOCH.checked_add(time) {
                Some(at) => date::until(at, headers, now),
                None => Duration::MAX,
            }
        }
    }))
}

#[cfg(test)]
mod tests;
