//! Writes the page of all codes.
//!
//! With `UPDATE_CODES` in the environment the test writes the page instead of comparing it.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// What the page says of a code.
pub(super) struct Described {
    pub(super) code: &'static str,
    pub(super) level: &'static str,
    pub(super) often: &'static str,
    pub(super) line: &'static str,
    pub(super) means: &'static str,
    pub(super) help: &'static str,
}

#[test]
fn page_of_codes_has_what_the_catalogue_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/codes.md");
    let page = page();
    if std::env::var_os("UPDATE_CODES").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, page).unwrap();
    } else if fs::read_to_string(path).unwrap_or_default() != page {
        panic!(
            "docs/reference/codes.md is not what the catalogue says: set UPDATE_CODES to write it\n{page}"
        );
    }
}

#[test]
fn codes_of_a_group_are_in_order() {
    for (index, (_, codes)) in GROUPS.iter().enumerate() {
        for (number, one) in (1..).zip(*codes) {
            assert_eq!(one.code, format!("PC{}{number:02}", index + 1));
        }
    }
}

#[test]
fn texts_are_sentences_of_a_line() {
    for one in GROUPS.iter().flat_map(|(_, codes)| *codes) {
        for text in [one.means, one.help] {
            let is_sentence = text.trim().starts_with(|c: char| c.is_uppercase()) && text.ends_with('.');
            assert!(is_sentence && !text.contains(['\n', '|']) && !text.trim().contains("  "), "{text:?}");
        }
        assert!(["Warn", "Error"].contains(&one.level), "{}", one.code);
    }
}

fn page() -> String {
    let mut page = INTRODUCTION.to_owned();
    for (title, codes) in GROUPS {
        write!(page, "\n## {title}\n").unwrap();
        for one in codes {
            let level = if one.level == "Warn" { "warning" } else { "error" };
            let line = match one.line.trim() {
                "" => "A finding of `portcullis check`".to_owned(),
                line if line.contains('`') => format!("`` {line} ``"),
                line => format!("`{line}`"),
            };
            write!(
                page,
                "\n### {}\n\n{line}: {level}, {}.\n\n{}\n\n**Fix:** {}\n",
                one.code,
                one.often,
                one.means.trim(),
                one.help
            )
            .unwrap();
        }
    }
    page
}

const INTRODUCTION: &str = "\
# Warnings and errors

Find the code of a log line here, and what to do. Each warning and error of the log has its code in the field `code`, as in
`code=PC301`. A code keeps its meaning for ever, and is never used for another line. `..` stands for what varies. \"Once a minute\" is at
once and then at most so often, with the number of events since the last line.

If `portcullis` does not start because of its store, the code is at the end of the message, in parentheses. What is wrong with files at
the start, and what `portcullis check` prints, has no codes: each finding names the place, the value and the fix.
";

const GROUPS: [(&str, &[Described]); 9] = [
    ("Setup", super::setup::ALL),
    ("Identities and proxies", super::identity::ALL),
    ("Stores", super::store::ALL),
    ("Memory", super::memory::ALL),
    ("Rules", super::rules::ALL),
    ("Charges and requests in flight", super::charges::ALL),
    ("Servers", super::servers::ALL),
    ("Load and outgoing requests", super::load::ALL),
    ("Observers and the admin API", super::watchers::ALL),
];
