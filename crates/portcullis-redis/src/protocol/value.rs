//! A server's reply.

use bytes::Bytes;

/// A reply to a command, or a part of one. Errors are not values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Null,
    Integer(i64),
    /// A text, or other bytes, which is what a store's scripts return.
    Text(Bytes),
    /// A list. The maps of RESP3 are lists of names and values, as in RESP2.
    List(Vec<Value>),
}

impl Value {
    /// The bytes of a text.
    pub(crate) fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Text(text) => Some(text),
            Self::Null | Self::Integer(_) | Self::List(_) => None,
        }
    }

    /// The number, if the value is one, or is a text with one.
    pub(crate) fn as_integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            text => text.as_str()?.parse().ok(),
        }
    }

    /// The text, if the value is one in UTF-8.
    pub(crate) fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(self.as_bytes()?).ok()
    }

    /// The values of a list.
    pub(crate) fn into_items(self) -> Option<Vec<Self>> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl From<i64> for Value {
        fn from(number: i64) -> Self {
            Self::Integer(number)
        }
    }

    impl From<&'static str> for Value {
        fn from(text: &'static str) -> Self {
            Self::Text(text.into())
        }
    }
}
