//! Reads structs from objects alone. Otherwise an array would be read as the fields in their order, which a page knows nothing of.

use serde::de::Visitor;
use serde::{Deserializer, forward_to_deserialize_any};

/// Gives what another deserializer has, if that is an object.
pub(super) struct Object<D>(pub(super) D);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Object<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct seq
        tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// Implements `Deserialize` by the functions that a derive with `remote = "Self"` makes.
macro_rules! read_from_objects {
    ($($name:ident),+) => {
        $(impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::deserialize(Object(deserializer))
            }
        })+
    };
}
pub(super) use read_from_objects;
