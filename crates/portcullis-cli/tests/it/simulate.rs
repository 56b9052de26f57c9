//! `portcullis simulate` and `portcullis diff` as processes.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Runs the command with a log as its standard input.
fn portcullis(arguments: &[&str], log: &str) -> Output {
    let mut process = Command::new(env!("CARGO_BIN_EXE_portcullis"))
        .args(arguments)
        .args(["--log", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = process.stdin.take().unwrap();
    let log = log.to_owned();
    let writer = std::thread::spawn(move || {
        // A process that refuses its arguments does not read.
        let _ = input.write_all(log.as_bytes());
    });
    let output = process.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Writes rules with one limit per address. Each test has its own.
fn rules(name: &str, quota: &str) -> String {
    let path = path(name);
    let text = format!(
        "[policy.search]\nstrategy = \"fixed_window\"\nquota = \"{quota}\"\nkey = \"client_ip\"\nmatch = {{ path = \"/search\" }}\n"
    );
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A log in the common format: each second one request of each of 100 clients to `/search`, and one to `/`.
fn log(seconds: u32) -> String {
    let mut log = String::new();
    for second in 0..seconds {
        for client in 0..100 {
            for target in ["/search?q=a", "/"] {
                let _ = writeln!(
                    log,
                    "192.0.2.{client} - - [10/Oct/2000:13:{:02}:{:02} -0700] \"GET {target} HTTP/1.1\" 200 17",
                    second / 60,
                    second % 60
                );
            }
        }
    }
    log
}

#[test]
fn rejections_are_those_of_the_rules() {
    let rules = rules("simulate-search.toml", "10/min");
    let page = path("simulate-report.html");
    let output = portcullis(
        &["simulate", &rules, "--json", "--target-rejections", "0%", "--html", page.to_str().unwrap()],
        &log(120),
    );
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    // Of 60 requests in each of two minutes, 50 are too many.
    assert_eq!((&report["requests"], &report["rejected"]), (&24_000.into(), &10_000.into()));
    assert_eq!(
        (&report["first"], &report["last"]),
        (&"2000-10-10T20:00:00Z".into(), &"2000-10-10T20:01:59Z".into())
    );
    let search = &report["rules"][0];
    assert_eq!((&search["requests"], &search["rejected"]), (&12_000.into(), &10_000.into()));
    assert_eq!((&search["callers"], &search["peak_per_second"]), (&100.into(), &100.into()));
    assert_eq!((&report["callers"][0]["rejected"], &report["callers_error"]), (&100.into(), &0.into()));
    assert_eq!(report["suggestions"][0]["suggestion"], "quota = \"60/min\"");
    assert!(text(&output.stderr).contains("24000 lines in "), "{output:?}");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("<svg") && page.contains("10000 rejected") && !page.contains("<script"));
}

#[test]
fn tables_and_csv_have_the_same_figures() {
    let rules = rules("simulate-tables.toml", "10/min");
    let table = portcullis(&["simulate", &rules, "--top", "1"], &log(60));
    assert_eq!(table.status.code(), Some(0), "{table:?}");
    let table = text(&table.stdout).to_owned();
    assert!(
        table.starts_with("12000 requests, 5000 rejected (41.67 %), at most 200 per second\n"),
        "{table}"
    );
    assert!(table.contains("192.0.2.0  search        50\n"), "{table}");
    let csv = portcullis(&["simulate", &rules, "--csv"], &log(60));
    assert!(text(&csv.stdout).contains("\nrule,search,,,6000,5000,0,\n"), "{csv:?}");
}

#[test]
fn a_diff_names_who_is_newly_rejected() {
    let (old, new) = (rules("diff-old.toml", "50/min"), rules("diff-new.toml", "20/min"));
    let stricter = portcullis(&["diff", &old, &new, "--json"], &log(60));
    assert_eq!(stricter.status.code(), Some(1), "{stricter:?}");
    let report: serde_json::Value = serde_json::from_slice(&stricter.stdout).unwrap();
    assert_eq!((&report["requests"], &report["rejected_by_both"]), (&12_000.into(), &1_000.into()));
    assert_eq!(report["newly_rejected"]["requests"], 3_000);
    assert_eq!(report["newly_rejected"]["rules"][0]["rule"], "search");
    assert_eq!(report["newly_rejected"]["callers"][0]["requests"], 30);
    assert_eq!(report["no_longer_rejected"]["requests"], 0);

    let looser = portcullis(&["diff", &new, &old], &log(60));
    assert_eq!(looser.status.code(), Some(0), "{looser:?}");
    assert!(text(&looser.stdout).contains("3000 requests no longer rejected (25.00 %)"), "{looser:?}");
}

#[test]
fn bad_lines_are_named_and_skipped() {
    let rules = rules("simulate-bad.toml", "10/min");
    let log = format!("nothing\n{}\u{1b}[31m\n{{\n", log(1));
    let output = portcullis(&["simulate", &rules], &log);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let notes = text(&output.stderr);
    assert!(
        notes.contains("3 of 203 lines were skipped")
            && notes.contains("line 1, column 8: not in the format of the log\n    nothing\n           ^\n"),
        "{notes}"
    );
    assert!(text(&output.stdout).starts_with("200 requests, 0 rejected"), "{output:?}");
}

#[test]
fn a_log_without_a_line_that_can_be_read_exits_with_2() {
    let rules = rules("simulate-no-log.toml", "10/min");
    for arguments in [&["simulate", &*rules] as &[&str], &["diff", &rules, &rules]] {
        let output = portcullis(arguments, "this\nis no log\n");
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let notes = text(&output.stderr);
        assert!(notes.contains("none of its 2 lines can be read") && notes.contains("line 1"), "{notes}");
        assert_eq!(text(&output.stdout), "");
        assert_eq!(portcullis(arguments, "").status.code(), Some(0), "a log may be empty");
    }
}

#[test]
fn files_with_errors_exit_with_1_and_arguments_with_2() {
    let broken = path("simulate-broken.toml");
    std::fs::write(&broken, "[policy.search]\nstrategy = \"fixed_windw\"\n").unwrap();
    let broken = broken.to_str().unwrap();
    let rules = rules("simulate-arguments.toml", "10/min");
    let refused: [(&[&str], i32, &str); 5] = [
        (&["simulate", broken], 1, "2 \u{2502} strategy = \"fixed_windw\""),
        (&["simulate", "/nowhere/limits.toml"], 1, "limits.toml"),
        (&["diff", &rules, broken], 1, "fixed_windw"),
        (&["simulate", &rules, "--target-rejections", "200%"], 2, "0% to 100%"),
        (&["simulate", &rules, "--fields", "colour=x"], 2, "unknown field `colour`"),
    ];
    for (arguments, code, reason) in refused {
        let output = portcullis(arguments, "");
        assert_eq!(output.status.code(), Some(code), "{arguments:?} {output:?}");
        assert!(text(&output.stderr).contains(reason), "{output:?}");
        assert_eq!(text(&output.stdout), "");
    }
}

#[test]
fn calendars_variables_and_names_of_the_program_are_accepted() {
    let file = path("simulate-calendar.toml");
    let rules = "[policy.monthly]\nstrategy = \"calendar_window\"\nlimit = \"${LIMIT}\"\nwindows = \"months in Europe/Berlin\"\n\
                 key = \"client_ip\"\n[policy.orders]\nstrategy = \"gcra\"\nquota = \"1/d\"\nkey = { extension = \"account\" }\n";
    std::fs::write(&file, rules).unwrap();
    let file = file.to_str().unwrap();
    let output = portcullis(&["simulate", file, "--no-env", "--env", "LIMIT=3"], &log(2));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(text(&output.stdout).starts_with("400 requests, 100 rejected"), "{output:?}");
    let note = "only the program has extension \"account\": without it, the rule limits nothing";
    assert!(text(&output.stderr).contains(note), "{output:?}");

    let check = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
        command
            .arg("check")
            .arg(file)
            .args(["--no-env", "--format", "line"])
            .args(arguments)
            .output()
            .unwrap()
    };
    let checked = check(&["--env", "LIMIT=3", "--deny-warnings"]);
    assert_eq!(checked.status.code(), Some(0), "{checked:?}");
    assert!(text(&checked.stdout).contains(note), "{checked:?}");
    assert_eq!(check(&[]).status.code(), Some(1));
}

#[test]
fn json_lines_and_combined_lines_are_simulated() {
    let file = path("simulate-formats.toml");
    let rules = "[policy.search]\nstrategy = \"fixed_window\"\nquota = \"1/h\"\nkey = [{ header = \"x-api-key\" }, \"client_ip\"]\n\
                 [policy.all]\nstrategy = \"fixed_window\"\nquota = \"100/h\"\nkey = \"client_ip\"\n";
    std::fs::write(&file, rules).unwrap();
    let simulate = |arguments: &[&str], log: &str| {
        let output = portcullis(&[&["simulate", file.to_str().unwrap(), "--csv"], arguments].concat(), log);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        text(&output.stdout).to_owned()
    };
    let mut log = String::new();
    for (second, key) in ["ada", "ada", "bob"].into_iter().enumerate() {
        let _ = writeln!(
            log,
            r#"{{"ts":"2026-11-23T14:00:0{second}Z","ip":"192.0.2.1","verb":"GET","url":"/search","code":200,"key":"{key}"}}"#
        );
    }
    let fields = "time=ts,client=ip,method=verb,path=url,status=code,header:x-api-key=key";
    let json = simulate(&["--format", "json", "--fields", fields, "--caller", "x-api-key"], &log);
    for line in ["total,,,,3,1,,", "rule,search,,,3,1,0,", "caller,search,ada,,,1,,"] {
        assert!(json.lines().any(|one| one == line), "{line} is not in\n{json}");
    }
    assert!(json.contains("\ntime,,,2026-11-23T14:00:01Z,1,1,,\n"), "{json}");

    let line = r#"192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] "GET /search HTTP/1.1" 200 17 "-" "curl/8""#;
    let combined = simulate(&["--format", "combined"], &format!("{line}\n{line}\n"));
    for line in ["total,,,,2,1,,", "caller,search,192.0.2.1,,,1,,", "time,,,2000-10-10T20:55:36Z,2,1,,"] {
        assert!(combined.lines().any(|one| one == line), "{line} is not in\n{combined}");
    }
}

#[test]
fn skipped_lines_come_with_what_would_read_them() {
    let rules = rules("simulate-advice.toml", "10/min");
    let log = "2000-10-10T20:55:36Z|192.0.2.1|GET|/search|200\n".repeat(20);
    let output = portcullis(&["simulate", &rules], &log);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let notes = text(&output.stderr);
    let format = "$time_local|$remote_addr|$request_method|$request_uri|$status";
    assert!(notes.contains(&format!("    --format '{format}' reads it\n")), "{notes}");
    let output = portcullis(&["simulate", &rules, "--format", format], &log);
    assert!(text(&output.stdout).starts_with("20 requests, 10 rejected"), "{output:?}");
    let output = portcullis(&["simulate", &rules, "--format", "squid"], &log);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(text(&output.stderr).contains("or the text of nginx's `log_format`"), "{output:?}");
}

#[test]
fn scraper_is_named_and_sets_no_quota() {
    let rules = rules("simulate-scraper.toml", "500/min");
    let mut requests = log(60);
    // The scraper has more requests than all others together.
    for _ in 0..8_000 {
        requests += "198.51.100.7 - - [10/Oct/2000:13:00:30 -0700] \"GET /search HTTP/1.1\" 200 17\n";
    }
    let page = path("simulate-scraper.html");
    let output =
        portcullis(&["simulate", &rules, "--json", "--target-callers", "1%", "--top", "5"], &requests);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let search = &report["suggestions"][0];
    assert_eq!((&search["suggestion"], &search["keys"]), (&"quota = \"60/min\"".into(), &101.into()));
    assert_eq!((&search["peaks"]["p99"], &search["peaks"]["max"]), (&60.into(), &8_000.into()));
    assert_eq!(search["abusers"].as_array().map(Vec::len), Some(1));
    let scraper = &search["abusers"][0];
    assert_eq!((&scraper["caller"], &scraper["rejected"]), (&"198.51.100.7".into(), &7_940.into()));

    // The page has quotas without a target, and the terminal has not.
    let output = portcullis(&["simulate", &rules, "--html", page.to_str().unwrap()], &requests);
    assert!(!text(&output.stdout).contains("quota"), "{output:?}");
    let page = std::fs::read_to_string(page).unwrap();
    for cell in ["quota = &quot;60/min&quot;", "198.51.100.7", "p99"] {
        assert!(page.contains(&format!(">{cell}</t")), "{cell} is not in\n{page}");
    }
    let both = portcullis(&["simulate", &rules, "--target-callers", "1%", "--target-rejections", "1%"], "");
    assert_eq!(both.status.code(), Some(2), "{both:?}");
}

#[test]
fn compressed_logs_are_files_or_the_standard_input() {
    let rules = rules("simulate-compressed.toml", "10/min");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(log(60).as_bytes()).unwrap();
    let data = encoder.finish().unwrap();
    let file = path("simulate.log");
    std::fs::write(&file, &data).unwrap();
    let run = |file: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
        command.args(["simulate", &rules, "--log"]).arg(file).output().unwrap()
    };
    let output = run(&file);
    assert!(text(&output.stdout).starts_with("12000 requests, 5000 rejected"), "{output:?}");
    std::fs::write(&file, &data[..data.len() / 2]).unwrap();
    let output = run(&file);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""), "{output:?}");
    let notes = text(&output.stderr);
    let place = format!("the gzip data ends too early at byte {} of the file", data.len() / 2);
    assert!(notes.contains("simulate.log, after line ") && notes.contains(&place), "{notes}");
}

#[test]
fn headers_that_no_line_has_are_named_first() {
    let file = path("simulate-absent.toml");
    let of = |key: &str, more: &str| {
        format!(
            "[policy.plan]\nstrategy = \"fixed_window\"\nquota = \"9/h\"\nkey = {key}\n{more}\n\
             [policy.all]\nstrategy = \"fixed_window\"\nquota = \"100/h\"\nkey = \"client_ip\"\n"
        )
    };
    let line = |key: &str| {
        format!(
            r#"{{"time":"2026-11-23T14:00:00Z","client":"192.0.2.1","method":"GET","path":"/","status":200,"key":"{key}"}}"#
        )
    };
    let log = format!("{}\n{}\nno line\n", line("-"), line(""));
    let arguments = ["--format", "json", "--fields", "header:x-api-key=key"];
    let notes = |command: &[&str], log: &str| {
        let output = portcullis(&[command, &arguments].concat(), log);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let notes = text(&output.stderr).lines().filter(|line| line.starts_with("portcullis: "));
        notes.map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    let file = file.to_str().unwrap();
    for (key, more, named) in [
        ("[{ header = \"x-api-key\" }, \"client_ip\"]", "", "x-api-key (policy.plan.key.header)"),
        (
            "{ all = [\"client_ip\", { cookie = \"sid\" }] }\non_missing = \"exempt\"",
            "",
            "cookie (policy.plan.key.cookie)",
        ),
        ("\"bearer\"\non_missing = \"exempt\"", "", "authorization (policy.plan.key)"),
        ("\"client_ip\"", "cost = { header = \"x-cost\", max = 5 }", "x-cost (policy.plan.cost.header)"),
        (
            "\"client_ip\"",
            "tiers = { pro = \"99/h\" }\ntier = { header = \"x-plan\" }",
            "x-plan (policy.plan.tier.header)",
        ),
        (
            "\"client_ip\"",
            "[client_ip]\nheader = \"cf-connecting-ip\"\nhops = 1",
            "cf-connecting-ip (client_ip.header)",
        ),
    ] {
        std::fs::write(file, of(key, more)).unwrap();
        for command in [&["simulate", file][..], &["diff", file, file]] {
            let notes = notes(command, &log);
            let first = format!("portcullis: no line of the log has a header that the rules read: {named}. ");
            assert!(notes[0].starts_with(&first), "{notes:?}");
            assert_eq!(
                notes.iter().filter(|note| note.contains("no line of the log")).count(),
                1,
                "{notes:?}"
            );
        }
    }
    std::fs::write(file, of("[{ header = \"x-api-key\" }, \"client_ip\"]", "")).unwrap();
    let log = format!("{log}{}\n", line("ada"));
    let notes = notes(&["simulate", file], &log);
    assert!(notes.iter().all(|note| !note.contains("no line of the log")), "{notes:?}");
}
