//! The bodies of requests and the answers to changes.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU64;
use std::time::Duration;

use portcullis_core::Quota;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::state::Caller;

/// A policy and a caller.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TargetBody {
    /// The name of the policy.
    #[schema(example = "search")]
    pub(crate) policy: String,
    /// The caller.
    #[serde(default)]
    #[schema(required)]
    pub(crate) identity: IdentityBody,
}

/// A caller: the fingerprint that a list has shown, a request that the caller would make, or the parts of its key.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct IdentityBody {
    /// The fingerprint of the key.
    #[schema(nullable, example = "273cd58cdb10bdc4ee988d13b5450c7d")]
    pub(crate) fingerprint: Option<String>,
    /// A request of the caller. The layer's own extractor finds the key in it.
    #[schema(nullable)]
    pub(crate) request: Option<RequestBody>,
    /// The parts of the key as the extractor writes them, each with its tag, in that order.
    #[schema(nullable, value_type = Option<BTreeMap<String, PartBody>>)]
    pub(crate) parts: Option<PartsBody>,
}

/// The head of a request. It is not made; only the extractor of the layer reads it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an object")]
pub(crate) struct RequestBody {
    /// `GET` if it is left out.
    #[schema(nullable)]
    pub(crate) method: Option<String>,
    /// The path, and a query if the extractor reads it. `/` if it is left out.
    #[schema(nullable)]
    pub(crate) path: Option<String>,
    /// The headers.
    #[schema(nullable)]
    pub(crate) headers: Option<BTreeMap<String, String>>,
    /// The address at the other end of the connection, with or without a port.
    #[schema(nullable, example = "203.0.113.9")]
    pub(crate) peer: Option<String>,
    /// The route of the layer, if layers with this policy find different keys.
    #[schema(nullable)]
    pub(crate) route: Option<String>,
}

/// The parts of a key in their order.
#[derive(Debug)]
pub(crate) struct PartsBody(pub(crate) Vec<(String, PartBody)>);

/// The value of a part: a text, or other bytes.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "expected a text, `{ \"hex\": \"00ff\" }` with two digits for each byte, or `{ \"u64\": 42 }` for eight bytes"
)]
pub(crate) enum PartBody {
    /// A text in UTF-8.
    Text(String),
    /// Bytes.
    Hex {
        /// Two hexadecimal digits for each byte.
        #[serde(deserialize_with = "hex")]
        #[schema(value_type = String, example = "000000000000002a")]
        hex: Vec<u8>,
    },
    /// A number as eight bytes, the highest first, as `u64::to_be_bytes` writes it.
    U64 {
        /// The number.
        u64: u64,
    },
}

/// A grant.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GrantBody {
    /// The name of the policy.
    pub(crate) policy: String,
    /// The caller.
    #[serde(default)]
    #[schema(required)]
    pub(crate) identity: IdentityBody,
    /// The quota, with the period of the policy's own.
    #[serde(deserialize_with = "quota")]
    #[schema(value_type = String, example = "5000/d")]
    pub(crate) quota: Quota,
    /// How long it lasts from now on.
    #[serde(deserialize_with = "seconds")]
    #[schema(value_type = u64, minimum = 1)]
    pub(crate) duration_seconds: Duration,
}

/// A block, under one policy or all.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BlockBody {
    /// The name of the policy. Left out with `everywhere`.
    #[schema(nullable)]
    pub(crate) policy: Option<String>,
    /// Whether the caller is blocked under all policies whose keys are its key or begin with it.
    #[serde(default)]
    pub(crate) everywhere: bool,
    /// The caller.
    #[serde(default)]
    #[schema(required)]
    pub(crate) identity: IdentityBody,
    /// How long it lasts from now on.
    // Optional here, so that a missing policy is the first mistake.
    #[serde(default, deserialize_with = "some_seconds")]
    #[schema(required, value_type = u64, minimum = 1)]
    pub(crate) duration_seconds: Option<Duration>,
}

/// The end of a block, under one policy or all.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UnblockBody {
    /// The name of the policy. Left out with `everywhere`.
    #[schema(nullable)]
    pub(crate) policy: Option<String>,
    /// Whether the block under all policies ends. Those under single policies stay.
    #[serde(default)]
    pub(crate) everywhere: bool,
    /// The caller.
    #[serde(default)]
    #[schema(required)]
    pub(crate) identity: IdentityBody,
}

/// A mode of a policy.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModeBody {
    /// The name of the policy.
    pub(crate) policy: String,
    /// `enforce`, `shadow`, `off`, or for a share of the keys, in steps of 0.1: `10 %` enforces for them, and `shadow 10 %` is in shadow for
    /// them and off for the others.
    #[schema(example = "10 %")]
    pub(crate) mode: String,
}

/// Another quota of a policy.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct QuotaBody {
    /// The name of the policy.
    pub(crate) policy: String,
    /// The quota, with the period of the policy's own. A burst that is left out stays.
    #[serde(deserialize_with = "quota")]
    #[schema(value_type = String, example = "5000/d")]
    pub(crate) quota: Quota,
}

/// The answer to another quota of a policy.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct QuotaChanged {
    /// `quota`.
    pub(crate) action: &'static str,
    /// The policy.
    pub(crate) policy: String,
    /// Algorithm and quota before, such as `fixed_window 1000/d`.
    pub(crate) before: String,
    /// Algorithm and quota now.
    pub(crate) now: String,
    /// Where it applies.
    pub(crate) reach: &'static str,
}

/// The answer to a change that was made.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Changed {
    /// What was done: the name of the route, with `everywhere` behind it for all policies.
    pub(crate) action: &'static str,
    /// The policy; left out for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) policy: Option<String>,
    #[serde(flatten)]
    #[schema(inline)]
    pub(crate) caller: Caller,
    /// Until when, in milliseconds since the epoch by the clock of this process, for a grant or a block; else left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<u64>,
    /// Where it applies.
    pub(crate) reach: &'static str,
}

/// What a caller has left under a policy. Nothing was charged.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Budget {
    /// The policy.
    pub(crate) policy: String,
    #[serde(flatten)]
    #[schema(inline)]
    pub(crate) caller: Caller,
    /// The highest value of `remaining`; 10^15 if there is no limit.
    pub(crate) limit: u64,
    /// Whether the caller has no limit.
    pub(crate) unlimited: bool,
    /// Units that would be admitted now.
    pub(crate) remaining: u64,
    /// Milliseconds until the full limit is available again.
    pub(crate) reset_after_ms: u64,
    /// Milliseconds until `remaining` increases; 0 if it does not, or if that is not known.
    pub(crate) next_after_ms: u64,
    /// Whether the key is blocked or locked out.
    pub(crate) blocked: bool,
    /// Whether the store could not answer, so that the figures are those of this process alone.
    pub(crate) degraded: bool,
    /// States that the figures are for the policy's quota, because this process does not know the caller's own quota. Left out if they are
    /// for the caller's quota.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<&'static str>,
}

/// What overrides the quota of a caller under a policy.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Overrides {
    /// The policy.
    pub(crate) policy: String,
    #[serde(flatten)]
    #[schema(inline)]
    pub(crate) caller: Caller,
    /// The block; `null` without one.
    #[schema(nullable)]
    pub(crate) block: Option<BlockUntil>,
    /// The grant; `null` without one.
    #[schema(nullable)]
    pub(crate) grant: Option<GrantUntil>,
}

/// A block, which may have ended.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BlockUntil {
    /// Its end, on the clock of the store, in milliseconds since the epoch.
    pub(crate) until: u64,
}

/// A grant, which may have ended.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct GrantUntil {
    /// The quota.
    pub(crate) quota: String,
    /// Its end, on the clock of the store, in milliseconds since the epoch.
    pub(crate) until: u64,
}

impl<'de> Deserialize<'de> for PartsBody {
    fn deserialize<D: Deserializer<'de>>(field: D) -> Result<Self, D::Error> {
        field.deserialize_map(PartsVisitor).map(Self)
    }
}

struct PartsVisitor;

impl<'de> Visitor<'de> for PartsVisitor {
    type Value = Vec<(String, PartBody)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with the tags of the parts and their values")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
        std::iter::from_fn(|| parts.next_entry().transpose()).collect()
    }
}

fn hex<'de, D: Deserializer<'de>>(field: D) -> Result<Vec<u8>, D::Error> {
    let text = String::deserialize(field)?;
    let digit = |digit: &u8| char::from(*digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return Err(D::Error::custom("odd")) };
    let bytes = pairs.iter().map(|[high, low]| Some(digit(high)? << 4 | digit(low)?));
    bytes.collect::<Option<_>>().ok_or_else(|| D::Error::custom("no digits"))
}

fn quota<'de, D: Deserializer<'de>>(field: D) -> Result<Quota, D::Error> {
    // The error of the quota repeats the text.
    let quota = String::deserialize(field)?.parse();
    quota.map_err(|_| D::Error::custom("expected a quota such as `100/min burst 20`"))
}

fn seconds<'de, D: Deserializer<'de>>(field: D) -> Result<Duration, D::Error> {
    let seconds = NonZeroU64::deserialize(field).map(|seconds| Duration::from_secs(seconds.get()));
    seconds.map_err(|_| D::Error::custom("expected a whole number of seconds, 1 or more"))
}

fn some_seconds<'de, D: Deserializer<'de>>(field: D) -> Result<Option<Duration>, D::Error> {
    seconds(field).map(Some)
}
