//! Bounds, and files that are not valid.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::{mistakes, path, text};
use crate::envoy::{Descriptors, MAX_DEPTH, MAX_DESCRIPTORS, MAX_FILE_BYTES, MAX_FILES, MAX_WILDCARDS};

/// The files that the tests read.
fn files() -> Vec<String> {
    ["basic", "wildcards", "shadow", "metadata", "shared"]
        .iter()
        .map(|name| std::fs::read_to_string(path(&format!("{name}.yaml"))).expect("it can be read"))
        .collect()
}

/// Loads a text, prints what is wrong, and looks a few descriptors up.
fn use_all(text: &str) {
    match Descriptors::parse(&[("test.yaml", text)]) {
        Ok(descriptors) => {
            drop(descriptors.warnings().to_string());
            for descriptor in [&[("branch", "north"), ("reader", "*")][..], &[("path", "/books/1")]] {
                drop(descriptors.limit("library", descriptor).map(|found| found.full_key()));
            }
        }
        Err(found) => assert!(found.has_errors() && !found.to_string().is_empty()),
    }
}

#[test]
fn every_start_of_a_file_is_read_without_panic() {
    for file in files() {
        for (end, _) in file.char_indices() {
            use_all(&file[..end]);
        }
    }
}

#[test]
fn files_have_a_highest_size() {
    let mut file = "{domain: d, descriptors: [{key: k, rate_limit: {unlimited: true}}]} #".to_owned();
    file.push_str(&"x".repeat(MAX_FILE_BYTES - file.len()));
    text(&file);
    file.push('x');
    assert!(mistakes(&file).contains("test.yaml:1:1: error: the file has more than 1048576 bytes"));
}

#[test]
fn loads_have_a_highest_number_of_files() {
    let names: Vec<_> =
        (0..=MAX_FILES).map(|index| (format!("{index}"), format!("domain: d{index}"))).collect();
    let files: Vec<_> = names.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    assert!(Descriptors::parse(&files[..MAX_FILES]).is_ok());
    let found = Descriptors::parse(&files).unwrap_err().to_string();
    assert!(found.contains("there are more than 1000 files"));
}

#[test]
fn descriptors_have_a_highest_depth() {
    let nested = |depth: usize| {
        let mut file = "domain: d\n".to_owned();
        for level in 0..depth {
            let indent = " ".repeat(4 * level);
            write!(file, "{indent}descriptors:\n{indent}  - key: k\n").expect("a String can be written to");
        }
        file + &" ".repeat(4 * depth) + "rate_limit: {unlimited: true}\n"
    };
    let deepest = text(&nested(MAX_DEPTH));
    assert!(deepest.limit("d", &[("k", "v"); MAX_DEPTH]).is_some());
    assert!(mistakes(&nested(MAX_DEPTH + 1)).contains("descriptors are nested more than 16 levels deep"));
}

#[test]
fn loads_have_a_highest_number_of_descriptors() {
    let file = |domain: usize| {
        let descriptors: String =
            (0..MAX_DESCRIPTORS / 10).fold(String::new(), |list, key| list + &format!("{{key: k{key}}},"));
        format!("{{domain: d{domain}, descriptors: [{descriptors}]}}")
    };
    let mut all: Vec<_> = (0..10).map(file).collect();
    all.push("{domain: last, descriptors: [{key: k}, {key: j}]}".into());
    let files: Vec<_> = all.iter().map(|text| ("test.yaml", text.as_str())).collect();
    let full = Descriptors::parse(&files[..10]).expect("this many are permitted");
    assert!(full.warnings().to_string().contains("warning: 99500 further findings are not listed"));
    let found = Descriptors::parse(&files).unwrap_err();
    let errors: Vec<_> = found.iter().filter(|one| one.severity == crate::Severity::Error).collect();
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].message, "there are more than 100000 descriptors");
}

#[test]
fn levels_have_a_highest_number_of_wildcards() {
    let file = |wildcards: usize| {
        let list = (0..wildcards).fold(String::new(), |list, value| {
            list + &format!("{{key: k, value: '{value}x*', rate_limit: {{unlimited: true}}}},")
        });
        format!("{{domain: d, descriptors: [{list}]}}")
    };
    text(&file(MAX_WILDCARDS));
    assert!(mistakes(&file(MAX_WILDCARDS + 1)).contains("a level has more than 1000 wildcards"));
}

#[test]
fn deep_documents_are_refused_or_read_without_overflow() {
    for text in [
        "[".repeat(100_000),
        "{a: ".repeat(100_000),
        "- ".repeat(100_000),
        "? ".repeat(60_000),
        "- ".repeat(60) + "{a: [".repeat(120).as_str(),
        (0..3_000).fold(String::new(), |text, level| text + &" ".repeat(level % 300) + "a:\n"),
        (0..600).fold(String::new(), |text, level| text + &" ".repeat(level) + "a:\n"),
        // Each alias puts the depth of its anchor at another depth.
        (0..200).fold("domain: d\na: &a0 [x]\n".into(), |text, level| {
            text + &format!("b{level}: &a{} {}*a{level}{}\n", level + 1, "[".repeat(60), "]".repeat(60))
        }),
        // And each of these multiplies the number of values.
        (0..30).fold("domain: d\na: &a0 [x]\n".into(), |text, level| {
            text + &format!("b{level}: &a{} [*a{level}, *a{level}, *a{level}]\n", level + 1)
        }),
    ] {
        assert!(!mistakes(&text).is_empty());
    }
    let deepest = format!(
        "domain: d\ndescriptors: [{{key: k, metadata: {{a: {}5{}}}}}]\n",
        "[".repeat(200),
        "]".repeat(200)
    );
    assert_eq!(text(&deepest).warnings().iter().len(), 1);
    let indented = (0..125).fold(String::new(), |text, level| text + &" ".repeat(level) + "a:\n");
    let both =
        format!("domain: d\n{indented}{}{}5{}\n", " ".repeat(126), "{a: ".repeat(250), "}".repeat(250));
    assert!(mistakes(&both).contains("unknown field `a`"));
    // As deep as aliases may make it, by the estimate.
    let chained = (0..4).fold("domain: d\na: &a0 x\n".to_owned(), |text, level| {
        let indented = (0..122).fold(String::new(), |text, level| text + &" ".repeat(level) + " a:\n");
        text + &format!("b{level}: &a{}\n{indented}{}*a{level}\n", level + 1, " ".repeat(124))
    });
    assert!(mistakes(&chained).contains("unknown field `a`"));
    assert!(
        mistakes(&format!("domain: d\n{}a: b\n", " ".repeat(129)))
            .contains("a line is indented by 129 characters")
    );
}

#[test]
fn maps_of_many_fields_are_read() {
    let fields = (0..80_000).fold(String::new(), |fields, index| fields + &format!("f{index}: ,"));
    for merge in ["", "<<: {f0: 1}, "] {
        let file = format!(
            "{{domain: d, descriptors: [{{key: k, metadata: {{{merge}{fields}}}, rate_limit: {{unit: day}}}}]}}"
        );
        assert_eq!(text(&file).limits()[0].metadata().len(), 80_000);
    }
}

proptest! {
    #[test]
    fn mutated_files_are_read_without_panic(
        file in 0..5_usize,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), 0..4_usize, "[\\PC\n\t]|[-:?&*{}\\[\\],#|>'\"%@! ~0-9\n]{1,4}|<<: |&a |\\*a "), 1..8),
    ) {
        let mut text: Vec<char> = files()[file].chars().collect();
        for (at, removed, added) in changes {
            let at = at.index(text.len() + 1);
            let end = (at + removed).min(text.len());
            text.splice(at..end, added.chars());
        }
        use_all(&text.into_iter().collect::<String>());
    }

    #[test]
    fn any_text_is_read_without_panic(text in "[-:?&*{}\\[\\],#|>'\"%@! ~0-9a-c\n\t]{0,60}") {
        use_all(&text);
    }
}
