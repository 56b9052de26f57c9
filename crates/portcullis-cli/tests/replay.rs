//! The command as a person runs it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use portcullis_testing::RedisServer;

fn portcullis(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_portcullis")).args(arguments).output().unwrap()
}

fn corpus(name: &str) -> String {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data");
    data.join(name).display().to_string()
}

/// A file of this test, with one case.
fn file(name: &str, case: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, format!("[[case]]\n{case}")).unwrap();
    path
}

#[test]
fn a_corpus_that_passes_ends_with_zero_on_every_store() {
    let redis = RedisServer::start().unwrap();
    for store in ["pure", "memory", &redis.url()] {
        let output =
            portcullis(&["replay", &corpus("gcra.toml"), &corpus("fixed_window.toml"), "--store", store]);
        assert!(output.status.success(), "{store}: {output:?}");
    }
}

#[test]
fn the_first_difference_is_told_and_ends_with_one() {
    let wrong = file(
        "wrong.toml",
        r#"
        name = "two, then two more"
        policy = { strategy = "gcra", limit = 2, period = "1s", burst = 2 }
        steps = [{ at = "0s", cost = 2, allow = true, remaining = 0 }, { at = "1ms", allow = false, retry_after = "1ms" }]
        "#,
    );
    let output = portcullis(&["replay", wrong.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    for word in ["two, then two more", "step 2", "retry_after", "1ms", "499ms"] {
        assert!(text.contains(word), "{word} is not in {text}");
    }
}

#[test]
fn bad_input_is_named_and_ends_with_two() {
    let bad = [
        (
            "zero.toml",
            r#"name = "a"
            policy = { strategy = "gcra", limit = 0, period = "1s" }
            steps = []"#,
            "limit",
        ),
        (
            "unknown.toml",
            r#"name = "a"
            policy = { strategy = "gcra", limit = 1, period = "1s" }
            steps = [{ at = "0s", allow = true, remaning = 1 }]"#,
            "remaning",
        ),
        (
            "cost.toml",
            r#"name = "a"
            policy = { strategy = "gcra", limit = 1, period = "1s" }
            steps = [{ at = "0s", allow = true, cost = 4294967296 }]"#,
            "4294967296",
        ),
    ];
    for (name, case, word) in bad {
        let path = file(name, case);
        let output = portcullis(&["replay", path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2), "{name}");
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(word) && text.contains(name), "{word} is not in {text}");
    }
    for (store, word) in
        [("rabbit", "memory"), ("redis://127.0.0.1:1", "no connection"), ("ftp://x", "redis-cluster")]
    {
        let output = portcullis(&["replay", &corpus("gcra.toml"), "--store", store]);
        assert_eq!(output.status.code(), Some(2), "{store}");
        assert!(String::from_utf8(output.stderr).unwrap().contains(word), "{store}");
    }
    assert_eq!(portcullis(&["replay", "/nowhere.toml"]).status.code(), Some(2));
}
