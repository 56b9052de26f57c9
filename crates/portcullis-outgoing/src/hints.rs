//! What an answer states about the time at which its server takes requests again.

mod date;
#[cfg(feature = "tonic")]
mod details;
mod duration;
mod grpc;
mod number;
mod remaining;
mod retry_after;
mod settings;
mod structured;
mod time;
mod values;

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, StatusCode};

use portcullis_response::internal::GRPC_STATUS;

use remaining::Budgets;
pub(crate) use settings::HintSettings;
pub use settings::{RemainingHeaders, ResetFormat};

/// A header has a value that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Invalid(HeaderName);

impl Invalid {
    fn of(header: &HeaderName) -> Self {
        Self(header.clone())
    }
}

/// The time that a header states, from now on. `None` if the header is absent or states none.
type Hint = Result<Option<Duration>, Invalid>;

/// What an answer means for its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    /// For how long the key is closed, at most the longest time that is obeyed. `None` if it stays open.
    pub(crate) closed_for: Option<Duration>,
    /// Whether the answer has stated a longer time.
    pub(crate) is_capped: bool,
    /// The headers that were to be obeyed and have invalid values.
    pub(crate) ignored: Vec<HeaderName>,
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
    if refusal.is_some() {
        for header in &retry_after::HEADERS {
            hints.add(retry_after::read(header, headers, &now));
        }
        hints.add(grpc::pushback(headers));
        #[cfg(feature = "tonic")]
        hints.add(details::retry_info(headers));
    }
    let budgets = match refusal {
        Some(Refusal::Certain | Refusal::IfTimed) => Some(Budgets::NotLeft),
        _ => settings.closes_at_zero.then_some(Budgets::Exhausted),
    };
    if let (Some(budgets), true) = (budgets, hints.states_nothing()) {
        hints.add(structured::exhausted(headers));
        for names in &settings.remaining {
            hints.add(remaining::reset(names, budgets, headers, &now));
        }
    }
    if refusal == Some(Refusal::Certain) && hints.states_nothing() {
        for names in &settings.remaining {
            hints.add(remaining::reset(names, Budgets::All, headers, &now));
        }
    }
    let stated = hints.longest.filter(|length| !length.is_zero());
    let stated = stated.or_else(|| (refusal == Some(Refusal::Certain)).then_some(settings.without_hint));
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
    /// Only if it states a time, also that of a budget: some servers refuse so what is over a limit, and a server that is unavailable
    /// states a time if it wants to be left alone until then.
    IfTimed,
    /// Only if it states when to repeat the request. A budget that it shows is not why it failed.
    IfRepeatable,
}

impl Refusal {
    fn of(status: StatusCode, headers: &HeaderMap) -> Option<Self> {
        match status {
            StatusCode::TOO_MANY_REQUESTS => Some(Self::Certain),
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::FORBIDDEN => Some(Self::IfTimed),
            status if status.is_client_error() || status.is_server_error() => Some(Self::IfRepeatable),
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
    ignored: Vec<HeaderName>,
}

impl Hints {
    fn add(&mut self, hint: Hint) {
        match hint {
            Ok(length) => self.longest = self.longest.max(length),
            Err(Invalid(header)) if self.ignored.contains(&header) => {}
            Err(Invalid(header)) => self.ignored.push(header),
        }
    }

    /// A time that is zero or has passed counts as none.
    fn states_nothing(&self) -> bool {
        self.longest.is_none_or(|length| length.is_zero())
    }
}

#[cfg(test)]
mod tests;
