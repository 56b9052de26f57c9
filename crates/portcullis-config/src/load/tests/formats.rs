use super::{FORMATS, all, findings, only, slice, text};
use crate::source::Format;
use crate::tree::{Node, Value};

/// Equal values in each format.
const SAME: [&str; 3] = [
    "null = 0\n[a]\nlist = [1, -2.5, true, \"tëxt\"]\nbig = 18446744073709551615\n[a.inner]\nx = \"\"\n",
    "'null': 0\na:\n  list: [1, -2.5, true, tëxt]\n  big: 18446744073709551615\n  inner:\n    x: ''\n",
    "{\"null\": 0, \"a\": {\"list\": [1, -2.5, true, \"t\\u00ebxt\"],\n \"big\": 18446744073709551615, \"inner\": {\"x\": \"\"}}}",
];

/// The values without places.
pub(super) fn plain(node: &Node) -> String {
    match &node.value {
        Value::List(list) => format!("[{}]", list.iter().map(plain).collect::<Vec<_>>().join(" ")),
        Value::Map(entries) => {
            let each = entries.iter().map(|entry| format!("{}={}", entry.name, plain(&entry.node)));
            format!("{{{}}}", each.collect::<Vec<_>>().join(" "))
        }
        other => format!("{other:?}"),
    }
}

#[test]
fn formats_give_the_same_tree() {
    let expected = "{null=Integer(0) a={list=[Integer(1) Float(-2.5) Bool(true) String(\"tëxt\")] \
                    big=Integer(18446744073709551615) inner={x=String(\"\")}}}";
    for (format, content) in FORMATS.into_iter().zip(SAME) {
        assert_eq!(plain(only(&text(format, content))), expected, "{format:?}");
    }
}

/// Names and values behind characters of two to four bytes, with both ends of lines.
#[test]
fn places_count_bytes_in_all_formats() {
    let toml = "# ü€😀\n\"ñ\" = [\"😀\", 12]\n[t]\nz = 'é'  # ü\ny = { a = 1.5 }\n";
    let yaml =
        "# ü€😀\n\"ñ\": [\"😀\", 12]\nt:\n  z: 'é'  # ü\n  y: { a: 1.5 }\n  w:\n    - true\n    - é  \n";
    let json = "{\n \"ñ\": [\"😀\", 12],\n \"t\": {\"z\": \"é\", \"y\": { \"a\": 1.5 }}\n}\n";
    let toml_expected = ["[\"😀\", 12]", "\"😀\"", "12", "[t]", "'é'", "{ a = 1.5 }", "1.5"];
    let yaml_expected = [
        "[\"😀\", 12]",
        "\"😀\"",
        "12",
        "z: 'é'  # ü|  y: { a: 1.5 }|  w:|    - true|    - é",
        "'é'",
        "{ a: 1.5 }",
        "1.5",
        "- true|    - é",
        "true",
        "é",
    ];
    let json_expected = [
        "[\"😀\", 12]",
        "\"😀\"",
        "12",
        "{\"z\": \"é\", \"y\": { \"a\": 1.5 }}",
        "\"é\"",
        "{ \"a\": 1.5 }",
        "1.5",
    ];
    for (end, mark) in [("\n", ""), ("\r\n", ""), ("\n", "\u{feff}"), ("\r\n", "\u{feff}")] {
        for (format, content, expected) in [
            (Format::Toml, toml, &toml_expected[..]),
            (Format::Yaml, yaml, &yaml_expected),
            (Format::Json, json, &json_expected),
        ] {
            let loaded = text(format, &(mark.to_owned() + &content.replace('\n', end)));
            let slices: Vec<_> =
                all(only(&loaded))[1..].iter().map(|node| slice(&loaded, node).replace(end, "|")).collect();
            assert_eq!(slices, expected, "{format:?} {end:?} {mark:?}");
        }
    }
}

#[test]
fn names_have_places_in_all_formats() {
    for (format, content) in [
        (Format::Toml, "ä.b = 1\n[c.\"ö\"]\nü-x = 2\n".replace("ä", "\"ä\"").replace("ü-x", "\"ü\"")),
        (Format::Yaml, "'ä': {\"b\": 1}\nc:\n  ö:\n    ü: 2\n".to_owned()),
        (Format::Json, "{\"ä\": {\"b\": 1}, \"c\" : {\"ö\": {\"ü\":2}}}".to_owned()),
    ] {
        let loaded = text(format, &content);
        let mut pairs = Vec::new();
        for node in all(only(&loaded)) {
            let Value::Map(entries) = &node.value else { continue };
            for entry in entries {
                let written = &content[entry.name_span.start..entry.name_span.end];
                pairs.push((entry.name.clone(), written.trim_matches(['"', '\'']).to_owned()));
            }
        }
        assert_eq!(pairs.len(), 5, "{format:?}");
        assert!(pairs.iter().all(|(name, written)| name == written), "{format:?} {pairs:?}");
    }
}

#[test]
fn mistakes_of_toml_are_reported_together() {
    assert_eq!(
        findings(Format::Toml, "a = \nb = 1\nc = [1, 2\nd = 3\n[e\nf = 'x\n"),
        "limits:1:5: error: invalid TOML: a value is missing\n\
         limits:4:1: error: invalid TOML: a list is not closed, or a comma is missing (help: close the list with ])"
    );
}

#[test]
fn all_names_given_twice_are_reported() {
    let twice = |places: [&str; 3], first: [&str; 3]| {
        let line = |(place, first): (&str, &str)| {
            let name = if place.starts_with('6') { "ü" } else { "a" };
            format!("limits:{place}: error: {name:?} is given twice{first} (help: remove one of the two)")
        };
        places.into_iter().zip(first).map(line).collect::<Vec<_>>().join("\n")
    };
    let first = |place: &str| format!(", first at line {place}");
    assert_eq!(
        findings(Format::Yaml, "a: 1\na: 2\n'a': 3\nt:\n  \"ü\": 1\n  ü: [2]\nb: 4\n"),
        // The parser finds the first one, and takes names in quotes for others.
        twice(["2:1", "3:1", "6:3"], ["", &first("1, column 1"), &first("5, column 3")])
    );
    let loaded = text(Format::Yaml, "a: 1\na: 2\nb: 3\na: { b: 4 }\n");
    assert_eq!(plain(&loaded.documents[0]), "{a=Integer(1) b=Integer(3)}");
    assert_eq!(
        findings(Format::Toml, "a = 1\na = 2\n'a' = 3\n[t]\n\"ü\" = 1\n\"ü\" = [2]\nb = 4\n").lines().count(),
        3
    );
    assert_eq!(
        findings(
            Format::Json,
            "{\"a\": 1,\n\"a\": 2,\n\"a\": 3,\n\"t\": {\n\"ü\": 1,\n\"ü\": [2]},\n\"b\": 4}"
        ),
        twice(["2:1", "3:1", "6:1"], [&first("1, column 2"), &first("1, column 2"), &first("5, column 1")])
    );
    // The parser finds a mistake of syntax first, wherever it is. A bounded number of names is reported.
    assert_eq!(findings(Format::Yaml, "a: 1\na: 2\nb: [").lines().count(), 1);
    assert_eq!(findings(Format::Yaml, &"a: 1\n".repeat(100)).lines().count(), 11);
}

#[test]
fn name_given_twice_leaves_toml_readable() {
    let loaded = text(Format::Toml, "a = 1\na = 2\nb = 3\n");
    assert_eq!(
        super::shown(&loaded),
        "limits:2:1: error: \"a\" is given twice (help: remove one of the two)"
    );
    assert_eq!(plain(&loaded.documents[0]), "{a=Integer(1) b=Integer(3)}");
}

#[test]
fn mistakes_of_json_name_their_place() {
    assert_eq!(
        findings(Format::Json, "{\"a\": 1,\n \"b\": }"),
        "limits:2:7: error: invalid JSON: expected value"
    );
    assert_eq!(
        findings(Format::Json, "{\"ä\": 1, \"b\": 2, \"ä\": 3}"),
        "limits:1:18: error: \"ä\" is given twice, first at line 1, column 2 (help: remove one of the two)"
    );
    for text in
        ["{\"a\": 1,}", "{'a': 1}", "{\"a\": 1} {}", "{a: 1}", "// x\n{}", "[1", "\"\\x\"", "\"\\ud800\""]
    {
        assert!(findings(Format::Json, text).contains("invalid JSON"), "{text}");
    }
}

const MISTAKES_OF_YAML: &str = r#"limits:3:2: error: invalid YAML: illegal placement of ':' indicator
limits:3:1: error: "ä" is given twice (help: remove one of the two)
limits:3:1: error: a file of rules is one document, and here a second one begins (help: remove the line ---, or make two files and include them)
limits:1:4: error: "!!int" is a tag that this value cannot have (help: remove the tag)
limits:2:4: error: "!secret" is a tag that this value cannot have (help: remove the tag)
limits:3:4: error: "!x" is a tag that this value cannot have (help: remove the tag)
limits:3:3: error: `<<` does not merge tables here (help: repeat the fields, or write `field: *alias` for each)
limits:4:3: error: the name of a field is a text
limits:1:4: error: invalid YAML: while parsing node, found unknown anchor
limits:2:3: error: invalid YAML: mapping values are not allowed in this context
limits:1:5: error: invalid YAML: while scanning a plain scalar, found a tab
limits:1:4: error: invalid YAML: while scanning a quoted scalar, found unexpected end of stream
limits:1:4: error: invalid YAML: while parsing a quoted scalar, found unknown escape character
"#;

#[test]
fn mistakes_of_yaml_name_their_place() {
    let mut all = String::new();
    for text in [
        "a: 1\nb: [1, 2\nc: 3\n",
        "ä: 1\nb: 2\nä: 3\n",
        "a: 1\n---\nb: 2\n",
        "a: !!int x\nb: !secret y\nc: !x {}\n",
        "a: &x {b: 1}\nc:\n  <<: *x\n? [1]\n: 2\n",
        "a: *none",
        "a: 1\n b: 2",
        "a: \tb\n\tc: 1",
        "a: 'x",
        "ü: \"\\q\"",
    ] {
        all += &findings(Format::Yaml, text);
        all.push('\n');
    }
    assert_eq!(all, MISTAKES_OF_YAML);
}

#[test]
fn yaml_aliases_repeat_values() {
    let loaded = text(Format::Yaml, "a: &x {b: 1}\nc: *x\n404: yes\n~: 1\n");
    assert_eq!(plain(&loaded.documents[0]), "{a={b=Integer(1)} c={b=Integer(1)} 404=String(\"yes\")}");
}

#[test]
fn empty_documents_are_empty_tables() {
    for format in FORMATS {
        for content in ["", "\u{feff}", " \n"] {
            assert_eq!(plain(only(&text(format, content))), "{}", "{format:?} {content:?}");
        }
    }
    assert_eq!(plain(only(&text(Format::Yaml, "# nothing\n"))), "{}");
    assert_eq!(plain(only(&text(Format::Yaml, "---\n"))), "{}");
    assert_eq!(plain(only(&text(Format::Json, "null"))), "{}");
}

#[test]
fn document_is_a_table() {
    for format in [Format::Yaml, Format::Json] {
        assert_eq!(
            findings(format, "[1]"),
            "limits:1:1: error: a file of rules is a table, and this is a list"
        );
    }
}

#[test]
fn dates_of_toml_are_no_values() {
    assert_eq!(
        findings(Format::Toml, "a = 2026-01-01\n"),
        "limits:1:5: error: 2026-01-01 is a date, which no rule has (help: put a text in quotes)"
    );
}
