//! What `portcullis check` prints of typical mistakes: the lines of the file, and what is wrong there.
//!
//! `tests/snippets` has what is printed, for some of the files that the crate of the rules has for its own tests. With
//! `UPDATE_SNIPPETS` in the environment the test writes it instead of comparing it.

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
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut differences = String::new();
    for name in FILES {
        let output = Command::new(env!("CARGO_BIN_EXE_portcullis"))
            .current_dir(here.join("../portcullis-config/tests/mistakes"))
            .args(["check", "--no-env", name])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{name}");
        let printed = String::from_utf8(output.stdout).unwrap();
        let printed: String = printed.lines().map(|line| line.trim_end().to_owned() + "\n").collect();
        assert!(!printed.contains('\u{1b}'), "colours are for terminals");
        let expected = here.join("tests/snippets").join(format!("{name}.txt"));
        if std::env::var_os("UPDATE_SNIPPETS").is_some() {
            fs::write(expected, printed).unwrap();
        } else if fs::read_to_string(expected).unwrap_or_default() != printed {
            differences += &printed;
        }
    }
    assert!(differences.is_empty(), "{differences}");
}
