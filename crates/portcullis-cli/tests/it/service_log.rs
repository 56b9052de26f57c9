//! What `portcullis serve` logs at its start: lines, and nothing that is drawn between them.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::rules::Folder;

/// Standard error of a service from its start until it listens.
fn log_of(name: &str, rules: &str) -> String {
    log_after(name, rules, |_| {})
}

/// Standard error of a service from its start until requests to its HTTP listener are answered.
fn log_after(name: &str, rules: &str, requests: impl FnOnce(&str)) -> String {
    let folder = Folder::new(&format!("service-log-{name}"));
    let (file, log) = (folder.write(name, rules), folder.path("log"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.env_remove("PORTCULLIS_ADMIN_TOKEN").env_remove("PORTCULLIS_STORE");
    command.args(["serve", &file, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
    let mut process = command.stdout(Stdio::piped()).stderr(File::create(&log).unwrap()).spawn().unwrap();
    let mut announced = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut announced).unwrap();
    let started: Value = serde_json::from_str(&announced).unwrap();
    requests(started["http"].as_str().unwrap());
    process.kill().unwrap();
    process.wait().unwrap();
    fs::read_to_string(&log).unwrap()
}

/// The lines of the log from the change of the rules of a service until one of them has this text.
fn lines_of_change(name: &str, before: &str, now: &str, until: &str) -> Vec<String> {
    let folder = Folder::new(&format!("changed-{}-{name}", until.split(' ').next().unwrap()));
    let (file, log) = (folder.write(name, before), folder.path("log"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.env_remove("PORTCULLIS_ADMIN_TOKEN").env_remove("PORTCULLIS_STORE").args(["serve", &file]);
    command.args(["--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--poll", "20ms"]);
    let mut process = command.stdout(Stdio::piped()).stderr(File::create(&log).unwrap()).spawn().unwrap();
    let mut announced = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut announced).unwrap();
    let at_start = fs::read_to_string(&log).unwrap().len();
    fs::rename(folder.write(".new", now), &file).unwrap();
    let start = Instant::now();
    let log = loop {
        let log = fs::read_to_string(&log).unwrap();
        if log[at_start..].contains(until) || start.elapsed() > Duration::from_secs(30) {
            break log;
        }
        sleep(Duration::from_millis(20));
    };
    process.kill().unwrap();
    process.wait().unwrap();
    assert!(log[at_start..].contains(until), "{log}");
    log[at_start..].lines().map(ToOwned::to_owned).collect()
}

#[test]
fn reload_logs_what_has_changed() {
    let rule = |name: &str, quota: &str| {
        format!(
            "[policy.{name}]\nstrategy = 'token_bucket'\nquota = '{quota}'\nkey = 'client_ip'\nmatch = {{ path = '/{name}' }}\n"
        )
    };
    let before = rule("kept", "1/s burst 9") + &rule("old", "2/s") + &rule("search", "10/s burst 20");
    let now = rule("added", "3/s") + &rule("kept", "1/s burst 9") + &rule("search", "10/s burst 40");
    let lines = lines_of_change(
        "limits.toml",
        &before,
        &now,
        "new rules of the rate limiter apply generation=2 file=",
    );
    assert_eq!(lines.len(), 4, "{lines:#?}");
    for (line, text) in lines.iter().zip([
        r#"a rule of the rate limiter is new limit="added" now="added: token_bucket 3/s by client_ip, enforce, "#,
        r#"a rule of the rate limiter has changed limit="search" before="search: token_bucket 10/s burst 20 by client_ip" now="search: token_bucket 10/s burst 40 by client_ip""#,
        r#"a rule of the rate limiter is gone limit="old" before="old: "#,
        "limits.toml",
    ]) {
        assert!(line.contains(" INFO ") && line.contains(text), "{text}: {line}");
    }

    let shop = |number: u32| {
        format!(
            "domain: shop\ndescriptors:\n  - key: kept\n    rate_limit: {{ unit: day, requests_per_unit: 9 }}\n  - key: user\n    rate_limit: {{ unit: day, requests_per_unit: {number} }}\n"
        )
    };
    let lines =
        lines_of_change("shop.yaml", &shop(5), &shop(6), "changed descriptor files apply from now on path=");
    assert_eq!(lines.len(), 2, "{lines:#?}");
    let changed = r#"a limit of Envoy's files has changed limit="shop.user" before="shop.user: fixed_window 5/d" now="shop.user: fixed_window 6/d""#;
    assert!(lines[0].contains(changed), "{lines:#?}");
}

#[test]
fn findings_of_reload_are_lines() {
    let good = "[policy.all]\nstrategy = 'gcra'\nquota = '1/s'\nkey = 'client_ip'\n";
    let bad = "[policy.all]\nstrategy = 'gcra'\nquota = 'much'\nkey = 'client'\n";
    let lines = lines_of_change("limits.toml", good, bad, ": error: policy.all.key: ");
    assert_eq!(lines.len(), 3, "{lines:#?}");
    let refused = "those of this generation stay code=PC501 generation=1 findings=2";
    assert!(lines[0].contains(refused), "{lines:#?}");
    for (line, place) in lines[1..].iter().zip(["limits.toml:3:", "limits.toml:4:"]) {
        assert!(line.contains(" ERROR ") && line.contains(place) && !line.contains("\\n"), "{line}");
        assert!(line.ends_with(" code=PC502"), "{line}");
    }
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
    assert_eq!(log.matches(" code=PC506 place=").count(), 2, "{log}");
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

#[test]
fn unknown_domain_is_one_line() {
    let files =
        "domain: shop\ndescriptors:\n  - key: user\n    rate_limit: { unit: minute, requests_per_unit: 5 }\n";
    let log = log_after("domains.yaml", files, |address| {
        for domain in ["shop", "shpo", "shpo"] {
            let descriptors = json!([{ "entries": [{ "key": "user", "value": "ada" }] }]);
            let call = json!({ "domain": domain, "descriptors": descriptors }).to_string();
            let answer =
                ureq::post(format!("http://{address}/json")).content_type("application/json").send(&call);
            assert_eq!(answer.unwrap().status(), 200);
        }
    });
    assert_lines(&log, &[("WARN", "no file has the domain of a call")]);
    assert!(log.contains(r#" code=PC707 domain="shpo" calls=1"#), "{log}");
}
