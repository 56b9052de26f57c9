//! What `portcullis serve` logs at its start: lines, and nothing that is drawn between them.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use crate::rules::Folder;

/// Standard error of a service from its start until it listens.
fn log_of(name: &str, rules: &str) -> String {
    let folder = Folder::new(&format!("service-log-{name}"));
    let (file, log) = (folder.write(name, rules), folder.path("log"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.env_remove("PORTCULLIS_ADMIN_TOKEN").env_remove("PORTCULLIS_STORE");
    command.args(["serve", &file, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
    let mut process = command.stdout(Stdio::piped()).stderr(File::create(&log).unwrap()).spawn().unwrap();
    let mut announced = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut announced).unwrap();
    process.kill().unwrap();
    process.wait().unwrap();
    assert!(announced.starts_with('{'), "{announced}");
    fs::read_to_string(&log).unwrap()
}

/// Each line has a level, and the line with this text has this one.
fn assert_lines(log: &str, expected: &[(&str, &str)]) {
    let levels = [" INFO ", " WARN ", " ERROR "];
    assert!(log.lines().all(|line| levels.iter().any(|level| line.contains(level))), "{log}");
    for (level, text) in expected {
        let found: Vec<_> = log.lines().filter(|line| line.contains(text)).collect();
        assert!(found.len() == 1 && found[0].contains(&format!(" {level} ")), "{level} {text}: {log}");
    }
}

#[test]
fn warnings_of_native_rules_are_lines_of_the_log() {
    let rules = "[policy.all]\nstrategy = 'gcra'\nquota = '1/s'\nkey = { header = 'x-api-key' }\ncost = 5\nmode = 'off'\n";
    let log = log_of("limits.toml", rules);
    assert_lines(
        &log,
        &[
            ("WARN", "the policy is off"),
            ("WARN", "a cost of 5 never fits"),
            ("INFO", "a rule of the rate limiter"),
        ],
    );
    assert!(log.contains("costs 5"), "{log}");
}

#[test]
fn each_limit_of_envoys_files_is_a_line() {
    let files = "domain: shop\ndescriptors:\n  - key: user\n    rate_limit: { unit: minute, requests_per_unit: 5 }\n  - key: \
                 path\n    shadow_mode: true\n    rate_limit: { unit: day, requests_per_unit: 9 }\n  - key: open\n    rate_limit: { \
                 unlimited: true }\n";
    let user = r#"applies_to="shop.user" policy="shop.user: fixed_window 5/min, enforce, if the store fails: local, whole limit""#;
    let path = r#"applies_to="shop.path" policy="shop.path: fixed_window 9/d, shadow, if the store fails: local, whole limit""#;
    let open = r#"applies_to="shop.open" policy="the limit is unlimited: every request is admitted""#;
    assert_lines(&log_of("shop.yaml", files), &[("INFO", user), ("INFO", path), ("INFO", open)]);
}
