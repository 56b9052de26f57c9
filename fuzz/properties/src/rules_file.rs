//! Files of rules, in all formats.

use portcullis_config::{Format, Loader, Rules, Severity};

/// The most bytes of a message: 500 characters of four bytes, and an ellipsis.
const MAX_TEXT: usize = 2003;

/// Checks the properties of any text as a file of rules: it is read without a panic, and either there are rules and no finding is an
/// error, or at least one is. Each finding has a place inside the text.
///
/// The first byte gives the format.
///
/// # Panics
///
/// If a property does not hold.
pub fn rules_file(input: &[u8]) {
    let Some((first, text)) = input.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let format = match first % 3 {
        0 => Format::Toml,
        1 => Format::Yaml,
        _ => Format::Json,
    };
    let loader = Loader::text("limits", format, text)
        .environment(|name| (name != "UNSET").then(|| name.to_lowercase()));
    let rules = Rules::load(&loader);
    let findings = match &rules {
        Ok(rules) => rules.warnings(),
        Err(findings) => findings,
    };
    assert_eq!(findings.has_errors(), rules.is_err(), "{findings}");
    for finding in findings.iter() {
        assert!(rules.is_err() || finding.severity < Severity::Error);
        for text in [&finding.message, &finding.field].into_iter().chain(&finding.help) {
            assert!(text.len() <= MAX_TEXT && !text.contains(char::is_control), "{text:?}");
        }
        assert!(!finding.message.is_empty());
        if let Some(span) = finding.span {
            let source = findings.sources().get(span.file).expect("a span is in a file");
            assert!(source.text.get(span.start..span.end).is_some(), "{span:?} is no part of the text");
        }
    }
    if let Ok(rules) = &rules {
        for rule in rules.iter() {
            assert!(rules.get(rule.name().as_str()).is_some());
        }
    }
}
