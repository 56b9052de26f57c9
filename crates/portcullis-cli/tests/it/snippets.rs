//! What `portcullis check` prints of typical mistakes: the lines of the file, and what is wrong there.
//!
//! `tests/snippets` has what is printed, for some of the files that the crate of the rules has for its own tests, and for rules that not
//! every door can apply. With `UPDATE_SNIPPETS` in the environment the tests write it instead of comparing it.

use std::fs;
use std::path::Path;
use std::process::Command;

/// One mistake of syntax, of a name, of a value and of a place, and many in one policy.
const FILES: [&str; 7] = [
    "five_in_one_policy.toml",
    "header_without_proxies.toml",
    "misspelt_fields.toml",
    "open_list.toml",
    "path_without_slash.toml",
    "quota_unit.toml",
    "yes.yaml",
];

#[test]
fn mistakes_are_printed_with_their_lines() {
    let printed =
        FILES.map(|name| (name.to_owned(), printed("../portcullis-config/tests/mistakes", &[name], 1)));
    compare(&printed);
}

#[test]
fn refusals_of_doors_are_printed() {
    let doors = [("proxy", 1), ("serve", 1), ("check", 1), ("code", 0)];
    let printed = doors.map(|(door, code)| {
        (format!("program.toml.{door}"), printed("tests/snippets", &["program.toml", "--for", door], code))
    });
    compare(&printed);
}

/// What is printed of files in a folder.
fn printed(folder: &str, arguments: &[&str], code: i32) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_portcullis"))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder))
        .args(["check", "--no-env"])
        .args(arguments)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(!printed.contains('\u{1b}'), "colours are for terminals");
    printed.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

fn compare(snippets: &[(String, String)]) {
    let mut differences = String::new();
    for (name, printed) in snippets {
        let expected =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snippets").join(format!("{name}.txt"));
        if std::env::var_os("UPDATE_SNIPPETS").is_some() {
            fs::write(expected, printed).unwrap();
        } else if fs::read_to_string(expected).unwrap_or_default() != *printed {
            differences += printed;
        }
    }
    assert!(differences.is_empty(), "{differences}");
}
