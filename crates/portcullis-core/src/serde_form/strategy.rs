//! The form of strategies.

use alloc::format;
use alloc::string::{String, ToString};

use serde::de::Error as _;
use serde::ser::{Error as _, SerializeMap};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::fields::{Fields, FieldsVisitor, strategy_field};
use super::kind::Kind;
use super::values::list;
use super::windows::{self, ReadWindows};
use crate::quota::duration_text;
use crate::{
    Anchor, CalendarWindow, FixedWindow, Gcra, InFlight, LeakyBucket, Quota, QuotaError, Refill, SlidingLog,
    SlidingWindow, Strategy, TokenBucket, WindowTable,
};

impl Strategy {
    /// Reads a strategy like its implementation of [`Deserialize`](serde::Deserialize), with the windows of calendars that `windows`
    /// makes from their description. See [`Policy::deserialize_with_windows`](crate::Policy::deserialize_with_windows).
    ///
    /// # Errors
    ///
    /// If the value is not a strategy, or `windows` returns an error.
    pub fn deserialize_with_windows<'de, D: Deserializer<'de>>(
        deserializer: D,
        windows: fn(&str) -> Result<&'static WindowTable, String>,
    ) -> Result<Self, D::Error> {
        read(deserializer, windows)
    }
}

impl<'de> Deserialize<'de> for Strategy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read(deserializer, windows::none)
    }
}

/// Reads a strategy, with `windows` for those of calendars.
pub(super) fn read<'de, D: Deserializer<'de>>(
    deserializer: D,
    windows: ReadWindows,
) -> Result<Strategy, D::Error> {
    let expecting = "a strategy, such as { strategy = \"gcra\", quota = \"10/s burst 20\" }";
    let visitor = FieldsVisitor { expecting, field: strategy_field, windows };
    let fields = deserializer.deserialize_any(visitor)?;
    let strategy = fields.strategy().map_err(D::Error::custom)?;
    fields.reject_lease_of_policy(&strategy).map_err(D::Error::custom)?;
    Ok(strategy)
}

impl Serialize for Strategy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        write_fields(&mut map, self)?;
        map.end()
    }
}

/// Writes the fields of a strategy into the map of the strategy or of its policy.
pub(super) fn write_fields<M: SerializeMap>(map: &mut M, strategy: &Strategy) -> Result<(), M::Error> {
    let name = Kind::of(strategy).name();
    if let Strategy::CalendarWindow(window) = strategy {
        map.serialize_entry("strategy", name)?;
        write_limit(map, strategy)?;
        return map.serialize_entry("windows", window.table().name());
    }
    if let Strategy::InFlight(limit) = strategy {
        map.serialize_entry("strategy", name)?;
        write_limit(map, strategy)?;
        return match duration_text(limit.lease()).filter(|_| limit.lease() != InFlight::DEFAULT_LEASE) {
            Some(lease) => map.serialize_entry("lease", &lease),
            None => Ok(()),
        };
    }
    let quota = strategy
        .quota()
        .ok_or_else(|| M::Error::custom(format_args!("no quota describes this share of a {name} exactly")))?;
    map.serialize_entry("strategy", name)?;
    map.serialize_entry("quota", &quota)?;
    match strategy {
        Strategy::TokenBucket(bucket) => match bucket.refill() {
            Refill::Greedy => Ok(()),
            Refill::Interval => map.serialize_entry("refill", "interval"),
        },
        Strategy::FixedWindow(window) => match window.anchor() {
            Anchor::Epoch => Ok(()),
            Anchor::FirstRequest => map.serialize_entry("anchor", "first_request"),
            Anchor::Instant(instant) => map.serialize_entry("anchor", &instant.as_micros()),
        },
        Strategy::SlidingWindow(window) if window.slots() != 1 => {
            map.serialize_entry("slots", &window.slots())
        }
        Strategy::SlidingWindow(_)
        | Strategy::CalendarWindow(_)
        | Strategy::Gcra(_)
        | Strategy::LeakyBucket(_)
        | Strategy::SlidingLog(_)
        | Strategy::InFlight(_) => Ok(()),
    }
}

fn write_limit<M: SerializeMap>(map: &mut M, strategy: &Strategy) -> Result<(), M::Error> {
    if strategy.is_unlimited() {
        map.serialize_entry("limit", &Quota::UNLIMITED)
    } else {
        map.serialize_entry("limit", &strategy.limit())
    }
}

impl Fields {
    /// Builds the strategy from its fields. The error names the field.
    pub(super) fn strategy(&self) -> Result<Strategy, String> {
        let kind = self.kind.ok_or_else(|| format!("missing field `strategy`, one of {}", Kind::names()))?;
        self.reject_parameters_of_others(kind)?;
        let quota = || self.quota(kind);
        let strategy = match kind {
            Kind::TokenBucket => TokenBucket::new(quota()?)
                .map(|bucket| Strategy::TokenBucket(bucket.refilled(self.refill.unwrap_or_default()))),
            Kind::Gcra => Gcra::new(quota()?).map(Strategy::Gcra),
            Kind::LeakyBucket => LeakyBucket::new(quota()?).map(Strategy::LeakyBucket),
            Kind::FixedWindow => FixedWindow::new(quota()?)
                .map(|window| Strategy::FixedWindow(window.anchored(self.anchor.unwrap_or_default()))),
            Kind::CalendarWindow => return self.calendar_window(),
            Kind::InFlight => return self.in_flight(),
            Kind::SlidingWindow => {
                SlidingWindow::with_slots(quota()?, self.slots.unwrap_or(1)).map(Strategy::SlidingWindow)
            }
            Kind::SlidingLog => SlidingLog::new(quota()?).map(Strategy::SlidingLog),
        };
        strategy.map_err(|error| self.invalid(kind, error))
    }

    /// Its windows differ in length, so that it has a limit and no quota.
    fn calendar_window(&self) -> Result<Strategy, String> {
        let kind = Kind::CalendarWindow;
        let period = [("quota", self.quota.is_some()), ("period", self.period.is_some())];
        if let Some((field, _)) = period.into_iter().find(|(_, given)| *given) {
            return Err(format!(
                "unknown field `{field}` of {}: write `limit`, the units of each of its `windows`",
                kind.name()
            ));
        }
        let limit = self.limit(kind)?.ok_or("missing field `limit`, the units of each window")?;
        let table = self.windows.ok_or("missing field `windows`, such as \"months in Europe/Berlin\"")?;
        let window = CalendarWindow::new(limit, table).map_err(|error| self.invalid(kind, error))?;
        Ok(Strategy::CalendarWindow(window))
    }

    /// The limit of a strategy without a quota. No number stands for an unlimited one.
    pub(super) fn limit(&self, kind: Kind) -> Result<Option<u64>, String> {
        match self.limit {
            Some(units) if units == Quota::UNLIMITED.limit() && !self.is_unlimited => {
                Err(self.invalid(kind, QuotaError::TooManyUnits { units }))
            }
            limit => Ok(limit),
        }
    }

    fn quota(&self, kind: Kind) -> Result<Quota, String> {
        let parts = [
            ("limit", self.limit.is_some()),
            ("period", self.period.is_some()),
            ("burst", self.burst.is_some()),
        ];
        let given = parts.into_iter().find(|(_, given)| *given);
        let (limit, period) = match (self.quota, given, self.limit, self.period) {
            (Some(quota), None, ..) => return Ok(quota),
            (Some(quota), Some((field, _)), ..) => {
                return Err(format!(
                    "`quota = \"{quota}\"` and `{field}` are both given: write either `quota`, with the burst in it, or \
                     `limit`, `period` and `burst`"
                ));
            }
            (None, None, ..) => return Err("missing field `quota`, such as \"10/s burst 20\"".to_string()),
            (None, ..) if self.is_unlimited => return Ok(Quota::UNLIMITED),
            (None, _, None, _) => {
                return Err("missing field `limit`: write `limit` and `period`, or `quota` alone".to_string());
            }
            (None, _, _, None) => {
                return Err(
                    "missing field `period`, such as \"15min\": write `limit` and `period`, or `quota` alone"
                        .to_string(),
                );
            }
            (None, _, Some(limit), Some(period)) => (limit, period),
        };
        Quota::new(limit, period, self.burst).map_err(|error| self.invalid(kind, error))
    }

    /// An error that names the field at fault; the value is in the error.
    pub(super) fn invalid(&self, kind: Kind, error: QuotaError) -> String {
        let field = match error {
            QuotaError::UnevenSlots { .. } => "slots",
            QuotaError::InvalidLease(_) => "lease",
            _ if self.quota.is_some() => "quota",
            QuotaError::TooManyUnits { units } if self.limit != Some(units) => "burst",
            QuotaError::TooManyUnits { .. }
            | QuotaError::WindowTooLarge { .. }
            | QuotaError::ShareBelowOne { .. }
            | QuotaError::TooManyInFlight { .. }
            | QuotaError::LogTooLong { .. } => "limit",
            QuotaError::ZeroPeriod | QuotaError::FractionalPeriod(_) | QuotaError::PeriodTooLong(_) => {
                "period"
            }
            QuotaError::ZeroBurst
            | QuotaError::BurstOfZero { .. }
            | QuotaError::FillsTooSlowly { .. }
            | QuotaError::BurstNotSupported { .. } => "burst",
        };
        format!("`{field}` of {}: {error}", kind.name())
    }

    fn reject_parameters_of_others(&self, kind: Kind) -> Result<(), String> {
        let given = [
            self.burst.is_some(),
            self.refill.is_some(),
            self.anchor.is_some(),
            self.slots.is_some(),
            self.windows.is_some(),
        ];
        let foreign =
            PARAMETERS.iter().zip(given).find(|((_, owners), given)| *given && !owners.contains(&kind));
        let Some(((field, owners), _)) = foreign else { return Ok(()) };
        let own =
            list(PARAMETERS.iter().filter(|(_, owners)| owners.contains(&kind)).map(|(field, _)| *field));
        let (name, owners) = (kind.name(), list(owners.iter().map(|owner| owner.name())));
        let size = match kind {
            Kind::CalendarWindow => "limit",
            Kind::InFlight => "limit and lease",
            _ => "quota",
        };
        let own = if own.is_empty() { format!("only its {size}") } else { format!("its {size} and {own}") };
        Err(format!("unknown field `{field}` of {name}, which has {own}: `{field}` is for {owners}"))
    }
}

/// The fields that only some strategies have, in the order in which `reject_parameters_of_others` looks at them.
const PARAMETERS: [(&str, &[Kind]); 5] = [
    ("burst", &[Kind::TokenBucket, Kind::Gcra, Kind::LeakyBucket]),
    ("refill", &[Kind::TokenBucket]),
    ("anchor", &[Kind::FixedWindow]),
    ("slots", &[Kind::SlidingWindow]),
    ("windows", &[Kind::CalendarWindow]),
];
