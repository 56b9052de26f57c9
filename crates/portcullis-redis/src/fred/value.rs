//! Converts the client's values.

use ::fred::types::Value as RawValue;
use bytes::Bytes;

use crate::protocol::value::Value;

/// Converts a reply. Texts move, so that the reply of a store's script costs no allocation.
pub(super) fn from_raw(raw: RawValue) -> Value {
    match raw {
        RawValue::Null => Value::Null,
        RawValue::Integer(number) => Value::Integer(number),
        RawValue::String(text) => Value::Text(text.into_inner()),
        RawValue::Bytes(bytes) => Value::Text(bytes),
        RawValue::Boolean(truth) => Value::Text(Bytes::from(if truth { "true" } else { "false" })),
        RawValue::Double(number) => Value::Text(Bytes::from(number.to_string())),
        RawValue::Queued => Value::Text(Bytes::from("QUEUED")),
        RawValue::Map(map) => {
            let pairs = map.inner().into_iter();
            Value::List(
                pairs.flat_map(|(name, value)| [Value::Text(name.into_bytes()), from_raw(value)]).collect(),
            )
        }
        RawValue::Array(items) => Value::List(items.into_iter().map(from_raw).collect()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use ::fred::util::redis_keyslot;

    use super::*;
    use crate::cluster::map::Map;
    use crate::protocol::slot::slot_of;

    fn list(items: Vec<RawValue>) -> RawValue {
        RawValue::Array(items)
    }

    #[test]
    fn replies_keep_their_contents() {
        let items =
            vec![RawValue::Null, 1.into(), "one".into(), list(vec![1.into(), 2.into()]), list(vec![])];
        let expected = [
            Value::Null,
            Value::Integer(1),
            Value::Text("one".into()),
            Value::List(vec![Value::Integer(1), Value::Integer(2)]),
            Value::List(vec![]),
        ];
        assert_eq!(from_raw(list(items)), Value::List(expected.into()));
        let bytes = RawValue::Bytes(Bytes::from_static(b"\xff"));
        assert_eq!(from_raw(bytes), Value::Text(Bytes::from_static(b"\xff")));
        assert_eq!(from_raw(RawValue::Boolean(true)), Value::Text("true".into()));
        assert_eq!(from_raw(RawValue::Double(1.5)), Value::Text("1.5".into()));
    }

    #[test]
    fn a_text_is_converted_without_an_allocation() {
        let numbers: Bytes = (0..25).map(f64::from).flat_map(f64::to_le_bytes).collect();
        // The client takes bytes that happen to be UTF-8 for a string.
        let valid = Bytes::from("0123456789abcdef".repeat(25));
        let string = RawValue::String(valid.clone().try_into().unwrap());
        for (reply, text) in [(RawValue::Bytes(numbers.clone()), numbers), (string, valid)] {
            let mut converted = Value::Null;
            let counted = allocation_counter::measure(|| converted = from_raw(reply));
            assert_eq!(counted.count_total, 0);
            assert_eq!(converted, Value::Text(text));
        }
    }

    #[test]
    fn node_metadata_may_be_a_map() {
        let node = |host: &str, port: i64| -> Vec<RawValue> { vec![host.into(), port.into(), "id".into()] };
        let range = |first: i64, last: i64, node| list(vec![first.into(), last.into(), list(node)]);
        let more = |name: &str, value: &str| {
            let pairs = [(name, value)].into_iter().collect::<HashMap<_, _>>();
            RawValue::Map(pairs.try_into().unwrap())
        };
        let mut named = node("10.0.0.3", 3);
        named.push(more("hostname", "three.example.org"));
        let mut nameless = node("?", 4);
        nameless.push(more("ip", "10.0.0.4"));
        let reply = list(vec![range(0, 0, named), range(1, 1, nameless)]);
        let addrs = Map::parse(from_raw(reply), "asked").unwrap().addrs;
        let addrs: Vec<_> = addrs.iter().map(|addr| (addr.to_string(), addr.name.clone())).collect();
        let named = ("10.0.0.3:3".to_owned(), Some("three.example.org".to_owned()));
        assert_eq!(addrs, [named, ("10.0.0.4:4".to_owned(), None)]);
    }

    #[test]
    fn slots_equal_those_of_the_client() {
        for name in ["", "a", "{a", "a{b}c", "{}a{b}", "a{}", "{a}{b}", "shop:v2:0:{f0909259}:login:gcra"] {
            assert_eq!(slot_of(name.as_bytes()), redis_keyslot(name.as_bytes()), "{name}");
        }
    }
}
