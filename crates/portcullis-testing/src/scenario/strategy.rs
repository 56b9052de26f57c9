//! Reads strategies in the form of core, with durations and instants as these files have them.

use std::fmt;
use std::time::Duration;

use portcullis_core::{Policy, PolicyError, PolicyPartError, PolicySettings, Quota, Strategy};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Error as _, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::values::{Anchor, Micros};
use crate::calendars;

/// A strategy and the period in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawStrategy {
    pub(super) strategy: Strategy,
    pub(super) period: Duration,
}

impl<'de> Deserialize<'de> for RawStrategy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(StrategyVisitor)
    }
}

struct StrategyVisitor;

impl<'de> Visitor<'de> for StrategyVisitor {
    type Value = RawStrategy;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a strategy, such as { strategy = \"gcra\", limit = 10, period = \"1s\" }")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawStrategy, A::Error> {
        let (mut period, mut wait, mut debt) = (None, None, None);
        let fields =
            Fields { map, key: String::new(), period: &mut period, wait: &mut wait, debt: &mut debt };
        let fields = MapAccessDeserializer::new(fields);
        let strategy = Strategy::deserialize_with_windows(fields, calendars::named)?;
        if let Strategy::CalendarWindow(window) = strategy {
            period = Some(window.table().longest());
        }
        if let Strategy::InFlight(limit) = strategy {
            period = Some(limit.lease());
        }
        let period = period.ok_or_else(|| A::Error::missing_field("period"))?;
        let strategy = with(strategy, wait, debt).map_err(A::Error::custom)?;
        Ok(RawStrategy { strategy, period })
    }
}

/// The strategy with a longest wait and a debt. A window or log has no wait of its own: its caller waits, and a timeline does not.
fn with(strategy: Strategy, wait: Option<Duration>, debt: Option<u64>) -> Result<Strategy, String> {
    let settings = PolicySettings { max_wait: wait, max_debt: debt, ..PolicySettings::default() };
    let policy = Policy::try_new("case", Ok(strategy), settings).map_err(|errors| {
        let messages = errors.into_iter().map(|error| match error {
            PolicyError::Part { error: PolicyPartError::Wait(error), .. } => format!("`wait`: {error}"),
            PolicyError::Part { error: PolicyPartError::Debt(error), .. } => format!("`debt`: {error}"),
            error => error.to_string(),
        });
        messages.collect::<Vec<_>>().join("; ")
    })?;
    if wait.is_some() && !policy.strategy().queues() {
        return Err(format!("`wait` is for rate-based strategies, and {} reserves nothing", strategy.tag()));
    }
    Ok(*policy.strategy())
}

/// The fields of a strategy, for core: durations and anchors become values that core reads.
struct Fields<'p, A> {
    map: A,
    /// The current field.
    key: String,
    period: &'p mut Option<Duration>,
    wait: &'p mut Option<Duration>,
    debt: &'p mut Option<u64>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Fields<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let mut seed = seed;
        loop {
            seed = match self.map.next_key_seed(Key { seed, key: &mut self.key })? {
                None => return Ok(None),
                Some(Found::Core(field)) => return Ok(Some(field)),
                Some(Found::OfPolicy(seed)) => seed,
            };
            if self.key == "debt" {
                *self.debt = Some(self.map.next_value()?);
            } else {
                let Micros(wait) = self.map.next_value()?;
                *self.wait = Some(wait);
            }
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        match self.key.as_str() {
            "quota" => {
                let quota: Quota = self.map.next_value()?;
                *self.period = Some(quota.period());
                seed.deserialize(quota.to_string().into_deserializer())
            }
            name @ ("period" | "lease") => {
                let Micros(length) = self.map.next_value()?;
                if name == "period" {
                    *self.period = Some(length);
                }
                let micros = u64::try_from(length.as_micros()).unwrap_or(u64::MAX);
                seed.deserialize(format!("{micros}us").into_deserializer())
            }
            "anchor" => {
                let anchor: Anchor = self.map.next_value()?;
                match anchor {
                    Anchor::Named(name) => seed.deserialize(name.into_deserializer()),
                    Anchor::Instant(instant) => seed.deserialize(instant.as_micros().into_deserializer()),
                }
            }
            _ => self.map.next_value_seed(seed),
        }
    }
}

/// A field of core, or `wait` or `debt`, with which core has nothing to do: they are fields of policies.
enum Found<F, K> {
    Core(F),
    OfPolicy(K),
}

/// Keeps the name of a field and passes it to core. That happens while the name is being deserialized, so that an error has its
/// position.
struct Key<'k, K> {
    seed: K,
    key: &'k mut String,
}

impl<'de, K: DeserializeSeed<'de>> DeserializeSeed<'de> for Key<'_, K> {
    type Value = Found<K::Value, K>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let key = String::deserialize(deserializer)?;
        self.key.clone_from(&key);
        if key == "wait" || key == "debt" {
            return Ok(Found::OfPolicy(self.seed));
        }
        self.seed.deserialize(key.into_deserializer()).map(Found::Core)
    }
}
