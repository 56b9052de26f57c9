//! The form of failure modes.

use alloc::string::String;
use core::fmt;
use core::num::NonZeroU32;

use serde::de::{self, Error as _, MapAccess, Visitor};
use serde::ser::{Error as _, SerializeMap};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::values::{Number, Text, one_of, quoted};
use crate::quota::{duration, duration_text};
use crate::{FailureMode, FailureModeError};

impl<'de> Deserialize<'de> for FailureMode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ModeVisitor)
    }
}

struct ModeVisitor;

impl<'de> Visitor<'de> for ModeVisitor {
    type Value = FailureMode;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a failure mode: \"open\", \"closed\", \"local\", { local = 4 } or { open_for = \"30s\" }",
        )
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<FailureMode, E> {
        match text {
            "open" => Ok(FailureMode::Open),
            "closed" => Ok(FailureMode::Closed),
            "local" => Ok(FailureMode::local(1)),
            _ => Err(E::custom(format_args!(
                "unknown failure mode {}, expected \"open\", \"closed\", \"local\", {{ local = 4 }} or \
                 {{ open_for = \"30s\" }}",
                quoted(text)
            ))),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<FailureMode, A::Error> {
        let key = || Text { expecting: "`local` or `open_for`", parse: parameter };
        let mode = match map.next_key_seed(key())? {
            Some(Parameter::Local) => {
                let instances =
                    map.next_value_seed(Number::new("`local`, a number of instances, at least 1"))?;
                let instances = NonZeroU32::new(instances).ok_or(FailureModeError::NoInstances);
                FailureMode::Local { instances: instances.map_err(A::Error::custom)? }
            }
            Some(Parameter::OpenFor) => {
                let text = Text { expecting: "`open_for`, a duration such as \"30s\"", parse: duration };
                let outage = map.next_value_seed(text)?;
                if outage.is_zero() {
                    return Err(A::Error::custom(FailureModeError::ZeroOpenFor));
                }
                FailureMode::OpenFor(outage)
            }
            None => {
                return Err(A::Error::custom(
                    "a failure mode has `local` or `open_for`, but this one is empty",
                ));
            }
        };
        if map.next_key_seed(key())?.is_some() {
            return Err(A::Error::custom(
                "a failure mode has one `local` or one `open_for`: remove one of the two",
            ));
        }
        Ok(mode)
    }
}

#[derive(Clone, Copy)]
enum Parameter {
    Local,
    OpenFor,
}

fn parameter(text: &str) -> Result<Parameter, String> {
    one_of("field", text, &[("local", Parameter::Local), ("open_for", Parameter::OpenFor)])
}

impl Serialize for FailureMode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Open => serializer.serialize_str("open"),
            Self::Closed => serializer.serialize_str("closed"),
            Self::Local { instances: NonZeroU32::MIN } => serializer.serialize_str("local"),
            Self::Local { instances } => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("local", &instances.get())?;
                map.end()
            }
            Self::OpenFor(outage) if outage.is_zero() => Err(S::Error::custom(FailureModeError::ZeroOpenFor)),
            Self::OpenFor(outage) => {
                let text = duration_text(*outage).ok_or_else(|| {
                    S::Error::custom(format_args!(
                        "`open_for`: {outage:?} is not a whole number of microseconds below 2^64"
                    ))
                })?;
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("open_for", &text)?;
                map.end()
            }
        }
    }
}
