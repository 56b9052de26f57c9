//! Reads strategies in the form of core, with durations and instants as these files have them.

use std::fmt;
use std::time::Duration;

use portcullis_core::{Quota, Strategy};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Error as _, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::values::{Anchor, Micros};

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
        let mut period = None;
        let fields = Fields { map, key: String::new(), period: &mut period };
        let strategy = Strategy::deserialize(MapAccessDeserializer::new(fields))?;
        let period = period.ok_or_else(|| A::Error::missing_field("period"))?;
        Ok(RawStrategy { strategy, period })
    }
}

/// The fields of a strategy, for core: durations and anchors become values that core reads.
struct Fields<'p, A> {
    map: A,
    /// The current field.
    key: String,
    period: &'p mut Option<Duration>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Fields<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        self.map.next_key_seed(Key { seed, key: &mut self.key })
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        match self.key.as_str() {
            "quota" => {
                let quota: Quota = self.map.next_value()?;
                *self.period = Some(quota.period());
                seed.deserialize(quota.to_string().into_deserializer())
            }
            "period" => {
                let Micros(period) = self.map.next_value()?;
                *self.period = Some(period);
                let micros = u64::try_from(period.as_micros()).unwrap_or(u64::MAX);
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

/// Keeps the name of a field and passes it to core. That happens while the name is being deserialized, so that an error has its
/// position.
struct Key<'k, K> {
    seed: K,
    key: &'k mut String,
}

impl<'de, K: DeserializeSeed<'de>> DeserializeSeed<'de> for Key<'_, K> {
    type Value = K::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<K::Value, D::Error> {
        let key = String::deserialize(deserializer)?;
        self.key.clone_from(&key);
        self.seed.deserialize(key.into_deserializer())
    }
}
