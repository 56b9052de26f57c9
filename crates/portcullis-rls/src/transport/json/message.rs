//! Calls and answers in the JSON form of protobuf.
//!
//! It is read here, because `prost-reflect` takes a field that is given twice, and `pbjson` refuses `null`.

use prost_types::Duration;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::messages::rate_limit_descriptor::{Entry as ProtoEntry, RateLimitOverride};
use crate::messages::rate_limit_response::{DescriptorStatus, RateLimit};
use crate::messages::{HeaderValue, RateLimitDescriptor, RateLimitRequest, RateLimitResponse, RateLimitUnit};

/// A call. Fields have the names of the protobuf file or those in camel case; `null` is the default of a field.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Request {
    domain: Option<String>,
    descriptors: Option<Vec<Descriptor>>,
    #[serde(alias = "hits_addend")]
    hits_addend: Option<Number<u32>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Descriptor {
    entries: Option<Vec<Entry>>,
    limit: Option<Limit>,
    #[serde(alias = "hits_addend")]
    hits_addend: Option<Number<u64>>,
    #[serde(alias = "is_negative_hits")]
    is_negative_hits: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    key: Option<String>,
    value: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Limit {
    #[serde(alias = "requests_per_unit")]
    requests_per_unit: Option<Number<u32>>,
    unit: Option<Unit>,
}

/// A number, which may be written as a text.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "Value", bound = "T: TryFrom<u64>")]
pub(super) struct Number<T>(pub(super) T);

impl<T: TryFrom<u64>> TryFrom<Value> for Number<T> {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let number: Option<u64> = match &value {
            Value::Number(number) => number.as_u64(),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        let number = number.and_then(|number| T::try_from(number).ok());
        let bits = 8 * size_of::<T>();
        number.map(Self).ok_or_else(|| format!("expected a number from 0, of {bits} bits, found {value}"))
    }
}

/// A unit of time by its name or its number. An unknown one is an error of the call.
#[derive(Deserialize)]
#[serde(untagged)]
enum Unit {
    Name(String),
    Number(i32),
}

impl Unit {
    fn number(&self) -> i32 {
        match self {
            Self::Name(name) => RateLimitUnit::from_str_name(name).unwrap_or(RateLimitUnit::Unknown).into(),
            Self::Number(number) => *number,
        }
    }
}

impl From<Request> for RateLimitRequest {
    fn from(request: Request) -> Self {
        Self {
            domain: request.domain.unwrap_or_default(),
            descriptors: request.descriptors.into_iter().flatten().map(Into::into).collect(),
            hits_addend: request.hits_addend.map_or(0, |hits| hits.0),
        }
    }
}

impl From<Descriptor> for RateLimitDescriptor {
    fn from(descriptor: Descriptor) -> Self {
        let entry = |entry: Entry| ProtoEntry {
            key: entry.key.unwrap_or_default(),
            value: entry.value.unwrap_or_default(),
        };
        Self {
            entries: descriptor.entries.into_iter().flatten().map(entry).collect(),
            limit: descriptor.limit.map(|limit| RateLimitOverride {
                requests_per_unit: limit.requests_per_unit.map_or(0, |number| number.0),
                unit: limit.unit.as_ref().map(Unit::number).unwrap_or_default(),
            }),
            hits_addend: descriptor.hits_addend.map(|hits| hits.0),
            is_negative_hits: descriptor.is_negative_hits.unwrap_or_default(),
        }
    }
}

/// An answer. Fields with their default are left out.
pub(super) fn to_json(response: &RateLimitResponse) -> Value {
    let mut json = Map::new();
    json.insert("overallCode".to_owned(), response.overall_code().as_str_name().into());
    json.insert("statuses".to_owned(), response.statuses.iter().map(status).collect());
    if !response.response_headers_to_add.is_empty() {
        let headers: Value = response.response_headers_to_add.iter().map(header).collect();
        json.insert("responseHeadersToAdd".to_owned(), headers);
    }
    Value::Object(json)
}

fn status(status: &DescriptorStatus) -> Value {
    let mut json = Map::new();
    json.insert("code".to_owned(), status.code().as_str_name().into());
    if let Some(limit) = &status.current_limit {
        json.insert("currentLimit".to_owned(), current_limit(limit));
    }
    if status.limit_remaining > 0 {
        json.insert("limitRemaining".to_owned(), status.limit_remaining.into());
    }
    if let Some(reset) = &status.duration_until_reset {
        json.insert("durationUntilReset".to_owned(), duration(reset).into());
    }
    Value::Object(json)
}

fn current_limit(limit: &RateLimit) -> Value {
    let mut json = json!({ "requestsPerUnit": limit.requests_per_unit, "unit": limit.unit().as_str_name() });
    if let (Value::Object(fields), false) = (&mut json, limit.name.is_empty()) {
        fields.insert("name".to_owned(), limit.name.as_str().into());
    }
    json
}

fn header(header: &HeaderValue) -> Value {
    json!({ "key": header.key, "value": header.value })
}

/// Seconds with as many digits as needed, of 0, 3, 6 and 9.
fn duration(length: &Duration) -> String {
    let Duration { seconds, nanos } = length;
    match nanos {
        0 => format!("{seconds}s"),
        nanos if nanos % 1_000_000 == 0 => format!("{seconds}.{:03}s", nanos / 1_000_000),
        nanos if nanos % 1_000 == 0 => format!("{seconds}.{:06}s", nanos / 1_000),
        nanos => format!("{seconds}.{nanos:09}s"),
    }
}
