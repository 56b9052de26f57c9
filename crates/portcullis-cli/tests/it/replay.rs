//! `portcullis replay` as a process.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use portcullis_servers::RedisServer;

fn portcullis(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_portcullis")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Writes a scenario file. Each test has its own.
fn file(name: &str, text: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn corpora() -> Vec<String> {
    ["gcra", "fixed_window", "several", "in_flight", "overrides/grants_and_blocks"]
        .map(|name| format!("{}/../../tests/data/{name}.toml", env!("CARGO_MANIFEST_DIR")))
        .to_vec()
}

fn replay_the_corpora(store: &str) {
    let corpora = corpora();
    let mut arguments = vec!["replay", "--store", store];
    arguments.extend(corpora.iter().map(String::as_str));
    let output = portcullis(&arguments);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(text(&output.stdout).contains(" passed, 0 failed on "), "{output:?}");
}

#[test]
fn the_corpora_pass_on_every_store() {
    replay_the_corpora("pure");
    replay_the_corpora("memory");
    let redis = RedisServer::start().unwrap();
    // Twice: a second run finds no keys of the first.
    replay_the_corpora(&redis.url());
    replay_the_corpora(&redis.url());
    // A reset leaves an empty state that expires a millisecond later, by the server's clock.
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(redis.cli(&["KEYS", "*"]).unwrap(), "");
}

#[test]
fn a_difference_is_printed_and_exits_with_1() {
    let path = file(
        "difference.toml",
        r#"
[[case]]
name = "too soon"
policy = { strategy = "gcra", limit = 1, period = "1s" }
steps = [
  { at = "0s", allow = true },
  { at = "999ms", allow = true },
]
"#,
    );
    for store in ["pure", "memory"] {
        let output = portcullis(&["replay", path.to_str().unwrap(), "--store", store]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let expected = format!(
            "{}:7: case \"too soon\", step 2\n  field:    allow\n  expected: true\n  got:      false, retry_after 1ms, \
             remaining 0, decided_by policy\n\n0 passed, 1 failed on {store}\n",
            path.display()
        );
        assert_eq!(text(&output.stdout), expected);
    }
}

#[test]
fn bad_input_exits_with_2() {
    let bad = file("bad.toml", "[[case]]\nname = \"x\"\n");
    let bad = bad.to_str().unwrap();
    let costly = file(
        "costly.toml",
        r#"
[[case]]
name = "costly"
policy = { strategy = "gcra", limit = 1, period = "1s" }
steps = [{ at = "0s", cost = -1, allow = false }]
"#,
    );
    let costly = costly.to_str().unwrap();
    for (arguments, message) in [
        (&["replay", "no/such/file.toml"][..], "no/such/file.toml"),
        (&["replay", bad], "bad.toml:1:1: case \"x\": missing field `steps`"),
        (&["replay", costly], "costly.toml:5:"),
        (&["replay", costly], "a cost is a whole number of units"),
        (&["replay", "x.toml", "--store", "postgres"], "a store is `memory`, `pure` or a URL"),
        (&["replay"], "FILE"),
        (&[], "Usage"),
    ] {
        let output = portcullis(arguments);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(text(&output.stderr).contains(message), "{output:?}");
    }
}

#[test]
fn an_unreachable_redis_exits_with_2() {
    let nowhere = RedisServer::stopped_with(&[]).unwrap();
    let corpora = corpora();
    let output = portcullis(&["replay", &corpora[0], "--store", &nowhere.url()]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let message = format!("no connection to 127.0.0.1:{}", nowhere.port());
    assert!(text(&output.stderr).contains(&message), "{output:?}");
}
