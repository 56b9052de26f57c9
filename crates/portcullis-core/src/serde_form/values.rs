//! Reads single values: a text, one of several names, a whole number.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, Expected, Unexpected, Visitor};

use crate::Quota;

/// A text with its meaning.
pub(super) struct Text<T> {
    /// What stands here, for the error about a value that is not a text.
    pub(super) expecting: &'static str,
    pub(super) parse: fn(&str) -> Result<T, String>,
}

impl<'de, T> DeserializeSeed<'de> for Text<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<T> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).map_err(E::custom)
    }
}

/// A whole number in the range of `T`.
pub(super) struct Number<T> {
    expecting: &'static str,
    number: PhantomData<T>,
}

impl<T> Number<T> {
    /// `expecting` names the field and its range.
    pub(super) const fn new(expecting: &'static str) -> Self {
        Self { expecting, number: PhantomData }
    }
}

impl<'de, T: TryFrom<u64>> DeserializeSeed<'de> for Number<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        // Any value, because some formats would echo a whole text where they expect a number.
        deserializer.deserialize_any(self)
    }
}

impl<T: TryFrom<u64>> Visitor<'_> for Number<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<T, E> {
        T::try_from(number).map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        match u64::try_from(number) {
            Ok(number) => self.visit_u64(number),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(number), &self)),
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        Err(unexpected_text(text, &self))
    }
}

/// A limit: a whole number of units, or none.
pub(super) struct Limit;

impl Limit {
    const NUMBER: Number<u64> = Number::new("`limit`, a whole number of units or \"unlimited\"");
}

impl<'de> DeserializeSeed<'de> for Limit {
    type Value = Option<u64>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for Limit {
    type Value = Option<u64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Self::NUMBER.expecting(f)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Some(number))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        Self::NUMBER.visit_i64(number).map(Some)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        match text.parse() {
            Ok(Quota::UNLIMITED) => Ok(None),
            _ => Self::NUMBER.visit_str(text).map(Some),
        }
    }
}

/// The error for a text in the place of something else, with the start of the text: an error does not carry an arbitrarily
/// long input.
pub(super) fn unexpected_text<E: Error>(text: &str, expected: &dyn Expected) -> E {
    E::custom(format_args!("invalid type: string {:?}, expected {expected}", start_of(text)))
}

/// The start of `text` for an error, with control characters escaped.
pub(super) fn quoted(text: &str) -> String {
    format!("`{}`", start_of(text).escape_debug())
}

fn start_of(text: &str) -> String {
    text.chars().take(64).collect()
}

/// The value that `text` names. `kind` says in the error what the names stand for.
pub(super) fn one_of<T: Copy>(kind: &str, text: &str, known: &[(&str, T)]) -> Result<T, String> {
    let found = known.iter().find(|(name, _)| *name == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names = list(known.iter().map(|(name, _)| *name));
        format!("unknown {kind} {}, expected one of {names}", quoted(text))
    })
}

/// Names for an error: `` `greedy`, `interval` ``.
pub(super) fn list<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
