//! The form of policies and their names.

use alloc::string::{String, ToString};

use serde::de::{DeserializeSeed, Error as _};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::fields::{FieldsVisitor, policy_field};
use super::strategy::write_fields;
use super::values::Text;
use super::windows::{self, ReadWindows};
use crate::quota::duration_text;
use crate::{FailureMode, Policy, PolicyName, PolicySettings, WindowTable};

impl Policy {
    /// Reads a policy like its implementation of [`Deserialize`](serde::Deserialize), with the windows of calendars that `windows`
    /// makes from their description.
    ///
    /// This crate has no time zone data, so the implementation alone cannot read a calendar window.
    ///
    /// ```
    /// use portcullis::store::WindowTable;
    /// use portcullis::{Policy, Timestamp};
    ///
    /// static STARTS: [Timestamp; 2] = [Timestamp::from_micros(0), Timestamp::from_micros(1_000_000)];
    ///
    /// fn windows(text: &str) -> Result<&'static WindowTable, String> {
    ///     let table = WindowTable::new("seconds", 1, &STARTS).map_err(|error| error.to_string())?;
    ///     if text == "seconds" { Ok(Box::leak(Box::new(table))) } else { Err(format!("unknown windows {text}")) }
    /// }
    ///
    /// let text = r#"{"name":"few","strategy":"calendar_window","limit":5,"windows":"seconds"}"#;
    /// let policy = Policy::deserialize_with_windows(&mut serde_json::Deserializer::from_str(text), windows)?;
    /// assert_eq!(policy.strategy().limit(), 5);
    /// assert_eq!(serde_json::to_string(&policy)?, text);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If the value is not a policy, or `windows` returns an error.
    pub fn deserialize_with_windows<'de, D: Deserializer<'de>>(
        deserializer: D,
        windows: fn(&str) -> Result<&'static WindowTable, String>,
    ) -> Result<Self, D::Error> {
        read(deserializer, windows)
    }
}

impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read(deserializer, windows::none)
    }
}

impl Serialize for Policy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", self.name())?;
        write_fields(&mut map, self.strategy())?;
        if self.failure_mode() != FailureMode::default() {
            map.serialize_entry("on_store_failure", &self.failure_mode())?;
        }
        if let Some(units) = self.max_lease() {
            map.serialize_entry("lease", &units)?;
        }
        if let Some(wait) = self.max_wait().and_then(duration_text) {
            map.serialize_entry("wait", &wait)?;
        }
        if let Some(units) = self.max_debt() {
            map.serialize_entry("debt", &units)?;
        }
        if let Some(quotas) = self.quota_range() {
            map.serialize_entry("caller_quotas", &quotas)?;
        }
        if self.reads_overrides() {
            map.serialize_entry("overrides", &true)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for PolicyName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text =
            Text { expecting: "the name of a policy, 1 to 64 printable ASCII characters", parse: name };
        text.deserialize(deserializer)
    }
}

impl Serialize for PolicyName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Reads a policy, with `windows` for those of calendars.
pub(super) fn read<'de, D: Deserializer<'de>>(
    deserializer: D,
    windows: ReadWindows,
) -> Result<Policy, D::Error> {
    let expecting = "a policy, such as { name = \"search\", strategy = \"gcra\", quota = \"10/s burst 20\" }";
    let visitor = FieldsVisitor { expecting, field: policy_field, windows };
    let mut fields = deserializer.deserialize_any(visitor)?;
    let name = fields.name.take().ok_or_else(|| D::Error::missing_field("name"))?;
    let wrong = |error: String| D::Error::custom(format_args!("policy {name}: {error}"));
    let strategy = fields.strategy().map_err(wrong)?;
    let leased_units = fields.leased_units(&strategy).map_err(wrong)?;
    let settings = PolicySettings {
        failure_mode: fields.on_store_failure.unwrap_or_default(),
        max_lease: leased_units,
        max_wait: fields.wait,
        max_debt: fields.debt,
        caller_quotas: fields.caller_quotas,
        allow_overrides: fields.overrides.unwrap_or_default(),
    };
    Policy::try_new(name.as_str(), Ok(strategy), settings).map_err(D::Error::custom)
}

fn name(text: &str) -> Result<PolicyName, String> {
    PolicyName::new(text).map_err(|error| error.to_string())
}
