//! The example, run as a process.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::Command;

#[test]
fn the_example_is_rejected_waits_and_succeeds() {
    let output = Command::new(env!("CARGO_BIN_EXE_tonic-greeter")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].contains("greetings: gcra 1/s burst 2 by client_ip"), "{text}");
    assert_eq!(lines[1..3], ["Hello, Ada! 1 left", "Hello, Grace! 0 left"]);
    assert!(lines[3].starts_with("turned away"), "{text}");
    assert_eq!(lines[4], "Hello, Barbara! 0 left");
}
