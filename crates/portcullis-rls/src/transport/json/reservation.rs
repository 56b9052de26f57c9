//! Reservations and commits in the JSON form of protobuf.

use prost_types::Duration;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::message::{Descriptor, Number};
use crate::messages::{CommitRequest, CommitResponse, ReserveRequest, ReserveResponse};

/// A reservation. Fields have the names of the protobuf file or those in camel case; `null` is the default of a field.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Reserve {
    domain: Option<String>,
    descriptors: Option<Vec<Descriptor>>,
    amount: Option<Number<u64>>,
    ttl: Option<Seconds>,
}

/// A commit.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Commit {
    domain: Option<String>,
    descriptors: Option<Vec<Descriptor>>,
    #[serde(alias = "reservation_id")]
    reservation_id: Option<String>,
    #[serde(alias = "actual_amount")]
    actual_amount: Option<Number<u64>>,
}

/// A length of time such as `30s` or `1.5s`.
#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Seconds(Duration);

impl TryFrom<String> for Seconds {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let parsed = || {
            let number = text.strip_suffix('s')?;
            let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
            let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            if !is_number(whole) || !is_number(fraction) || fraction.len() > 9 {
                return None;
            }
            let nanos = format!("{fraction:0<9}").parse().ok()?;
            Some(Self(Duration { seconds: whole.parse().ok()?, nanos }))
        };
        parsed().ok_or_else(|| format!("expected seconds such as \"30s\", found {text:?}"))
    }
}

impl From<Reserve> for ReserveRequest {
    fn from(call: Reserve) -> Self {
        Self {
            domain: call.domain.unwrap_or_default(),
            descriptors: call.descriptors.into_iter().flatten().map(Into::into).collect(),
            amount: call.amount.map_or(0, |number| number.0),
            ttl: call.ttl.map(|ttl| ttl.0),
        }
    }
}

impl From<Commit> for CommitRequest {
    fn from(call: Commit) -> Self {
        Self {
            domain: call.domain.unwrap_or_default(),
            descriptors: call.descriptors.into_iter().flatten().map(Into::into).collect(),
            reservation_id: call.reservation_id.unwrap_or_default(),
            actual_amount: call.actual_amount.map_or(0, |number| number.0),
        }
    }
}

/// The answer to a reservation. Fields with their default are left out.
pub(super) fn reserved(response: &ReserveResponse) -> Value {
    let mut json = Map::new();
    json.insert("code".to_owned(), response.code().as_str_name().into());
    if !response.reservation_id.is_empty() {
        json.insert("reservationId".to_owned(), response.reservation_id.as_str().into());
    }
    Value::Object(json)
}

/// The answer to a commit.
pub(super) fn committed(response: CommitResponse) -> Value {
    json!({ "reservationReleased": response.reservation_released })
}
