//! The text form of quotas: `100/min`, `5/10s`, `10/s burst 20`.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use super::{Quota, QuotaError};

impl FromStr for Quota {
    type Err = ParseQuotaError;

    /// Parses `<limit>/[<count>]<unit>[ burst <n>]`, or `unlimited`.
    ///
    /// Units are `us`, `ms`, `s`, `min`, `h`, `d` and `w`, or the words `second`, `minute`, `hour`, `day` and `week`.
    ///
    /// ```
    /// use portcullis::Quota;
    ///
    /// assert_eq!("100/min".parse(), Ok(Quota::per_minute(100)));
    /// assert_eq!("5 / 1 week".parse(), Ok(Quota::per_week(5)));
    /// let error = "5/fortnight".parse::<Quota>().unwrap_err();
    /// assert!(error.to_string().contains("fortnight"));
    /// ```
    fn from_str(text: &str) -> Result<Self, ParseQuotaError> {
        parse(text).map_err(|reason| ParseQuotaError { text: shorten(text), reason })
    }
}

/// Why a text is not a quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseQuotaError {
    text: String,
    reason: Reason,
}

impl fmt::Display for ParseQuotaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot read the quota {:?}: ", self.text)?;
        match self.reason {
            Reason::Shape => {
                f.write_str(
                "expected `<limit>/<period>` and optionally `burst <n>`, as in `10/s burst 20`, or `unlimited`",
            )
            }
            Reason::Number(what) => {
                let least = u8::from(what != LIMIT);
                write!(f, "the {what} is not a number from {least} to {}", Quota::MAX_UNITS)
            }
            Reason::Unit => f.write_str("the period must end in us, ms, s, min, h, d or w"),
            Reason::Quota(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ParseQuotaError {}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Reason {
    Shape,
    Number(&'static str),
    Unit,
    Quota(QuotaError),
}

fn parse(text: &str) -> Result<Quota, Reason> {
    if text.trim() == UNLIMITED {
        return Ok(Quota::UNLIMITED);
    }
    let (limit, rest) = text.split_once('/').ok_or(Reason::Shape)?;
    let (period, burst) = match rest.split_once("burst") {
        Some((period, burst)) => (period, Some(burst)),
        None => (rest, None),
    };
    let (limit, period) = (number(limit, LIMIT)?, parse_period(period.trim())?);
    let burst = burst.map(|burst| number(burst, "burst")).transpose()?;
    Quota::new(limit, period, burst).map_err(Reason::Quota)
}

fn parse_period(text: &str) -> Result<Duration, Reason> {
    // A quota has a bound for its period, which a saturated one exceeds.
    period_parts(text).map(|(count, micros)| Duration::from_micros(count.saturating_mul(micros)))
}

/// The count and the microseconds of its unit.
fn period_parts(text: &str) -> Result<(u64, u64), Reason> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (count, unit) = text.split_at(digits);
    let count: u64 =
        if count.is_empty() { 1 } else { count.parse().map_err(|_| Reason::Number("period"))? };
    let micros = unit_micros(unit.trim()).ok_or(Reason::Unit)?;
    Ok((count, micros))
}

fn number(text: &str, what: &'static str) -> Result<u64, Reason> {
    let text = text.trim();
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse().map_err(|_| Reason::Number(what))
    } else {
        Err(Reason::Number(what))
    }
}

fn unit_micros(unit: &str) -> Option<u64> {
    let micros = match unit {
        "us" => 1,
        "ms" => 1_000,
        "s" | "sec" | "second" | "seconds" => SECOND,
        "m" | "min" | "minute" | "minutes" => 60 * SECOND,
        "h" | "hour" | "hours" => 3_600 * SECOND,
        "d" | "day" | "days" => 86_400 * SECOND,
        "w" | "week" | "weeks" => 604_800 * SECOND,
        _ => return None,
    };
    Some(micros)
}

/// How many of the largest unit that divides `micros` it has, and that unit.
pub(super) fn largest_unit(micros: u64) -> (u64, &'static str) {
    for unit in ["w", "d", "h", "min", "s", "ms"] {
        if let Some(size) = unit_micros(unit)
            && micros.checked_rem(size) == Some(0)
        {
            return (micros.checked_div(size).unwrap_or(0), unit);
        }
    }
    (micros, "us")
}

/// The start of `text`: an error does not carry an arbitrarily long input.
fn shorten(text: &str) -> String {
    text.chars().take(MAX_ECHOED_CHARS).collect()
}

/// Parses a duration in the form of a quota's period: `15min`.
#[cfg(feature = "serde")]
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let micros = match period_parts(text.trim()) {
        Ok((count, micros)) => count.checked_mul(micros),
        Err(Reason::Number(_)) => None,
        Err(_) => {
            return Err(alloc::format!(
                "cannot read the duration {:?}: expected a whole number and a unit (us, ms, s, min, h, d or w), as in `15min`",
                shorten(text)
            ));
        }
    };
    micros.map(Duration::from_micros).ok_or_else(|| {
        alloc::format!("the duration {:?} is not below 2^64 microseconds, about 584 542 years", shorten(text))
    })
}

/// Prints a duration in the form that [`duration`] parses. `None` if it is not whole microseconds, or more than 2^64 of them.
#[cfg(feature = "serde")]
pub(crate) fn duration_text(duration: Duration) -> Option<String> {
    let micros = u64::try_from(duration.as_micros()).ok()?;
    if Duration::from_micros(micros) != duration {
        return None;
    }
    let (count, unit) = largest_unit(micros);
    Some(alloc::format!("{count}{unit}"))
}

/// The text of [`Quota::UNLIMITED`].
pub(super) const UNLIMITED: &str = "unlimited";
const LIMIT: &str = "limit";
const SECOND: u64 = 1_000_000;
const MAX_ECHOED_CHARS: usize = 64;
