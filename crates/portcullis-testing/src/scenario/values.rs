//! Deserializes durations and instants.

use std::time::Duration;

use portcullis_core::{Retry, Timestamp};
use serde::Deserialize;

/// A duration of whole microseconds.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Micros(pub(super) Duration);

impl TryFrom<String> for Micros {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let duration = humantime::parse_duration(&text)
            .map_err(|error| format!("{text:?} is not a duration such as \"500ms\": {error}"))?;
        if duration.subsec_nanos() % 1_000 != 0 {
            return Err(format!("{text:?} is not a whole number of microseconds"));
        }
        Ok(Self(duration))
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Wait(pub(super) Retry);

impl TryFrom<String> for Wait {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == "unknown" {
            return Ok(Self(Retry::Unknown));
        }
        if text == "never" {
            return Ok(Self(Retry::Never));
        }
        Micros::try_from(text).map(|Micros(wait)| Self(Retry::After(wait)))
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Instant(pub(super) Timestamp);

impl TryFrom<String> for Instant {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let time = humantime::parse_rfc3339(&text).map_err(|error| {
            format!("{text:?} is not an instant such as \"2026-01-01T00:00:00Z\", in UTC: {error}")
        })?;
        let since_epoch = time
            .duration_since(std::time::UNIX_EPOCH)
            .map_err(|_| format!("{text:?} is before 1970, the first supported year"))?;
        if since_epoch.subsec_nanos() % 1_000 != 0 {
            return Err(format!("{text:?} is not a whole number of microseconds"));
        }
        let instant = Timestamp::EPOCH.saturating_add(since_epoch);
        if instant == Timestamp::MAX {
            return Err(format!("{text:?} is after {MAX_YEAR}, the last supported year"));
        }
        Ok(Self(instant))
    }
}

/// The anchor of a fixed window.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) enum Anchor {
    /// One that core reads by its name.
    Named(String),
    Instant(Timestamp),
}

impl TryFrom<String> for Anchor {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if matches!(text.as_str(), "epoch" | "first_request") {
            return Ok(Self::Named(text));
        }
        match Instant::try_from(text) {
            Ok(Instant(instant)) => Ok(Self::Instant(instant)),
            Err(error) => Err(format!("an anchor is \"epoch\", \"first_request\" or an instant: {error}")),
        }
    }
}

pub(super) const MAX_YEAR: u32 = 2255;
