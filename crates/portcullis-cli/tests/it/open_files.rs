//! The limit of open files, in the commands that serve.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use crate::rules::Folder;

const RULES: &str = "[policy.all]\nstrategy = 'gcra'\nquota = '1/s'\nkey = 'client_ip'\n";

/// The log of a command that serves, up to its first line of output. `sh` sets the limit by `ulimit`.
fn log_of(folder: &Folder, ulimit: &str, arguments: &[&str]) -> String {
    let log = folder.path("log");
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit {ulimit} && exec \"$@\""), "sh", env!("CARGO_BIN_EXE_portcullis")]);
    command.args(arguments).args(["--max-connections", "10"]).env_remove("PORTCULLIS_STORE");
    let mut process = command.stdout(Stdio::piped()).stderr(File::create(&log).unwrap()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    process.kill().unwrap();
    process.wait().unwrap();
    let log = fs::read_to_string(&log).unwrap();
    assert!(line.contains("started"), "{line}{log}");
    log
}

#[test]
fn open_files_are_raised_or_warned_of() {
    let folder = Folder::new("open-files");
    let rules = folder.write("limits.toml", RULES);
    let any = "127.0.0.1:0";
    let proxy = ["proxy", &rules, "--listen", any, "--upstream", "http://127.0.0.1:1", "--max-requests", "7"];
    let serve = ["serve", &rules, "--grpc", any, "--http", any];
    for (arguments, flags, needed) in [
        (&proxy[..], "--max-connections and --max-requests", 10 + 7 + 256),
        (&serve[..], "--max-connections", 10 + 10 + 256),
    ] {
        let log = log_of(&folder, "-n 128", arguments);
        let warned = format!("the process may open 128 files, and with {flags} it may need {needed}:");
        assert!(log.contains(&warned), "{log}");
        let log = log_of(&folder, "-S -n 128", arguments);
        assert!(!log.contains("the process may open"), "{log}");
    }
}
