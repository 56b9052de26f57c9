//! What `docs/serve.md` shows.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::process::{folder, run};

fn page() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/serve.md")).unwrap()
}

#[test]
fn page_has_all_flags_of_limits_with_their_defaults() {
    let (_, help, _) = run(&["serve", "--help"]);
    let page = page();
    let limits = help.split_once("Limits:").unwrap().1;
    for flag in limits.split_whitespace().filter(|word| word.starts_with("--m") || word.ends_with("-timeout"))
    {
        assert!(page.contains(&format!("| `{flag}` |")) || page.contains(&format!("`{flag}`")), "{flag}");
    }
}

#[test]
fn unit_of_systemd_is_valid() {
    let page = page();
    let unit = page.split_once("```ini\n").unwrap().1.split_once("```").unwrap().0;
    // The program has to exist.
    let unit = unit.replace("/usr/local/bin/portcullis", env!("CARGO_BIN_EXE_portcullis"));
    let folder = folder();
    let file = folder.write("portcullis.service", &unit);
    let verified = Command::new("systemd-analyze").args(["verify", "--man=no", &file]).output();
    let Ok(verified) = verified else {
        println!("systemd-analyze is not installed");
        return;
    };
    let error = String::from_utf8_lossy(&verified.stderr);
    let of_unit: Vec<_> = error.lines().filter(|line| line.contains("portcullis.service")).collect();
    assert!(verified.status.success() && of_unit.is_empty(), "{error}");
}
