//! Quotas as text.

use alloc::string::{String, ToString};

use serde::de::DeserializeSeed;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::values::Text;
use crate::Quota;

impl<'de> Deserialize<'de> for Quota {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Text { expecting: "a quota, such as \"10/s burst 20\"", parse };
        text.deserialize(deserializer)
    }
}

impl Serialize for Quota {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn parse(text: &str) -> Result<Quota, String> {
    text.parse::<Quota>().map_err(|error| error.to_string())
}
