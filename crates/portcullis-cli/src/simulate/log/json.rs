//! JSON lines, read by a visitor: `--fields` names the fields, so that no struct has them. `RawValue` would save 20 lines, but a simulation
//! of 2 million lines took 2 to 9 % longer, and lines with bytes beyond UTF-8 in fields that are not read would be skipped.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::fields::{Fields, Meaning};
use super::time;
use super::{BadLine, Line};

/// Reads a JSON object.
pub(super) fn read(text: &[u8], fields: &Fields, line: &mut Line) -> Result<(), BadLine> {
    let mut found = Found::default();
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let object = Value { name: "", meaning: None, fields, found: &mut found, line };
    let parsed = deserializer.deserialize_map(object).and_then(|()| deserializer.end());
    match (found.error, parsed) {
        (Some(error), _) => Err(error),
        (None, Err(_)) => Err(BadLine::Shape),
        (None, Ok(())) if !found.time => Err(BadLine::Missing("time")),
        (None, Ok(())) if !found.client => Err(BadLine::Missing("client")),
        (None, Ok(())) if !found.path => Err(BadLine::Missing("path")),
        (None, Ok(())) => Ok(()),
    }
}

/// What a line has. The first field of each kind wins.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a part of a request")]
struct Found {
    time: bool,
    client: bool,
    method: bool,
    path: bool,
    status: bool,
    error: Option<BadLine>,
}

impl Found {
    fn set(&mut self, meaning: &Meaning, text: &[u8], line: &mut Line) -> Result<(), BadLine> {
        let is_new = |flag: &mut bool| !std::mem::replace(flag, true);
        match meaning {
            Meaning::Time if is_new(&mut self.time) => line.micros = time::any(text).ok_or(BadLine::Time)?,
            Meaning::Client if is_new(&mut self.client) => line.peer = super::address(text)?,
            Meaning::Method if is_new(&mut self.method) => line.set_method(text),
            Meaning::Path if is_new(&mut self.path) => line.set_target(text),
            Meaning::Request if is_new(&mut self.path) => {
                self.method = true;
                super::set_request(line, text)?;
            }
            Meaning::Status if is_new(&mut self.status) => line.status = super::status(text)?,
            Meaning::Header(name) => line.add_header(name.clone(), text),
            Meaning::Time
            | Meaning::Client
            | Meaning::Method
            | Meaning::Path
            | Meaning::Request
            | Meaning::Status => {}
        }
        Ok(())
    }
}

/// The name of a field, borrowed from the line where it has no escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

/// The value of a field that is known, or that has fields that are. The line itself has no name.
struct Value<'a> {
    name: &'a str,
    meaning: Option<&'a Meaning>,
    fields: &'a Fields,
    found: &'a mut Found,
    line: &'a mut Line,
}

impl Value<'_> {
    fn set<E: serde::de::Error>(self, text: &[u8]) -> Result<(), E> {
        let Some(meaning) = self.meaning else { return Ok(()) };
        self.found.set(meaning, text, self.line).map_err(|error| {
            self.found.error = Some(error);
            E::custom("see the error that was found")
        })
    }
}

impl<'de> DeserializeSeed<'de> for Value<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a number")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        self.set(text.as_bytes())
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<(), E> {
        self.set(number.to_string().as_bytes())
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<(), E> {
        self.set(number.to_string().as_bytes())
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<(), E> {
        self.set(format!("{number:.6}").as_bytes())
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        self.set(value.to_string().as_bytes())
    }

    /// A field that is `null` is not there.
    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    /// The first value of a list counts; proxies write the values of a header as one.
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        if list.next_element_seed(self)?.is_some() {
            while list.next_element::<IgnoredAny>()?.is_some() {}
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Name(name)) = map.next_key()? {
            let name = match self.name {
                "" => name,
                outer => Cow::Owned(format!("{outer}.{name}")),
            };
            let meaning = self.fields.meaning(&name);
            if meaning.is_none() && !self.fields.is_parent(&name) {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let (found, line) = (&mut *self.found, &mut *self.line);
            map.next_value_seed(Value { name: &name, meaning, fields: self.fields, found, line })?;
        }
        Ok(())
    }
}
