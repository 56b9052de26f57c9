//! Compares with `serde_json`, which has the whole document, and with other cuts.

use portcullis_usage::{Count, UsageReader};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::{EVENTS, JSON, read, read_bytes, scan};

/// Names that are near each other, some of which are indexes.
const NAMES: [&str; 9] = ["a", "ab", "", "0", "1", "~/", "\u{e9}", "\u{1d11e}", "\"\\\n"];

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&NAMES[..])
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        4 => any::<u64>().prop_map(|number| json!(number)),
        1 => any::<i64>().prop_map(|number| json!(number)),
        1 => any::<f32>().prop_map(|number| json!(number)),
        1 => any::<bool>().prop_map(|is| json!(is)),
        1 => Just(Value::Null),
        2 => ".{0,8}".prop_map(|text| json!(text)),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        let list = prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from);
        let object = prop::collection::vec((name().prop_map(str::to_owned), inner), 0..5);
        prop_oneof![list, object.prop_map(|entries| Value::from(Map::from_iter(entries)))]
    })
}

fn pointer() -> impl Strategy<Value = String> {
    let escaped = name().prop_map(|name| format!("/{}", name.replace('~', "~0").replace('/', "~1")));
    prop::collection::vec(escaped, 1..4).prop_map(|names| names.concat())
}

/// Writes JSON in one of several styles: escaped or not, with or without white space.
fn write(value: &Value, escaped: bool, space: &str) -> String {
    let text = |text: &str| {
        if escaped {
            let units = text.encode_utf16().map(|unit| format!("\\u{unit:04X}"));
            format!("\"{}\"", units.collect::<Vec<_>>().concat())
        } else {
            json!(text).to_string()
        }
    };
    let list = |items: Vec<String>, [open, close]: [&str; 2]| {
        format!("{open}{space}{}{space}{close}", items.join(&format!("{space},{space}")))
    };
    match value {
        Value::String(string) => text(string),
        Value::Array(items) => {
            list(items.iter().map(|item| write(item, escaped, space)).collect(), ["[", "]"])
        }
        Value::Object(entries) => {
            let entry = |(name, value): (&String, &Value)| {
                format!("{}{space}:{space}{}", text(name), write(value, escaped, space))
            };
            list(entries.iter().map(entry).collect(), ["{", "}"])
        }
        other => other.to_string(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn scan_finds_what_serde_json_finds(
        value in value(), pointer in pointer(), escaped: bool, space in prop::sample::select(&["", " ", "\r\n\t"][..]),
    ) {
        let (text, reader) = (write(&value, escaped, space), UsageReader::pointer(&pointer).unwrap());
        // Of two numbers with one name it has the last one too.
        let number = serde_json::from_str::<Value>(&text).unwrap().pointer(&pointer).and_then(Value::as_u64);
        let expected = number.map(Count::Total);
        prop_assert_eq!(read(&reader, JSON, &text), expected, "{} {}", pointer, text);
        prop_assert_eq!(read_bytes(&reader, JSON, text.as_bytes()), expected, "{} {}", pointer, text);
        // Each line of the document is one of data.
        let event = format!("data: {}\n\n", text.replace("\r\n", "\ndata: "));
        prop_assert_eq!(read(&reader, EVENTS, &event), expected, "{} {}", pointer, event);
    }

    #[test]
    fn cuts_do_not_matter(
        bytes in prop::collection::vec(prop::sample::select(&br#"data: {"a":12,[]}\u0061
"#[..]), 0..200),
        cuts: [prop::sample::Index; 4],
        content_type in prop::sample::select(&[JSON, EVENTS][..]),
        pointer in prop::sample::select(&["/a", "/0", "/a/a"][..]),
    ) {
        let reader = UsageReader::pointer(pointer).unwrap();
        let mut cuts = cuts.map(|cut| cut.index(bytes.len() + 1));
        cuts.sort_unstable();
        let (mut pieces, mut whole) = (scan(&reader, content_type), scan(&reader, content_type));
        let mut from = 0;
        for to in cuts.into_iter().chain([bytes.len()]) {
            pieces.push(&bytes[from..to]);
            from = to;
        }
        prop_assert_eq!(pieces.count(), whole.push(&bytes));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>, content_type in prop::sample::select(&[JSON, EVENTS][..])) {
        for reader in [UsageReader::OPENAI, UsageReader::ANTHROPIC, UsageReader::GEMINI] {
            let whole = scan(&reader, content_type).push(&bytes);
            prop_assert_eq!(read_bytes(&reader, content_type, &bytes), whole);
        }
    }
}
