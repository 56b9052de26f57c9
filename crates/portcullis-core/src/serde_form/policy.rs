//! The form of policies and their names.

use alloc::string::{String, ToString};

use serde::de::{DeserializeSeed, Error as _};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::fields::{FieldsVisitor, policy_field};
use super::strategy::write_fields;
use super::values::Text;
use crate::quota::duration_text;
use crate::{FailureMode, Policy, PolicyName};

impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expecting =
            "a policy, such as { name = \"search\", strategy = \"gcra\", quota = \"10/s burst 20\" }";
        let mut fields = deserializer.deserialize_any(FieldsVisitor { expecting, field: policy_field })?;
        let name = fields.name.take().ok_or_else(|| D::Error::missing_field("name"))?;
        let strategy =
            fields.strategy().map_err(|error| D::Error::custom(format_args!("policy {name}: {error}")))?;
        let mut policy = Self::new(name, strategy);
        if let Some(mode) = fields.on_store_failure {
            policy = policy.try_on_store_failure(mode).map_err(D::Error::custom)?;
        }
        if let Some(units) = fields.lease {
            policy = policy.try_lease(units).map_err(D::Error::custom)?;
        }
        if let Some(wait) = fields.wait {
            policy = policy.try_wait_at_most(wait).map_err(D::Error::custom)?;
        }
        Ok(policy)
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

fn name(text: &str) -> Result<PolicyName, String> {
    PolicyName::new(text).map_err(|error| error.to_string())
}
