//! The commands that pages of the book show, with what they print, and the files that they use.
//!
//! A block whose first line is a comment with a name is a file. `...` on a page stands for any text, and in a line of its own for any
//! lines. With `UPDATE_SNIPPETS` in the environment the tests write what is printed into the pages instead of comparing it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use portcullis_servers::RedisServer;
use serde_json::Value;

use crate::proxy::upstream;
use crate::rules::Folder;

/// A page, its files in a folder, and the processes that its commands ask.
struct Page {
    path: PathBuf,
    text: String,
    folder: Folder,
    processes: Vec<Child>,
    /// Addresses of the page, and the real ones.
    addresses: Vec<(String, String)>,
}

/// A fenced block: its language and its lines, with the number of its first line on the page.
struct Block<'a> {
    language: &'a str,
    first: usize,
    lines: Vec<&'a str>,
}

impl Page {
    fn open(name: &str) -> Self {
        let path = repository().join("docs").join(name);
        let text = fs::read_to_string(&path).unwrap();
        let folder = Folder::new(&format!("page-{}", name.replace('/', "-")));
        let page = Self { path, text, folder, processes: Vec::new(), addresses: Vec::new() };
        page.write_files(&page.text);
        page
    }

    fn write_files(&self, text: &str) {
        for block in blocks(text) {
            let Some(name) = block.lines.first().and_then(|line| line.strip_prefix("# ")) else { continue };
            if !name.contains(' ') && name.contains('.') {
                self.folder.write(name, &(block.lines.join("\n") + "\n"));
            }
        }
    }

    /// Starts `portcullis` in the folder, with a token and a secret.
    fn start(&mut self, arguments: &[&str]) -> Value {
        let mut command = self.command(env!("CARGO_BIN_EXE_portcullis"));
        let mut process = command.args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        self.processes.push(process);
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Starts the service, at other addresses than on the page.
    fn serve(&mut self, rules: &str) {
        self.serve_with(rules, &[]);
    }

    fn serve_with(&mut self, rules: &str, arguments: &[&str]) {
        let serve = ["serve", rules, "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"];
        let started = self.start(&[&serve, arguments].concat());
        self.is_at("localhost:8080", started["http"].as_str().unwrap());
        if let Some(admin) = started["admin"].as_str() {
            self.is_at("127.0.0.1:9090", admin);
        }
    }

    fn is_at(&mut self, address: &str, real: &str) {
        self.addresses.push((address.to_owned(), real.to_owned()));
    }

    fn command(&self, program: &str) -> Command {
        let path = Path::new(env!("CARGO_BIN_EXE_portcullis")).parent().unwrap();
        let path = format!("{}:{}", path.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(program);
        command
            .current_dir(self.folder.path(""))
            .env("PATH", path)
            .env("PORTCULLIS_ADMIN_TOKEN", "a-long-random-token")
            .env("PORTCULLIS_SECRET", "2026:000102030405060708090a0b0c0d0e0f")
            .env_remove("PORTCULLIS_STORE");
        command
    }

    /// Runs the commands of the page in their order, and compares what they print.
    fn run(&self) {
        let mut lines: Vec<String> = self.text.lines().map(str::to_owned).collect();
        let mut printed = Vec::new();
        for block in blocks(&self.text).into_iter().filter(|block| block.language == "console") {
            for (command, output) in steps(&block) {
                printed.push((output, self.printed(&command), command));
            }
        }
        assert!(!printed.is_empty(), "{} shows no command", self.path.display());
        // From the end, so that the numbers of lines stay.
        for (output, real, command) in printed.into_iter().rev() {
            let shown = lines[output.clone()].join("\n");
            if is_as_shown(&real, &shown) {
                continue;
            }
            assert!(
                std::env::var_os("UPDATE_SNIPPETS").is_some(),
                "$ {command}\nprints\n{real}\ninstead of\n{shown}"
            );
            lines.splice(output, real.lines().map(str::to_owned));
            fs::write(&self.path, lines.join("\n") + "\n").unwrap();
        }
    }

    fn printed(&self, command: &str) -> String {
        let command =
            self.addresses.iter().fold(command.to_owned(), |text, (shown, real)| text.replace(shown, real));
        let output = self.command("sh").args(["-c", &command]).stderr(Stdio::inherit()).output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let printed = self.addresses.iter().fold(printed, |text, (shown, real)| text.replace(real, shown));
        printed.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut open: Option<Block<'_>> = None;
    for (number, line) in text.lines().enumerate() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(language), None) => {
                open = Some(Block { language, first: number + 1, lines: Vec::new() });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => block.lines.push(line),
            (None, None) => {}
        }
    }
    blocks
}

/// Each command of a block, and the lines of the page that have its output. A command goes on in lines that begin with `>`.
fn steps(block: &Block<'_>) -> Vec<(String, Range<usize>)> {
    let mut steps: Vec<(String, Range<usize>)> = Vec::new();
    for (number, line) in (block.first..).zip(&block.lines) {
        if let Some(command) = line.strip_prefix("$ ") {
            steps.push((command.to_owned(), number + 1..number + 1));
            continue;
        }
        let (command, output) = steps.last_mut().expect("a block begins with a command");
        match line.strip_prefix("> ") {
            Some(rest) if output.start == output.end => {
                *command += "\n";
                *command += rest;
                *output = number + 1..number + 1;
            }
            _ => output.end = number + 1,
        }
    }
    steps
}

/// Whether a text is that of the page.
fn is_as_shown(printed: &str, shown: &str) -> bool {
    are_as_shown(&printed.lines().collect::<Vec<_>>(), &shown.lines().collect::<Vec<_>>())
}

fn are_as_shown(printed: &[&str], shown: &[&str]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((&"...", rest)) => (0..=printed.len()).any(|skipped| are_as_shown(&printed[skipped..], rest)),
        Some((first, rest)) => printed
            .split_first()
            .is_some_and(|(one, others)| is_line_as_shown(one, first) && are_as_shown(others, rest)),
    }
}

fn is_line_as_shown(printed: &str, shown: &str) -> bool {
    let Some((first, rest)) = shown.split_once("...") else { return printed == shown };
    let Some(left) = printed.strip_prefix(first) else { return false };
    (0..=left.len()).filter_map(|at| left.get(at..)).any(|left| is_line_as_shown(left, rest))
}

#[test]
fn dots_stand_for_any_text() {
    for (printed, shown, expected) in [
        ("a\nb\nc", "a\n...\nc", true),
        ("a\nc", "a\n...\nc", true),
        ("a\nb", "a\n...\nc", false),
        ("until 5 o'clock", "until ...", true),
        ("until 5 o'clock", "from ...", false),
        ("a b", "a", false),
        ("", "", true),
    ] {
        assert_eq!(is_as_shown(printed, shown), expected, "{printed} {shown}");
    }
}

#[test]
fn service_answers_as_its_page_shows() {
    let mut page = Page::open("how-to/gateway/serve.md");
    page.serve("limits.toml");
    page.run();
}

#[test]
fn check_of_caddy_answers_as_its_page_shows() {
    let mut page = Page::open("how-to/gateway/caddy.md");
    let nginx = fs::read_to_string(repository().join("docs/how-to/gateway/nginx.md")).unwrap();
    page.write_files(&nginx);
    page.serve("limits.toml");
    page.run();
}

#[test]
fn envoy_limits_answer_as_page_shows() {
    let mut page = Page::open("how-to/gateway/envoy.md");
    let limits = repository().join("examples/proxies/envoy-limits.yaml");
    page.serve(limits.to_str().unwrap());
    page.run();
}

#[test]
fn reservation_is_committed_as_page_shows() {
    let mut page = Page::open("how-to/gateway/reserve.md");
    page.serve("llm.yaml");
    page.run();
}

#[test]
fn proxy_limits_as_its_page_shows() {
    let mut page = Page::open("how-to/gateway/proxy.md");
    let started = page.start(&["proxy", "limits.toml", "--upstream", &upstream(), "--listen", "127.0.0.1:0"]);
    page.is_at("localhost:8080", started["proxy"].as_str().unwrap());
    page.run();
}

#[test]
fn log_is_simulated_as_its_page_shows() {
    Page::open("how-to/operate/quota.md").run();
}

#[test]
fn rules_are_checked_as_their_page_shows() {
    Page::open("how-to/operate/rules.md").run();
}

#[test]
fn descriptor_file_is_checked_as_shown() {
    Page::open("reference/envoy.md").run();
}

#[test]
fn rules_are_pushed_as_their_page_shows() {
    let redis = RedisServer::start().unwrap();
    let mut page = Page::open("how-to/operate/fleet.md");
    page.is_at("redis://127.0.0.1:6379", &redis.admin_url());
    page.run();
}

#[test]
fn metrics_are_as_their_page_shows() {
    let mut page = Page::open("how-to/operate/alerts.md");
    page.folder.write("limits.toml", "[policy.all]\nstrategy = 'gcra'\nquota = '1/s'\nkey = 'client_ip'\n");
    page.serve("limits.toml");
    page.run();
}

#[test]
fn operators_intervene_as_their_page_shows() {
    let mut page = Page::open("how-to/operate/admin.md");
    page.serve_with("limits.toml", &["--admin", "127.0.0.1:0"]);
    page.run();
}

/// Makes the users of `docs/how-to/operate/redis.md`, of its configuration and of its lines for the prompt.
fn make_users(page: &Page, redis: &RedisServer) {
    let configuration = fs::read_to_string(page.folder.path("redis.conf")).unwrap();
    let users = configuration.lines().filter_map(|line| line.strip_prefix("user limits "));
    let users: Vec<_> = users.map(|rights| format!("limits {rights}")).collect();
    let prompt: Vec<_> = page.text.lines().filter_map(|line| line.strip_prefix("ACL SETUSER ")).collect();
    assert_eq!((users.len(), prompt.len()), (1, 2));
    for rights in users.iter().map(String::as_str).chain(prompt) {
        redis.cli(&[&["ACL", "SETUSER"], &rights.split(' ').collect::<Vec<_>>()[..]].concat()).unwrap();
    }
    for line in configuration.lines().filter(|line| line.starts_with("maxmemory")) {
        redis.cli(&[&["CONFIG", "SET"], &line.split(' ').collect::<Vec<_>>()[..]].concat()).unwrap();
    }
}

#[test]
fn users_of_redis_page_have_enough_rights() {
    let redis = RedisServer::start().unwrap();
    let mut page = Page::open("how-to/operate/redis.md");
    make_users(&page, &redis);
    let (_, url) = page.text.split_once("PORTCULLIS_STORE='redis://").unwrap();
    let user = url.split('@').next().unwrap().to_owned();
    let store = |user: &str| format!("redis://{user}@127.0.0.1:{}", redis.port());
    let store_of_limits = store(&user);
    page.folder.write("limits.toml", "[policy.all]\nstrategy = 'gcra'\nquota = '1/h'\nkey = 'client_ip'\n");
    page.serve_with("limits.toml", &["--store", &store_of_limits]);
    let end = Instant::now() + Duration::from_secs(30);
    while !page.printed("curl -s localhost:8080/readyz").contains("\"ready\":true") {
        assert!(Instant::now() < end, "the service does not reach its store");
        sleep(Duration::from_millis(50));
    }
    let call = r#"curl -s -o /dev/null -w '%{http_code} ' localhost:8080/json --json '{"domain": "shop", "descriptors":
        [{"entries": [{"key": "remote_address", "value": "192.0.2.1"}]}]}'"#;
    assert_eq!(page.printed(&format!("{call}; {call}")), "200 429");

    page.folder.write("changes.toml", "[policy.all]\nlimit = 2\n");
    let push = |user: &str| format!("portcullis rules push changes.toml --key key --store {}", store(user));
    assert_eq!(page.printed("portcullis rules keygen key > key.pub"), "");
    assert_eq!(page.printed(&push(&user)), "", "a service of limits cannot push");
    assert_eq!(page.printed(&push("pusher:password")), "portcullis-rules has number 1");
    let show = "portcullis rules show --verify-key $(cat key.pub) --store";
    let shown = page.printed(&format!("{show} {store_of_limits}"));
    assert!(shown.starts_with("number 1\n"), "{shown}");
}

#[test]
fn unit_of_systemd_is_valid() {
    let page = Page::open("how-to/operate/deploy.md");
    assert!(page.text.contains("\n```ini\n{{#include ../../systemd/portcullis.service}}\n```\n"));
    let unit = fs::read_to_string(repository().join("docs/systemd/portcullis.service")).unwrap();
    // The program has to exist.
    let unit = unit.replace("/usr/local/bin/portcullis", env!("CARGO_BIN_EXE_portcullis"));
    let file = page.folder.write("portcullis.service", &unit);
    let verified = Command::new("systemd-analyze").args(["verify", "--man=no", &file]).output();
    let Ok(verified) = verified else {
        println!("systemd-analyze is not installed");
        return;
    };
    let error = String::from_utf8_lossy(&verified.stderr);
    let of_unit: Vec<_> = error.lines().filter(|line| line.contains("portcullis.service")).collect();
    assert!(verified.status.success() && of_unit.is_empty(), "{error}");
}
