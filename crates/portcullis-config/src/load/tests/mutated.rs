use proptest::collection::vec;
use proptest::prelude::*;

use super::{FORMATS, text};
use crate::diagnostic::Diagnostics;
use crate::load::Loaded;
use crate::source::{Format, Span};
use crate::tree::{Node, Value};

/// A valid document of each format, with everything that its parser knows.
const VALID: [&str; 3] = [
    "include = []\n[policy.search] # ü\nquota = \"${X:-10/s burst 20}\"\nkey = [{ header = 'x' }, \"client_ip\"]\n\
     n = [0x1F, 1_000, -2.5e3, true]\ntext = \"\"\"a\n\\u00e9😀\"\"\"\n[[list]]\na.b.c = 1\n",
    "# ü\npolicy:\n  search: &s\n    quota: \"${X:-10/s}\"\n    key:\n    - {header: x}\n    - client_ip\n  other: *s\n\
     n: [0x1F, -2.5e3, true, ~]\ntext: |\n  a\n  😀\nmore: >-\n  b\n? x\n: 'y''z'\n",
    "{\"policy\": {\"search\": {\"quota\": \"${X:-10/s}\", \"key\": [{\"header\": \"ü\"}, \"\\ud83d\\ude00\"]}},\n\
     \"n\": [0, -2.5e3, true, null, \"\\\"\"]}",
];

fn places(node: &Node, inside: &impl Fn(Span)) {
    inside(node.span);
    match &node.value {
        Value::List(list) => list.iter().for_each(|one| places(one, inside)),
        Value::Map(entries) => {
            for entry in entries {
                inside(entry.name_span);
                places(&entry.node, inside);
            }
        }
        _ => {}
    }
}

/// What each load keeps: places are inside the text and at characters, and rules are either usable or have an error.
fn check(loaded: &Loaded) {
    let inside = |span: Span| {
        let text = &loaded.sources.get(span.file).unwrap().text;
        assert!(text.get(span.start..span.end).is_some(), "{span:?}");
    };
    loaded.documents.iter().for_each(|document| places(document, &inside));
    loaded.findings.iter().filter_map(|finding| finding.span).for_each(inside);
    let all = Diagnostics::new(loaded.sources.clone(), loaded.findings.clone());
    assert!(all.has_errors() || loaded.documents.len() == 1);
    for finding in &loaded.findings {
        let texts = [&finding.message, &finding.field].into_iter().chain(&finding.help);
        assert!(texts.clone().all(|text| !text.contains(char::is_control)), "{finding:?}");
        assert!(texts.clone().all(|text| text.chars().count() <= 503), "{finding:?}");
    }
}

#[test]
fn valid_documents_have_no_findings() {
    for (format, content) in FORMATS.into_iter().zip(VALID) {
        super::only(&text(format, &content.replace("include = []\n", "")));
    }
}

#[test]
fn every_truncation_is_read_without_a_panic() {
    for (format, content) in FORMATS.into_iter().zip(VALID) {
        for (end, _) in content.char_indices() {
            check(&text(format, &content[..end]));
            check(&text(format, &content[end..]));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn mutated_documents_are_read_without_a_panic(
        format in 0..3_usize,
        changes in vec((any::<prop::sample::Index>(), 0..4_usize, "[\\[\\]{}\"'#:=,.&*!|>\\-?\n\r\t aé😀0$]{0,6}"), 1..8),
    ) {
        let mut content: Vec<char> = VALID[format].chars().collect();
        for (at, removed, inserted) in changes {
            let at = at.index(content.len() + 1);
            let end = (at + removed).min(content.len());
            content.splice(at..end, inserted.chars());
        }
        check(&text(FORMATS[format], &content.into_iter().collect::<String>()));
    }

    #[test]
    fn any_text_is_read_without_a_panic(format in 0..3_usize, content in "\\PC{0,80}") {
        check(&text(FORMATS[format], &content));
    }
}

#[test]
fn a_format_is_known_by_the_end_of_the_name() {
    for (name, format) in [("a.toml", Some(Format::Toml)), ("a.yml", Some(Format::Yaml)), ("a", None)] {
        assert_eq!(Format::of_path(name.as_ref()), format);
    }
}
