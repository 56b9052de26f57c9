//! Reads values of the tree with serde.

use std::slice;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use super::error::DecodeError;
use super::suggest::described;
use crate::tree::{Entry, Node, Value};

impl Node {
    fn visit<'de, V: Visitor<'de>>(&'de self, visitor: V) -> Result<V::Value, DecodeError> {
        match &self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Integer(number) => visit_integer(*number, visitor),
            Value::Float(number) => visitor.visit_f64(*number),
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::List(list) => {
                let mut elements = Elements { list: list.iter(), index: 0 };
                let value = visitor.visit_seq(&mut elements)?;
                match elements.list.next() {
                    None => Ok(value),
                    Some(more) => {
                        let message =
                            format!("expected {} values in the list, not {}", elements.index, list.len());
                        Err(DecodeError::custom(message).at(more.span))
                    }
                }
            }
            Value::Map(entries) => visitor.visit_map(MapFields::new(entries.iter().collect())),
        }
    }

    /// The number or truth value that a text from the environment means.
    fn meant_by_text(&self) -> Option<Value> {
        let Value::String(text) = &self.value else { return None };
        if !self.from_environment {
            return None;
        }
        let text = text.trim();
        if let Ok(number) = text.parse::<i128>() {
            Some(Value::Integer(number))
        } else if matches!(text, "true" | "false") {
            Some(Value::Bool(text == "true"))
        } else if text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first)) {
            text.parse().ok().map(Value::Float)
        } else {
            None
        }
    }
}

fn visit_integer<'de, V: Visitor<'de>>(number: i128, visitor: V) -> Result<V::Value, DecodeError> {
    if let Ok(number) = u64::try_from(number) {
        visitor.visit_u64(number)
    } else if let Ok(number) = i64::try_from(number) {
        visitor.visit_i64(number)
    } else {
        visitor.visit_i128(number)
    }
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let result = match self.meant_by_text() {
            Some(Value::Integer(number)) => visit_integer(number, visitor),
            Some(Value::Bool(value)) => visitor.visit_bool(value),
            Some(Value::Float(number)) => visitor.visit_f64(number),
            _ => self.visit(visitor),
        };
        result.map_err(|error| error.at(self.span))
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.visit(visitor).map_err(|error| error.at(self.span))
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        let result = match &self.value {
            Value::String(name) => visitor.visit_enum(Variant { name, node: None }),
            Value::Map(entries) if entries.len() == 1 => {
                visitor.visit_enum(Variant { name: &entries[0].name, node: Some(&entries[0].node) })
            }
            Value::Map(entries) => {
                let message = format!("expected a table with one field, not with {}", entries.len());
                Err(DecodeError::custom(message))
            }
            _ => {
                let message = format!("expected a name, or a table with one field, not {}", described(self));
                Err(DecodeError::custom(message))
            }
        };
        result.map_err(|error| error.at(self.span))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct ignored_any
    }
}

/// Some fields of a table, as a table of their own.
pub(crate) type Part<'a> = MapAccessDeserializer<MapFields<'a>>;

struct Elements<'de> {
    list: slice::Iter<'de, Node>,
    index: usize,
}

impl<'de> SeqAccess<'de> for &mut Elements<'de> {
    type Error = DecodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, DecodeError> {
        let Some(node) = self.list.next() else { return Ok(None) };
        let index = self.index;
        self.index += 1;
        seed.deserialize(node).map(Some).map_err(|error| error.at(node.span).inside(&format!("[{index}]")))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.list.len())
    }
}

pub(crate) struct MapFields<'de> {
    entries: std::vec::IntoIter<&'de Entry>,
    current: Option<&'de Entry>,
}

impl<'de> MapFields<'de> {
    pub(super) fn new(entries: Vec<&'de Entry>) -> Self {
        Self { entries: entries.into_iter(), current: None }
    }
}

impl<'de> MapAccess<'de> for MapFields<'de> {
    type Error = DecodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, DecodeError> {
        self.current = self.entries.next();
        let Some(entry) = self.current else { return Ok(None) };
        let name: StrDeserializer<'_, DecodeError> = entry.name.as_str().into_deserializer();
        seed.deserialize(name).map(Some).map_err(|error| error.at(entry.name_span).inside(&entry.name))
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, DecodeError> {
        let Some(entry) = self.current.take() else {
            return Err(DecodeError::custom("a value was read before its name"));
        };
        seed.deserialize(&entry.node).map_err(|error| error.at(entry.node.span).inside(&entry.name))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.entries.len())
    }
}

/// A variant of an enum, with its content.
struct Variant<'de> {
    name: &'de str,
    node: Option<&'de Node>,
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = DecodeError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), DecodeError> {
        let name: StrDeserializer<'_, DecodeError> = self.name.into_deserializer();
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'de> Variant<'de> {
    fn inner<T>(&self, read: impl FnOnce(&'de Node) -> Result<T, DecodeError>) -> Result<T, DecodeError> {
        let missing = || DecodeError::custom(format!("`{}` needs a value", self.name));
        let node = self.node.ok_or_else(missing)?;
        read(node).map_err(|error| error.at(node.span).inside(self.name))
    }
}

impl<'de> VariantAccess<'de> for Variant<'de> {
    type Error = DecodeError;

    fn unit_variant(self) -> Result<(), DecodeError> {
        match self.node {
            None => Ok(()),
            Some(node) => Err(DecodeError::custom(format!("\"{}\" has no value", self.name)).at(node.span)),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, DecodeError> {
        self.inner(|node| seed.deserialize(node))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, DecodeError> {
        self.inner(|node| node.deserialize_any(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        self.inner(|node| node.deserialize_any(visitor))
    }
}
