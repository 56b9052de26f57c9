//! `portcullis check` and `portcullis schema` as processes.

use serde_json::Value;

use crate::rules::{Folder, portcullis};

const GOOD: &str = r#"
[policy.search]
strategy = "token_bucket"
quota = "${SEARCH_LIMIT:-10/s burst 20}"
key = "client_ip"
match = { path = "/search" }
"#;

/// Limits by a header that nothing verifies, or else by address.
const WARNED: &str = r#"
[policy.search]
strategy = "gcra"
quota = "10/s"
key = [{ header = "x-api-key" }, "client_ip"]
"#;

/// Two mistakes, in the lines 4 and 6.
const BAD: &str = r#"
[policy.search]
strategy = "gcra"
quota = "10/fortnight"
key = "client_ip"
mode = "on"
"#;

#[test]
fn valid_files_exit_with_0_and_print_nothing() {
    let folder = Folder::new("valid");
    let files = [folder.write("a.toml", GOOD), folder.write("b.toml", GOOD)];
    assert_eq!(portcullis(&["check", &files[0], &files[1]]), (0, String::new(), String::new()));
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/rules/limits.toml");
    let (code, out, _) = portcullis(&["check", "--no-env", example]);
    assert!(code == 0 && out.contains("nothing verifies the key"), "{code} {out}");
    assert_eq!(portcullis(&["check", "--deny-warnings", "--no-env", example]).0, 0);
    let empty = folder.write("empty.toml", "");
    let (code, out, _) = portcullis(&["check", "--format", "line", &empty]);
    assert!(code == 0 && out.contains("warning: policy: there are no policies"), "{code} {out}");
    let (code, ..) = portcullis(&["check", "--deny-warnings", &empty]);
    assert_eq!(code, 1);
}

#[test]
fn published_limits_have_no_warnings() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/rules/published");
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), 5, "{files:?}");
    for file in files {
        let (code, out, _) =
            portcullis(&["check", "--deny-warnings", "--no-env", "--for", "proxy", file.to_str().unwrap()]);
        assert_eq!(code, 0, "{out}");
    }
}

#[test]
fn errors_exit_with_1_and_all_are_printed_with_their_lines() {
    let folder = Folder::new("errors");
    let file = folder.write("bad.toml", BAD);
    let (code, out, error) = portcullis(&["check", &file]);
    assert_eq!((code, error.as_str()), (1, ""));
    for expected in [
        "quota = \"10/fortnight\"",
        "policy.search.quota",
        "unknown mode \"on\"",
        "bad.toml:6:8",
        "Help: write",
    ] {
        assert!(out.contains(expected), "{expected} is not in {out}");
    }
    assert!(!out.contains('\u{1b}'), "colours are for terminals: {out}");
}

#[test]
fn lines_are_for_editors() {
    let folder = Folder::new("lines");
    let (good, bad) = (folder.write("good.toml", GOOD), folder.write("bad.toml", BAD));
    let (code, out, _) = portcullis(&["check", "--format", "line", &good, &bad]);
    let lines: Vec<_> = out.lines().collect();
    assert_eq!((code, lines.len()), (1, 2), "{out}");
    for (line, start) in
        [(lines[0], ":4:9: error: policy.search.quota: "), (lines[1], ":6:8: error: policy.search.mode: ")]
    {
        assert!(line.strip_prefix(&bad).is_some_and(|rest| rest.starts_with(start)), "{line}");
    }
}

#[test]
fn json_has_an_object_per_finding() {
    let folder = Folder::new("json");
    let bad = folder.write("bad.toml", BAD);
    let (code, out, _) = portcullis(&["check", "--format", "json", &bad]);
    let findings: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((code, findings.len()), (1, 2), "{out}");
    let mode = &findings[1];
    assert_eq!(mode["file"], bad.as_str());
    assert_eq!((&mode["line"], &mode["column"]), (&6.into(), &8.into()));
    assert_eq!((&mode["end_line"], &mode["end_column"]), (&6.into(), &12.into()));
    assert_eq!((&mode["severity"], &mode["field"]), (&"error".into(), &"policy.search.mode".into()));
    assert_eq!(mode["message"], "unknown mode \"on\"");
    assert!(mode["help"].as_str().unwrap().contains("enforce"));
}

#[test]
fn warnings_exit_with_1_only_where_they_are_denied() {
    let folder = Folder::new("warnings");
    let file = folder.write("warned.toml", WARNED);
    let (code, out, _) = portcullis(&["check", &file]);
    assert_eq!(code, 0);
    assert!(out.contains("Warning: nothing verifies the key") && out.contains("add a policy"), "{out}");
    assert_eq!(portcullis(&["check", "--deny-warnings", &file]).0, 1);
    let good = folder.write("good.toml", GOOD);
    assert_eq!(portcullis(&["check", "--deny-warnings", &good]).0, 0);
}

#[test]
fn trusted_header_has_lines_for_proxies() {
    let folder = Folder::new("trusted");
    let text = r#"
[client_ip]
header = "x-forwarded-for"
trusted_proxies = ["10.0.0.0/8"]

[policy.consumer]
strategy = "gcra"
quota = "10/s"
key = { header = "x-consumer-id", trusted = true }
"#;
    let file = folder.write("trusted.toml", text);
    let (code, out, _) =
        portcullis(&["check", "--deny-warnings", "--format", "line", "--for", "proxy", &file]);
    assert_eq!(code, 0, "{out}");
    for expected in [
        ":9:45: note: policy.consumer.key.trusted: header x-consumer-id is believed of 10.0.0.0/8, ",
        "nginx: proxy_set_header x-consumer-id $",
        "HAProxy: http-request set-header x-consumer-id %",
        "Caddy: header_up x-consumer-id {",
        "Traefik: authResponseHeaders = [\"x-consumer-id\"]",
        "append_action: OVERWRITE_IF_EXISTS_OR_ADD",
    ] {
        assert!(out.contains(expected), "{expected} is not in {out}");
    }
    for (proxies, problem) in [
        ("hops = 1", "`hops` names no proxy"),
        ("trusted_proxies = \"0.0.0.0/0\"", "every address is trusted"),
    ] {
        let file = folder.write("any.toml", &text.replace("trusted_proxies = [\"10.0.0.0/8\"]", proxies));
        let (code, out, _) = portcullis(&["check", "--format", "line", &file]);
        let error = format!(
            "error: policy.consumer.key.trusted: {problem}, so that any client could write header x-consumer-id"
        );
        assert!(code == 1 && out.contains(&error), "{out}");
    }
    let (code, out, _) = portcullis(&["check", "--for", "serve", "--format", "line", &file]);
    assert!(code == 1 && out.contains("`trusted` needs the connection of a named proxy"), "{out}");
}

#[test]
fn variables_come_from_arguments_or_the_environment() {
    let folder = Folder::new("variables");
    let file = folder.write("a.toml", GOOD);
    assert_eq!(portcullis(&["check", "--env", "SEARCH_LIMIT=5/min", &file]).0, 0);
    let (code, out, _) = portcullis(&["check", "--env", "SEARCH_LIMIT=many", &file]);
    assert!(code == 1 && out.contains("policy.search.quota"), "{out}");

    // `PATH` is set in each environment, and is no quota.
    let required = folder.write("required.toml", &GOOD.replace("${SEARCH_LIMIT:-10/s burst 20}", "${PATH}"));
    let (code, out, _) = portcullis(&["check", &required]);
    assert!(code == 1 && !out.contains("is not set"), "{out}");
    let (code, out, _) = portcullis(&["check", "--no-env", &required]);
    assert!(code == 1 && out.contains("the environment variable PATH is not set"), "{out}");
    assert_eq!(portcullis(&["check", "--no-env", "--env", "PATH=5/s", &required]).0, 0);
    assert_eq!(portcullis(&["check", "--env", "PATH", &required]).0, 2);
}

#[test]
fn a_file_that_cannot_be_read_is_a_finding() {
    let folder = Folder::new("missing");
    for name in ["missing.toml", "missing.yaml"] {
        let (code, out, _) = portcullis(&["check", &folder.path(name)]);
        assert!(code == 1 && out.contains(name) && out.contains("cannot be read"), "{code} {out}");
    }
    let (code, out, _) = portcullis(&["check", &folder.write("limits.ini", "")]);
    assert!(code == 1 && out.contains("name it .toml, .yaml, .yml or .json"), "{out}");
    #[cfg(unix)]
    for name in ["pipe.toml", "pipe.yaml"] {
        assert!(std::process::Command::new("mkfifo").arg(folder.path(name)).status().unwrap().success());
        let (code, out, _) = portcullis(&["check", &folder.path(name)]);
        assert!(code == 1 && out.contains("cannot be read: it is no file"), "{code} {out}");
    }
    // Without a file the arguments are wrong, not the rules.
    assert_eq!(portcullis(&["check"]).0, 2);
}

#[test]
fn mistakes_of_included_files_have_their_own_place() {
    let folder = Folder::new("include");
    folder.write("more.toml", BAD);
    let file =
        folder.write("main.toml", &format!("include = [\"more.toml\"]\n{}", GOOD.replace("search", "other")));
    let (code, out, _) = portcullis(&["check", "--format", "line", &file]);
    assert_eq!((code, out.lines().count()), (1, 2), "{out}");
    assert!(out.lines().all(|line| line.contains("more.toml:")), "{out}");
    folder.write("more.toml", WARNED);
    assert_eq!(portcullis(&["check", &file]).0, 0);
}

#[test]
fn files_of_envoy_are_checked_as_what_they_are() {
    let folder = Folder::new("envoy");
    let good = "domain: shop\ndescriptors:\n  - key: remote_address\n    rate_limit: { unit: minute, requests_per_unit: 60 }\n";
    let file = folder.write("good.yaml", good);
    assert_eq!(portcullis(&["check", "--deny-warnings", &file]), (0, String::new(), String::new()));
    let bad = folder.write("bad.yaml", &good.replace("minute", "minutes"));
    let (code, out, _) = portcullis(&["check", "--format", "line", &bad]);
    assert!(
        code == 1 && out.contains("bad.yaml:4:25: error: descriptors[0].rate_limit.unit: invalid unit"),
        "{out}"
    );
}

#[test]
fn kinds_are_told_by_fields_at_the_top() {
    let folder = Folder::new("kinds");
    let limit = "rate_limit: { unit: day, requests_per_unit: 5 }";
    for (name, text) in [
        (
            "a.json",
            format!(
                r#"{{"domain": "a", "descriptors": [{{"key": "k", {}}}]}}"#,
                r#""rate_limit": {"unit": "day", "requests_per_unit": 5}"#
            ),
        ),
        ("b.yaml", format!("\"domain\": b\ndescriptors: [{{key: k, {limit}}}]\n")),
        ("c.yaml", format!("  domain: c\n  descriptors: [{{key: k, {limit}}}]\n")),
        ("d.yaml", format!("\u{feff}domain: d\ndescriptors: [{{key: k, {limit}}}]\n")),
        ("e", format!("domain: e\ndescriptors: [{{key: k, {limit}}}]\n")),
    ] {
        let file = folder.write(name, &text);
        let checked = portcullis(&["check", "--deny-warnings", &file]);
        assert_eq!(checked, (0, String::new(), String::new()), "{name}");
        let (code, out, _) = portcullis(&["check", "--kind", "native", "--format", "line", &file]);
        assert_eq!(code, 1, "{out}");
    }
    let whole = folder.path("");
    assert_eq!(portcullis(&["check", "--deny-warnings", &whole]), (0, String::new(), String::new()));
    folder.write("f.yaml", "domain: a\n");
    let (code, out, _) = portcullis(&["check", "--format", "line", &whole]);
    assert!(code == 1 && out.contains("f.yaml:1:9: error: domain:"), "{out}");
    assert_eq!(portcullis(&["check", "--merge-domains", &whole]).0, 0);
}

#[test]
fn files_that_are_neither_kind_are_named() {
    let folder = Folder::new("neither");
    let shop = "descriptors:\n- key: k\n  rate_limit: { unit: day, requests_per_unit: 5 }\n";
    for (text, expected) in [
        (shop.to_owned(), "error: domain: the file has no domain (help: add `domain: name`"),
        (format!("domain: {{{{ .Values.domain }}}}\n{shop}"), "this is a template: \"{{ .Values.domain }}\""),
        (
            "apiVersion: v1\nkind: ConfigMap\ndata:\n  a.yaml: |\n    domain: d\n".to_owned(),
            "an object of Kubernetes",
        ),
    ] {
        let file = folder.write("a.yaml", &text);
        for kind in [&[] as &[&str], &["--kind", "native"], &["--kind", "envoy"]] {
            let (code, out, _) = portcullis(&[&["check", "--format", "line", file.as_str()], kind].concat());
            let expected =
                if text == shop && kind.contains(&"native") { "these are descriptors" } else { expected };
            assert!(code == 1 && out.contains(expected), "{kind:?} {out}");
        }
    }
}

#[test]
fn what_the_program_registers_counts_as_there() {
    let folder = Folder::new("names");
    let text = "[policy.a]\nstrategy = 'calendar_window'\nlimit = 100\nwindows = 'months in Europe/Berlin'\nkey = { extension = 'account' }\n";
    let file = folder.write("a.toml", text);
    let (code, out, _) = portcullis(&["check", "--deny-warnings", "--format", "line", &file]);
    let note = "a.toml:5:21: note: policy.a.key.extension: only the program has extension \"account\"";
    assert!(code == 0 && out.contains(note), "{out}");
    let utopia = folder.write("b.toml", &text.replace("Berlin", "Utopia"));
    let (code, out, _) = portcullis(&["check", &utopia]);
    assert!(code == 1 && out.contains("Europe/Utopia"), "{out}");
}

#[test]
fn check_for_door_names_all_that_it_lacks() {
    let folder = Folder::new("doors");
    let text = "[layer]\nexcept = { route = '/health' }\n[policy.a]\nstrategy = 'gcra'\nquota = '5/s'\nkey = 'client_ip'\n\
                charge_when = { status = 401 }\ntiers = { pro = '9/s' }\nin_flight = { limit = 4 }\n";
    let file = folder.write("a.toml", text);
    assert_eq!(portcullis(&["check", &file]), (0, String::new(), String::new()));
    let lines = |door: &str| {
        let (code, out, _) = portcullis(&["check", "--format", "line", "--for", door, &file]);
        assert_eq!(code, i32::from(!out.is_empty()), "{out}");
        let line = |line: &str| {
            line.rsplit_once("a.toml:").unwrap().1.split(' ').take(3).collect::<Vec<_>>().join(" ")
        };
        out.lines().map(line).collect::<Vec<_>>()
    };
    assert_eq!(lines("code"), [""; 0]);
    let (except, tiers) = ("2:20: error: layer.except.route:", "8:9: error: policy.a.tiers:");
    assert_eq!(lines("proxy"), [except, tiers]);
    for door in ["check", "serve"] {
        let (outcome, permits) = ("7:15: error: policy.a.charge_when:", "9:13: error: policy.a.in_flight:");
        assert_eq!(lines(door), [except, outcome, tiers, permits], "{door}");
    }
    // Only a program registers names.
    let named = folder.write(
        "b.toml",
        "[policy.a]\nstrategy = 'gcra'\nquota = '5/s'\nkey = 'client_ip'\ncost = { function = 'size' }\n",
    );
    assert_eq!(portcullis(&["check", "--for", "code", &named]).0, 0);
    let (code, out, _) = portcullis(&["check", "--for", "proxy", &named]);
    assert!(code == 1 && out.contains("size"), "{out}");
    let envoy = folder.write("c.yaml", "domain: shop\ndescriptors: []\n");
    assert_eq!(portcullis(&["check", "--for", "serve", &envoy]).0, 0);
    assert_eq!(portcullis(&["check", "--for", "proxy", &envoy]).0, 1);
}

#[test]
fn the_schema_is_printed_for_editors() {
    let (code, out, error) = portcullis(&["schema"]);
    let schema: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, error.as_str()), (0, ""));
    for table in ["include", "client_ip", "layer", "remote", "policy"] {
        assert!(schema["properties"][table].is_object(), "{table}");
    }
}
