//! The terminals of a reader: runs commands of a page, and compares what they print with the page.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use portcullis_servers::RedisServer;

/// A folder with the programs that run in it. Programs have other ports than on the page.
pub(crate) struct Console {
    folder: PathBuf,
    binary: &'static str,
    programs: Vec<Program>,
    redis: Option<RedisServer>,
    /// Those of `export`.
    variables: BTreeMap<String, String>,
    /// Addresses of the page, and the real ones.
    addresses: Vec<(String, String)>,
}

struct Program {
    child: Child,
    output: Arc<Mutex<String>>,
}

impl Drop for Console {
    fn drop(&mut self) {
        for program in &mut self.programs {
            let _ = program.child.kill();
            let _ = program.child.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Console {
    pub(crate) fn new(name: &str, binary: &'static str) -> Self {
        let folder = std::env::temp_dir().join(format!("portcullis-start-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self {
            folder,
            binary,
            programs: Vec::new(),
            redis: None,
            variables: BTreeMap::new(),
            addresses: Vec::new(),
        }
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.join(name), text).unwrap();
    }

    /// Does what a reader has done on an earlier page that still holds: variables, and Redis.
    pub(crate) fn remember(&mut self, block: &str) {
        for (command, _) in steps(block) {
            if command.starts_with("export ") || command.starts_with("redis-server") && self.redis.is_none() {
                self.step(&command, "");
            }
        }
    }

    /// Runs the commands of a block, and returns their number.
    pub(crate) fn run(&mut self, block: &str) -> usize {
        let steps = steps(block);
        for (command, expected) in &steps {
            self.step(command, expected);
        }
        steps.len()
    }

    fn step(&mut self, command: &str, expected: &str) {
        if let Some(variable) = command.strip_prefix("export ") {
            let (name, value) = variable.split_once('=').unwrap();
            self.variables.insert(name.to_owned(), value.to_owned());
        } else if command.contains("cargo run") {
            self.start(command, expected);
        } else if command.starts_with("redis-server") {
            match &mut self.redis {
                Some(redis) => redis.restart().unwrap(),
                None => self.redis = Some(RedisServer::start().unwrap()),
            }
        } else if command == "redis-cli shutdown nosave" {
            self.redis.as_mut().unwrap().kill().unwrap();
        } else {
            let printed = self.shell(command);
            let is_as_shown = is_as_shown(&printed, expected);
            assert!(is_as_shown, "$ {command}\nprints\n{printed}\ninstead of\n{expected}");
        }
    }

    /// Waits until a program has logged these lines, and for a while until all have.
    pub(crate) fn await_log(&self, block: &str) {
        for line in block.lines() {
            wait(line, &self.programs);
            let end = Instant::now() + WHILE;
            while Instant::now() < end && !self.programs.iter().all(|program| program.has(line)) {
                thread::sleep(Duration::from_millis(20));
            }
        }
    }

    fn shell(&self, command: &str) -> String {
        // What a reader does not notice may go on after an answer, such as its settlement.
        thread::sleep(Duration::from_millis(300));
        let addresses = || self.addresses.iter();
        let command =
            addresses().fold(command.to_owned(), |command, (page, real)| command.replace(page, real));
        let mut shell = Command::new("sh");
        shell.args(["-c", &command]).current_dir(&self.folder).envs(&self.variables);
        let output = shell.output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "$ {command}\n{error}");
        let printed = String::from_utf8(output.stdout).unwrap().replace('\r', "");
        addresses().fold(printed, |printed, (page, real)| printed.replace(real, page))
    }

    /// Starts the program of the page, whose lines name the addresses that the page has.
    fn start(&mut self, command: &str, expected: &str) {
        let mut program = Command::new(self.binary);
        for name in ["PORTCULLIS_SECRET", "PORTCULLIS_ADMIN_TOKEN", "RUST_LOG"] {
            program.env_remove(name);
        }
        program.envs(&self.variables);
        for variable in command.split_whitespace().take_while(|word| *word != "cargo") {
            let (name, value) = variable.split_once('=').unwrap();
            program.env(name, value);
        }
        // A port that is free, and colours that a page has not.
        program.envs([("PORT", "0"), ("ADMIN_PORT", "0"), ("NO_COLOR", "1")]);
        if let Some(redis) = &self.redis {
            program.env("REDIS_URL", redis.admin_url());
        }
        program.current_dir(&self.folder).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = program.spawn().unwrap();
        let output = Arc::new(Mutex::new(String::new()));
        collect(child.stdout.take().unwrap(), &output);
        collect(child.stderr.take().unwrap(), &output);
        self.programs.push(Program { child, output });
        for line in expected.lines() {
            let Some((before, address)) = line.split_once("http://") else {
                self.wait_for_last(line);
                continue;
            };
            let before = format!("{before}http://");
            let page = address.split('/').next().unwrap();
            self.wait_for_last(&before);
            let text = self.programs.last().unwrap().text();
            let real = text.split(&before).nth(1).unwrap();
            let end = real.find(|character: char| !character.is_ascii_digit() && !".:".contains(character));
            let real = real[..end.unwrap()].to_owned();
            assert!(text.contains(&line.replace(page, &real)), "no {line}:\n{text}");
            self.addresses.retain(|(known, _)| known != page);
            self.addresses.push((page.to_owned(), real));
        }
    }

    fn wait_for_last(&self, line: &str) {
        wait(line, self.programs.last().map(std::slice::from_ref).unwrap());
    }
}

/// Waits until one of the programs has printed a line.
fn wait(line: &str, programs: &[Program]) {
    let end = Instant::now() + Duration::from_secs(60);
    while !programs.iter().any(|program| program.has(line)) {
        let printed: Vec<_> = programs.iter().map(Program::text).collect();
        assert!(Instant::now() < end, "no {line:?} in\n{}", printed.join("\n"));
        thread::sleep(Duration::from_millis(20));
    }
}

impl Program {
    fn text(&self) -> String {
        self.output.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn has(&self, line: &str) -> bool {
        self.text().lines().any(|printed| has_parts(printed, line))
    }
}

/// Commands with what they print.
fn steps(block: &str) -> Vec<(String, String)> {
    let mut steps: Vec<(String, String)> = Vec::new();
    for line in block.lines() {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => steps.push((command.to_owned(), String::new())),
            (None, Some((command, _))) if command.ends_with('\\') => {
                command.push('\n');
                command.push_str(line);
            }
            (None, Some((_, expected))) => {
                expected.push_str(line);
                expected.push('\n');
            }
            (None, None) => panic!("no command before {line}"),
        }
    }
    steps
}

fn collect(stream: impl Read + Send + 'static, output: &Arc<Mutex<String>>) {
    let output = Arc::clone(output);
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
            output.push_str(&line);
            output.push('\n');
        }
    });
}

/// A text contains the parts of a line between its `...`, in this order.
fn has_parts(text: &str, line: &str) -> bool {
    let mut rest = text;
    line.split("...").all(|part| match rest.find(part) {
        Some(position) => {
            rest = &rest[position + part.len()..];
            true
        }
        None => false,
    })
}

/// Line by line. Dates differ, and times by some seconds.
fn is_as_shown(printed: &str, expected: &str) -> bool {
    let (printed, expected) = (printed.trim().lines(), expected.trim().lines());
    printed.clone().count() == expected.clone().count()
        && printed.zip(expected).all(|(printed, expected)| {
            printed == expected || is_alike(printed, expected) || has_parts_between_dots(printed, expected)
        })
}

fn is_alike(printed: &str, expected: &str) -> bool {
    let time = |line: &str| {
        let (name, rest) = TIMES.iter().find_map(|name| Some((name, line.strip_prefix(name)?)))?;
        Some((name, rest.split(' ').next()?.parse::<u64>().ok()?))
    };
    match (time(printed), time(expected)) {
        (Some((name, printed)), Some((other, expected))) => {
            name == other && printed.abs_diff(expected) <= SLOWNESS
        }
        _ => printed.starts_with("date: ") && expected.starts_with("date: "),
    }
}

fn has_parts_between_dots(printed: &str, expected: &str) -> bool {
    expected.contains("...") && has_parts(printed, expected)
}

/// What is before a time in seconds, and before the length of a text that has one.
const TIMES: [&str; 4] =
    ["retry-after: ", "x-ratelimit-reset: ", "rate limit exceeded: retry after ", "content-length: "];

/// How long a line of some programs is awaited of the others.
const WHILE: Duration = Duration::from_secs(3);

/// The seconds by which times differ on a busy machine.
const SLOWNESS: u64 = 5;
