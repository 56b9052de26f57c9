//! YAML whose values have anchors, tags and tabs around them.

use super::formats::plain;
use super::{all, findings, only, slice, text};
use crate::source::Format;

#[test]
fn parsed_values_count_in_yaml() {
    for (value, expected) in [
        ("&big 42", "Integer(42)"),
        ("&v true", "Bool(true)"),
        ("&x \"a # b\" # c", "String(\"a # b\")"),
        ("&x 18446744073709551615", "Integer(18446744073709551615)"),
        ("&x", "Null"),
        ("!!int 5", "Integer(5)"),
        ("!!int \"5\"", "Integer(5)"),
        ("!!int 18446744073709551615", "Integer(18446744073709551615)"),
        ("!<tag:yaml.org,2002:int> 5", "Integer(5)"),
        ("&n !!int 5", "Integer(5)"),
        ("!!int &n 5", "Integer(5)"),
        ("!!str 1.5", "String(\"1.5\")"),
        ("!!str", "String(\"\")"),
        ("!!str true", "String(\"true\")"),
        ("!!float 1.5", "Float(1.5)"),
        ("!!bool True", "Bool(true)"),
        ("!!null", "Null"),
        ("!!null ~", "Null"),
        ("! 5", "String(\"5\")"),
        ("! {b: 1}", "{b=Integer(1)}"),
        ("!!map {b: 1}", "{b=Integer(1)}"),
        ("\"5\"", "String(\"5\")"),
        ("'true'", "String(\"true\")"),
        ("|-\n  5", "String(\"5\")"),
        ("&x >\n  5\n  6\n", "String(\"5 6\\n\")"),
        ("0x-1", "String(\"0x-1\")"),
    ] {
        for space in [" ", "\t"] {
            let loaded = text(Format::Yaml, &format!("a:{space}{value}\n"));
            assert_eq!(plain(only(&loaded)), format!("{{a={expected}}}"), "{space:?} {value}");
        }
    }
}

#[test]
fn aliases_have_values_of_their_anchors() {
    let content = "a: &n 5\nb: *n\nc: &t 'x'\nd: *t\ne: &m\n  f: 1\ng: *m\n&k h: 1\n*k : 2\n";
    let content = content.replace("*k : 2", "i: *k");
    assert_eq!(
        plain(only(&text(Format::Yaml, &content))),
        "{a=Integer(5) b=Integer(5) c=String(\"x\") d=String(\"x\") e={f=Integer(1)} g={f=Integer(1)} \
         h=Integer(1) i=String(\"h\")}"
    );
    assert_eq!(
        findings(Format::Yaml, "a: &x [*x]\n"),
        "limits:1:8: error: the alias \"*x\" is inside of what it stands for (help: write the value out)"
    );
}

#[test]
fn places_of_values_have_no_anchor_and_no_tag() {
    let content =
        "a: &é 42 # c\nb: !!str \"x # y\" # c\nc: *é # c\nd: &m # c\n  e: 1\nf: &l [1, 2]\ng: {h}\n";
    let loaded = text(Format::Yaml, content);
    let slices: Vec<_> = all(only(&loaded))[1..].iter().map(|node| slice(&loaded, node)).collect();
    assert_eq!(slices, ["42", "\"x # y\"", "*é", "e: 1", "1", "[1, 2]", "1", "2", "{h}", ""]);
}

#[test]
fn tags_that_do_not_fit_are_refused() {
    for (value, tag) in [
        ("!!int x", "!!int"),
        ("!!int 1.5", "!!int"),
        ("!!int", "!!int"),
        ("&x !!bool 5", "!!bool"),
        ("!!null 5", "!!null"),
        ("!!binary eA==", "!!binary"),
        ("!own 5", "!own"),
        ("!own {b: 1}", "!own"),
    ] {
        assert_eq!(
            findings(Format::Yaml, &format!("a: {value}\n")),
            format!("limits:1:4: error: {tag:?} is a tag that this value cannot have (help: remove the tag)"),
        );
    }
}

/// Tabs inside of texts are part of them.
#[test]
fn tabs_separate_names_and_values() {
    let content = "a:\tb\nc:\t\t5 # d:\te\n'f:\tg':\t\"h:\ti\"\nj: |\n  k:\tl\nm: {n:\to}\np:\t- 1";
    let valid = &content[..content.len() - "p:\t- 1".len()];
    assert_eq!(
        plain(only(&text(Format::Yaml, valid))),
        "{a=String(\"b\") c=Integer(5) f:\tg=String(\"h:\ti\") j=String(\"k:\tl\\n\") m={n=String(\"o\")}}"
            .replace("h:\ti", "h:\\ti")
            .replace("k:\tl", "k:\\tl")
    );
    assert!(findings(Format::Yaml, content).starts_with("limits:7:4: error: invalid YAML: "));
}
