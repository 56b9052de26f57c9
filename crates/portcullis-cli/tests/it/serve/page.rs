//! What `docs/serve.md` shows.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::post;
use super::process::{Service, folder, run};

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
fn reservation_of_page_is_committed() {
    let page = page();
    let section = page.split_once("## Reserve and commit").unwrap().1;
    let block = |kind: &str| section.split_once(kind).unwrap().1.split_once("```").unwrap().0;
    let service = Service::start("llm.yaml", block("```yaml\n"), &[]);
    let script = block("```sh\n").replace("localhost:8080", service.addr("http"));
    let output = Command::new("sh").args(["-euc", &script]).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(printed, r#"{"reservationReleased":true}"#, "{}", String::from_utf8_lossy(&output.stderr));
    let check = r#"{"domain": "llm", "descriptors": [{"entries": [{"key": "user", "value": "ada"}], "hitsAddend": 0}]}"#;
    let answer = service.ask(&format!("{}{check}", post(check.len())));
    assert!(answer.contains("\"limitRemaining\":650"), "{answer}");
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
