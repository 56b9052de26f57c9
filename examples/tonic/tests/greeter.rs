//! The example, run as a process.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::Command;

#[test]
fn the_example_is_rejected_waits_and_succeeds() {
    let output = Command::new(env!("CARGO_BIN_EXE_tonic-greeter")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[..2], ["Hello, Ada! 1 left", "Hello, Grace! 0 left"]);
    assert!(lines[2].starts_with("turned away"), "{text}");
    assert_eq!(lines[3], "Hello, Barbara! 0 left");
}
