//! JSON lines, read by a visitor: `--fields` names the fields, so that no struct has them. `RawValue` would save 20 lines, but a simulation
//! of 2 million lines took 2 to 9 % longer, and lines with bytes beyond UTF-8 in fields that are not read would be skipped.

mod fields;
mod repair;

use std::borrow::Cow;
use std::fmt;

use http::HeaderName;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::bad::BadAt;
use super::meaning::{Found, Meaning};
use super::{BadLine, Line};

pub use fields::{Fields, FieldsError};

/// Reads a JSON object. One in which variables without a value have left nothing or a dash is read as well.
pub(super) fn read(text: &[u8], fields: &Fields, line: &mut Line) -> Result<(), BadAt> {
    match read_object(text, fields, line) {
        Err(BadAt(BadLine::Shape, at)) => {
            let repaired = repair::repaired(text).ok_or(BadAt(BadLine::Shape, at))?;
            line.clear();
            read_object(&repaired, fields, line).map_err(|BadAt(reason, _)| BadAt(reason, at))
        }
        other => other,
    }
}

fn read_object(text: &[u8], fields: &Fields, line: &mut Line) -> Result<(), BadAt> {
    let (mut found, mut error) = (Found::default(), None);
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let object = Value { name: "", meaning: None, fields, found: &mut found, error: &mut error, line };
    let parsed = deserializer.deserialize_map(object).and_then(|()| deserializer.end());
    match parsed {
        // The position behind a value, or of the mistake.
        Err(mistake) => Err(BadAt(error.unwrap_or(BadLine::Shape), mistake.column().saturating_sub(1))),
        Ok(()) => found.finish(line).map_err(|error| BadAt(error, 0)),
    }
}

/// The line that a container has written, if the object is one of Docker's file of a log, or of a collector that has kept its fields.
pub(super) fn docker_line(text: &[u8]) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct DockerLine<'a> {
        #[serde(borrow)]
        log: Cow<'a, str>,
        #[serde(rename = "stream")]
        _stream: IgnoredAny,
    }
    let line: DockerLine<'_> = serde_json::from_slice(text).ok()?;
    Some(line.log)
}

/// The fields of an object that are texts or numbers, at most `most`, with their values. A name that `--fields` cannot have is left out.
pub(super) fn names(text: &[u8], most: usize) -> Vec<(String, String)> {
    let Ok(serde_json::Value::Object(object)) = serde_json::from_slice(text) else { return Vec::new() };
    let mut names = Vec::new();
    add_names("", &object, &mut names, most);
    names
}

fn add_names(
    outer: &str,
    object: &serde_json::Map<String, serde_json::Value>,
    names: &mut Vec<(String, String)>,
    most: usize,
) {
    for (name, value) in object {
        if names.len() >= most {
            return;
        }
        if name.contains(|c: char| c.is_control() || c.is_whitespace() || ",='".contains(c)) {
            continue;
        }
        let name = format!("{outer}{name}");
        match value {
            serde_json::Value::Object(inner) => add_names(&format!("{name}."), inner, names, most),
            serde_json::Value::String(text) => names.push((name, text.clone())),
            serde_json::Value::Number(number) => names.push((name, number.to_string())),
            _ => {}
        }
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
    error: &'a mut Option<BadLine>,
    line: &'a mut Line,
}

impl Value<'_> {
    fn set<E: serde::de::Error>(self, text: &[u8]) -> Result<(), E> {
        let Some(meaning) = self.meaning else { return Ok(()) };
        self.found.set(meaning, text, self.line).map_err(|error| {
            *self.error = Some(error);
            E::custom("see the error that was found")
        })
    }
}

impl Value<'_> {
    /// What a field within the headers of a request is.
    fn header(&self, name: &str) -> Option<Meaning> {
        let name = name.strip_prefix(HEADERS).filter(|_| self.name == HEADERS)?;
        Some(Meaning::Header(HeaderName::from_bytes(name.get(1..)?.as_bytes()).ok()?))
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
            let header = self.header(&name);
            let meaning = self.fields.meaning(&name).or(header.as_ref());
            if meaning.is_none() && name != HEADERS && !self.fields.is_parent(&name) {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let (found, error, line) = (&mut *self.found, &mut *self.error, &mut *self.line);
            map.next_value_seed(Value { name: &name, meaning, fields: self.fields, found, error, line })?;
        }
        Ok(())
    }
}

/// Caddy writes all headers of a request below this name.
const HEADERS: &str = "request.headers";
