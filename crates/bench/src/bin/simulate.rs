//! Lines of access logs per second of `portcullis simulate`: `cargo xtask bench simulate`.
//!
//! The command is a process of its own, whose processor time counts: other load on the machine hardly changes it. The logs are files, which the
//! system keeps in its memory.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use clap::Parser as _;
use portcullis_bench::{BenchOptions, Round, Spread, Target, interleaved, machine, markdown};
use wait4::Wait4 as _;

/// A form of the log: its name, its lines, the rules, and the arguments of the command for it.
struct Case(&'static str, fn(&Entry) -> String, &'static str, &'static [&'static str]);

/// A request of the log.
struct Entry {
    client: u32,
    second: u32,
}

const CASES: [Case; 6] = [
    Case(TWO_RULES, combined, RULES, &[]),
    Case("combined, one rule", combined, RULE, &[]),
    Case("combined, one rule, `--target-callers 1%`", combined, RULE, &["--target-callers", "1%"]),
    Case("Caddy, JSON, one rule", caddy, RULE, &[]),
    Case("HAProxy, one rule", haproxy, RULE, &[]),
    Case(
        "text of `log_format`, one rule",
        text,
        RULE,
        &["--format", "$time_iso8601 $remote_addr \"$request\" $status \"$http_user_agent\""],
    ),
];

const TWO_RULES: &str = "combined, two rules";
const RULE: &str = "[policy.search]\nstrategy = \"gcra\"\nquota = \"10/s burst 20\"\nkey = \"client_ip\"\nmatch = { path = \"/search\" }\n";
const RULES: &str = "[policy.search]\nstrategy = \"gcra\"\nquota = \"10/s burst 20\"\nkey = \"client_ip\"\nmatch = { path = \"/search\" }\n\n[policy.all]\nstrategy = \"fixed_window\"\nquota = \"100000/h\"\nkey = \"client_ip\"\n";
const AGENT: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
const CLIENTS: u32 = 10_000;
/// In each second.
const LINES: u32 = 1_000;

fn main() -> Result<()> {
    let options = BenchOptions::parse();
    let (rounds, seconds) = if options.quick { (1, 20) } else { (5, 1_000) };
    let folder = env::temp_dir().join(format!("portcullis-bench-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let figures = measure(&folder, rounds, seconds);
    fs::remove_dir_all(&folder)?;
    let rows: Vec<_> = CASES
        .iter()
        .zip(figures?)
        .map(|(Case(name, ..), figures)| {
            let Spread { median, low, high, .. } = Spread::of(figures);
            let target = if *name == TWO_RULES { Target::AtLeast(1_000_000.0) } else { Target::None };
            let shown = if target == Target::None { String::new() } else { ">= 1000000".to_owned() };
            let range = format!("{low:.0} to {high:.0}");
            vec![(*name).to_owned(), format!("{median:.0}"), range, shown, target.verdict(median).to_owned()]
        })
        .collect();
    println!(
        "{}\n## Lines of a log per second of processor time\n\n`portcullis simulate limits.toml --log access.log` with limits by address, {} lines of {CLIENTS} \
         clients, on one thread. Medians of {rounds} interleaved rounds.\n\n{}",
        options.heading("simulate", &format!("{}.", machine()?)),
        seconds * LINES,
        markdown(&["log", "lines per second", "of 8 in 10 rounds", "target", "reached"], &rows)
    );
    Ok(())
}

/// The lines per second of each case.
fn measure(folder: &Path, rounds: usize, seconds: u32) -> Result<Vec<Vec<f64>>> {
    let command = env::current_exe()?.with_file_name("portcullis");
    ensure!(command.exists(), "build portcullis-cli first: there is no {}", command.display());
    let lines = seconds * LINES;
    let mut files: Vec<(PathBuf, PathBuf)> = Vec::new();
    for (number, Case(_, line, rules, _)) in CASES.iter().enumerate() {
        let (log, file) = (folder.join(format!("{number}.log")), folder.join(format!("{number}.toml")));
        fs::write(&log, log_of(*line, seconds))?;
        fs::write(&file, rules)?;
        files.push((log, file));
    }
    let mut cases: Vec<Round<'_, f64, anyhow::Error>> = Vec::new();
    for (Case(name, _, _, arguments), (log, rules)) in CASES.iter().zip(&files) {
        let command = &command;
        cases.push(Box::new(move || {
            let mut child = Command::new(command)
                .arg("simulate")
                .arg(rules)
                .arg("--log")
                .arg(log)
                .args(*arguments)
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()?;
            let mut notes = String::new();
            child.stderr.take().context("it is piped")?.read_to_string(&mut notes)?;
            let ended = child.wait4()?;
            ensure!(ended.status.success() && !notes.contains("skipped"), "{name}: {notes}");
            Ok(f64::from(lines) / (ended.rusage.utime + ended.rusage.stime).as_secs_f64())
        }));
    }
    interleaved(rounds, &mut cases)
}

fn log_of(line: fn(&Entry) -> String, seconds: u32) -> String {
    let mut log = String::new();
    for second in 0..seconds {
        for number in 0..LINES {
            // Any odd factor spreads the clients.
            let client = (second * LINES + number).wrapping_mul(2_654_435_761) % CLIENTS;
            let _ = writeln!(log, "{}", line(&Entry { client, second }));
        }
    }
    log
}

impl Entry {
    fn client(&self) -> String {
        format!("10.0.{}.{}", self.client / 256, self.client % 256)
    }

    fn time(&self) -> String {
        format!("{:02}:{:02}:{:02}", 12 + self.second / 3_600, self.second / 60 % 60, self.second % 60)
    }
}

fn combined(entry: &Entry) -> String {
    let (client, time) = (entry.client(), entry.time());
    format!(r#"{client} - - [23/Nov/2026:{time} +0000] "GET /search?q=a HTTP/1.1" 200 1713 "-" "{AGENT}""#)
}

fn caddy(entry: &Entry) -> String {
    format!(
        r#"{{"level":"info","ts":{}.25,"logger":"http.log.access","msg":"handled request","request":{{"remote_ip":"{}","remote_port":"41342","proto":"HTTP/2.0","method":"GET","host":"example.com","uri":"/search?q=a","headers":{{"User-Agent":["{AGENT}"],"Accept":["*/*"]}}}},"duration":0.0009,"size":1713,"status":200}}"#,
        1_795_521_600 + entry.second,
        entry.client(),
    )
}

fn haproxy(entry: &Entry) -> String {
    let (client, time) = (entry.client(), entry.time());
    format!(
        r#"{client}:33317 [23/Nov/2026:{time}.250] http-in static/srv1 10/0/30/69/109 200 1713 - - ---- 1/1/1/1/0 0/0 "GET /search?q=a HTTP/1.1""#
    )
}

fn text(entry: &Entry) -> String {
    format!(r#"2026-11-23T{}Z {} "GET /search?q=a HTTP/1.1" 200 "{AGENT}""#, entry.time(), entry.client())
}
