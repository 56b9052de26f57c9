//! `portcullis proxy` as a process.

mod documents;

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use portcullis_servers::RedisServer;
use serde_json::Value;

use crate::rules::{Folder, portcullis};

/// One request. The window ends in 2069, and so in no test.
const RULES: &str = "[policy.all]\nstrategy = 'fixed_window'\nquota = '1/18250d'\nkey = 'client_ip'\n";

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    command.env_remove("PORTCULLIS_STORE").env_remove("PORTCULLIS_ADMIN_TOKEN");
    command.arg("proxy").args(arguments);
    command
}

/// An upstream that answers each connection with the head of its request. Returns its URL.
pub(crate) fn upstream() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = String::new();
            let mut lines = BufReader::new(stream.try_clone().unwrap());
            while !head.ends_with("\r\n\r\n") && lines.read_line(&mut head).unwrap() > 0 {}
            let length = head.len();
            let answer =
                format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{head}");
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    url
}

struct Proxy {
    process: Child,
    addr: String,
    started: Value,
}

impl Proxy {
    fn start(arguments: &[&str]) -> Self {
        Self::start_with_log(arguments, Stdio::inherit())
    }

    fn start_with_log(arguments: &[&str], log: impl Into<Stdio>) -> Self {
        let mut command = command(arguments);
        command.args(["--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).stderr(log);
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let started: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let addr = started["proxy"].as_str().unwrap().to_owned();
        Self { process, addr, started }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.addr).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    /// A page of the status.
    fn page(&self, path: &str) -> String {
        self.page_at("status", path, "localhost")
    }

    fn page_at(&self, listener: &str, path: &str, host: &str) -> String {
        let mut stream = TcpStream::connect(self.started[listener].as_str().unwrap()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        page
    }

    #[cfg(unix)]
    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.process.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    fn get(&self, fields: &str) -> String {
        let mut stream = self.connect();
        write!(stream, "GET / HTTP/1.1\r\nhost: shop.example\r\nconnection: close\r\n{fields}\r\n").unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_proxy_limits_an_upstream_and_ends_at_a_signal() {
    let folder = Folder::new("proxy-limits");
    let (rules, upstream) = (folder.write("limits.toml", RULES), upstream());
    let mut proxy = Proxy::start(&[&rules, "--upstream", &upstream, "--host", "upstream"]);
    let admitted = proxy.get("");
    assert!(admitted.starts_with("HTTP/1.1 200 OK\r\n"), "{admitted}");
    let host = upstream.strip_prefix("http://").unwrap();
    assert!(admitted.contains(&format!("\r\nhost: {host}\r\n")), "{admitted}");
    assert!(proxy.get("").starts_with("HTTP/1.1 429 "));
    #[cfg(unix)]
    {
        proxy.signal("TERM");
        assert_eq!(proxy.process.wait().unwrap().code(), Some(0));
    }
}

/// One flag for both: the client that the rules charge is the client that the upstream sees.
#[test]
fn trusted_proxies_name_the_client() {
    let folder = Folder::new("proxy-trust");
    let (rules, upstream) = (folder.write("limits.toml", RULES), upstream());
    let proxy = Proxy::start(&[&rules, "--upstream", &upstream, "--trust", "127.0.0.0/8"]);
    for client in ["192.0.2.1", "192.0.2.2"] {
        let seen = proxy.get(&format!("x-forwarded-for: {client}\r\n"));
        assert!(seen.contains(&format!("\r\nx-forwarded-for: {client}, 127.0.0.1\r\n")), "{seen}");
    }
    assert!(proxy.get("x-forwarded-for: 192.0.2.1\r\n").starts_with("HTTP/1.1 429 "));
}

/// Probes and Prometheus are answered while all places of the proxy are taken, and until it has ended.
#[cfg(unix)]
#[test]
fn status_has_places_of_its_own() {
    let folder = Folder::new("proxy-status");
    let (rules, upstream) = (folder.write("limits.toml", RULES), upstream());
    let mut proxy = Proxy::start(&[
        &*rules,
        "--upstream",
        &upstream,
        "--max-connections",
        "1",
        "--status",
        "127.0.0.1:0",
    ]);
    let mut held = proxy.connect();
    write!(held, "POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 1\r\n\r\n").unwrap();
    let mut answer = [0; 25];
    held.read_exact(&mut answer).unwrap();
    assert_eq!(answer, *b"HTTP/1.1 100 Continue\r\n\r\n");
    assert!(proxy.page("/healthz").ends_with("\r\n\r\nok\n"));
    assert!(proxy.page("/readyz").starts_with("HTTP/1.1 200 "));
    let metrics = proxy.page("/metrics");
    assert!(metrics.contains("portcullis_decisions_total{"), "{metrics}");
    proxy.signal("TERM");
    let start = Instant::now();
    while !proxy.page("/readyz").starts_with("HTTP/1.1 503 ") {
        assert!(start.elapsed() < Duration::from_secs(30));
    }
    assert!(proxy.page("/readyz").contains("draining"));
    held.write_all(b"x").unwrap();
    let mut rest = String::new();
    held.read_to_string(&mut rest).unwrap();
    assert!(rest.starts_with("HTTP/1.1 200 "), "{rest}");
    assert_eq!(proxy.process.wait().unwrap().code(), Some(0));
}

#[test]
fn operator_changes_proxy_by_admin_api() {
    let folder = Folder::new("proxy-admin");
    let plain = RULES.replace("policy.all", "policy.plain").replace("1/", "100/");
    let text = format!("{RULES}overrides = true\n{plain}");
    let (rules, upstream) = (folder.write("limits.toml", &text), upstream());
    let short = folder.write("short", "fifteen-letters\n");
    let target = [&*rules, "--upstream", &*upstream, "--listen", "127.0.0.1:0"];
    for (flags, code, texts) in [
        (&["--admin", "127.0.0.1:0"][..], 2, ["PORTCULLIS_ADMIN_TOKEN", "--admin-token-file FILE"]),
        (
            &["--admin", "127.0.0.1:0", "--admin-token-file", &short],
            2,
            ["short", "the token has 15 characters"],
        ),
        (&["--admin-host", "limits.internal"], 2, ["--admin <ADDRESS>", "required"]),
    ] {
        let output = command(&[&target, flags].concat()).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{flags:?}: {error}");
        assert!(texts.iter().all(|text| error.contains(text)), "{flags:?}: {error}");
    }
    let token = folder.write("token", "sixteen-letters-\n");
    let admin = ["--admin", "0.0.0.0:0", "--admin-token-file", &*token];
    let output = command(&[&target[..], &admin].concat()).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("reachable from other machines"), "{error}");
    assert!(error.ends_with(" by --allow-unauthenticated admin\n"), "{error}");
    let exposed = [&*rules, "--upstream", &upstream, "--allow-unauthenticated", "admin"];
    assert!(Proxy::start(&[&exposed[..], &admin].concat()).started["admin"].is_string());

    let admin = ["--admin", "127.0.0.1:0", "--admin-token-file", &*token, "--admin-host", "limits.internal"];
    let proxy = Proxy::start(&[&[&*rules, "--upstream", &upstream][..], &admin].concat());
    // The live page is at its root, and the API needs the token.
    let page = |host| proxy.page_at("admin", "/", host);
    assert!(page("limits.internal").contains("<!doctype html>"));
    assert!(page("localhost").starts_with("HTTP/1.1 421 "));
    let proxy = Proxy::start(&[&[&*rules, "--upstream", &upstream][..], &admin[..4]].concat());
    assert!(proxy.page_at("admin", "/v1/policies", "localhost").starts_with("HTTP/1.1 401 "));
    let url = format!("http://{}", proxy.started["admin"].as_str().unwrap());
    let shown = |arguments: &[&str]| {
        let arguments = [&["admin", &url, "--token-file", &token], arguments].concat();
        let (code, out, error) = portcullis(&arguments);
        assert_eq!((code, error.as_str()), (0, ""), "{arguments:?}");
        out
    };
    let refused = |arguments: &[&str], text: &str| {
        let arguments = [&["admin", &url, "--token-file", &token], arguments].concat();
        let (code, out, error) = portcullis(&arguments);
        assert!(code == 1 && out.is_empty() && error.contains(text), "{arguments:?}: {out}{error}");
    };
    let block = ["block", "--for", "1h", "--request", "GET /"];
    let cure =
        "allow them (`overrides = true` in rules, `Policy::allow_overrides` in code), or give it a lock-out";
    refused(&[&block[..], &["--policy", "plain", "--peer", "127.0.0.1"]].concat(), cure);
    refused(&[&block[..], &["--policy", "all"]].concat(), "identity.request.peer: is missing");
    let of = ["--policy", "all", "--request", "GET /", "--peer", "127.0.0.1"];
    assert!(proxy.get("").starts_with("HTTP/1.1 200 ") && proxy.get("").starts_with("HTTP/1.1 429 "));
    let budget = shown(&[&["budget"][..], &of].concat());
    assert!(budget.contains("remaining       0\n"), "{budget}");
    let top = shown(&["top"]);
    assert!(
        top.lines().any(|line| line.starts_with("all ") && line.ends_with("  2         1      0")),
        "{top}"
    );
    shown(&[&["reset"][..], &of].concat());
    assert!(proxy.get("").starts_with("HTTP/1.1 200 "));
    shown(&["quota", "all", "9/18250d"]);
    assert!(proxy.get("").starts_with("HTTP/1.1 200 "));
    shown(&[&["block", "--for", "1h"][..], &of].concat());
    assert!(proxy.get("").starts_with("HTTP/1.1 429 "));
    shown(&["unblock", "--policy", "all", "--request", "GET /", "--peer", "127.0.0.1"]);
    assert!(proxy.get("").starts_with("HTTP/1.1 200 "));
}

/// What only fills the log must not take the instance out of a load balancer.
#[test]
fn proxy_is_ready_with_refused_rules() {
    let folder = Folder::new("proxy-refused");
    let (rules, upstream) = (folder.write("limits.toml", RULES), upstream());
    let proxy = Proxy::start(&[&rules, "--upstream", &upstream, "--status", "127.0.0.1:0"]);
    assert!(proxy.page("/readyz").ends_with("\"rules_refused\":false}\n"));
    folder.write("limits.toml", &RULES.replacen('\'', "", 1));
    let start = Instant::now();
    while !proxy.page("/readyz").contains("\"rules_refused\":true") {
        assert!(start.elapsed() < Duration::from_secs(30));
        thread::sleep(Duration::from_millis(20));
    }
    assert!(proxy.page("/readyz").starts_with("HTTP/1.1 200 "));
    assert!(proxy.page("/metrics").contains("portcullis_rules_reloads_total{outcome=\"rejected\"} "));
}

#[test]
fn proxy_without_store_is_ready_by_flag() {
    let mut redis = RedisServer::start().unwrap();
    redis.kill().unwrap();
    let folder = Folder::new("proxy-store");
    let (rules, upstream, url) = (folder.write("limits.toml", RULES), upstream(), redis.url());
    let arguments = [&*rules, "--upstream", &upstream, "--store", &url, "--status", "127.0.0.1:0"];
    let page = Proxy::start(&arguments).page("/readyz");
    assert!(page.starts_with("HTTP/1.1 503 ") && page.contains("\"store_unreachable\""), "{page}");
    let proxy = Proxy::start(&[&arguments[..], &["--ready-without-store"]].concat());
    assert!(proxy.page("/readyz").starts_with("HTTP/1.1 200 "));
    assert!(proxy.get("").starts_with("HTTP/1.1 200 "), "the failure mode decides");
}

#[cfg(unix)]
#[test]
fn proxy_takes_requests_while_it_is_not_ready() {
    let folder = Folder::new("proxy-delay");
    let (rules, upstream) = (folder.write("limits.toml", RULES), upstream());
    let flags = ["--status", "127.0.0.1:0", "--http-host", "proxy.internal", "--ready-delay", "1h"];
    let mut proxy = Proxy::start(&[&[&*rules, "--upstream", &upstream][..], &flags].concat());
    assert!(proxy.page_at("status", "/readyz", "proxy.internal").starts_with("HTTP/1.1 200 "));
    assert!(proxy.page_at("status", "/readyz", "other.internal").contains("--http-host"));
    proxy.signal("TERM");
    let start = Instant::now();
    while !proxy.page("/readyz").starts_with("HTTP/1.1 503 ") {
        assert!(start.elapsed() < Duration::from_secs(30));
    }
    assert!(proxy.get("").starts_with("HTTP/1.1 200 "));
    proxy.signal("TERM");
    assert_eq!(proxy.process.wait().unwrap().code(), Some(1), "the second signal ends it");
}

#[test]
fn start_says_who_the_client_is() {
    let folder = Folder::new("proxy-client");
    let (rules, log) = (folder.write("limits.toml", RULES), folder.path("log"));
    for (flags, client, is_warned) in
        [(&[][..], "peer", true), (&["--trust", "10.0.0.0/8"], "x-forwarded-for", false)]
    {
        let arguments = [&[&*rules, "--upstream", "http://127.0.0.1:1"], flags].concat();
        let proxy = Proxy::start_with_log(&arguments, File::create(&log).unwrap());
        assert_eq!(proxy.started["client"], client);
        // It is written before the line that was read.
        let log = fs::read_to_string(&log).unwrap();
        assert_eq!(log.contains("no proxy is named, so the peer is the client"), is_warned, "{log}");
    }
}

/// What a reload to rules that no request could meet must not do: answer each request with 400.
#[cfg(unix)]
#[test]
fn refused_reload_keeps_rules_of_proxy() {
    let folder = Folder::new("proxy-reload");
    let (rules, log) = (folder.write("limits.toml", RULES), folder.path("log"));
    let upstream = upstream();
    let proxy = Proxy::start_with_log(&[&rules, "--upstream", &upstream], File::create(&log).unwrap());
    folder.write(
        "limits.toml",
        &format!("[layer]\nexcept = {{ route = '/health' }}\n{RULES}cost = {{ function = 'size' }}\n\
                  [policy.routes]\nstrategy = 'gcra'\nquota = '9/s'\nkey = {{ all = ['client_ip', 'route'] }}\ntiers = {{ pro = '20/s' }}\n"),
    );
    proxy.signal("HUP");
    let start = Instant::now();
    let fields =
        ["layer.except.route", "policy.all.cost.function", "policy.routes.key", "policy.routes.tiers"];
    loop {
        let log = fs::read_to_string(&log).unwrap();
        let is_refused = |field: &&str| log.lines().any(|line| line.contains(&format!(" error: {field}")));
        if fields.iter().all(is_refused) {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "{log}");
        thread::sleep(Duration::from_millis(20));
    }
    assert!(proxy.get("").starts_with("HTTP/1.1 200 "));
    assert!(proxy.get("").starts_with("HTTP/1.1 429 "));
}

#[test]
fn silent_grpc_is_allowed_by_flag() {
    let folder = Folder::new("proxy-silent");
    let (rules, upstream) = (folder.write("limits.toml", RULES), upstream());
    let proxy = Proxy::start(&[&rules, "--upstream", &upstream, "--allow-silent-grpc"]);
    assert!(proxy.get("").starts_with("HTTP/1.1 200 "));
}

#[test]
fn mistakes_end_the_start_with_an_exit_code() {
    let folder = Folder::new("proxy-mistakes");
    let rules = folder.write("limits.toml", RULES);
    let table = "[client_ip]\nheader = 'x-forwarded-for'\ntrusted_proxies = ['10.0.0.0/8']\n";
    let twice = folder.write("twice.toml", &format!("{RULES}{table}"));
    let route = folder.write("route.toml", &RULES.replace("'client_ip'", "{ all = ['client_ip', 'route'] }"));
    let missing = folder.path("missing.toml");
    for (arguments, code, text) in [
        (vec![&*rules, "--upstream", "http://a/b"], 2, "it has a path"),
        (vec![&*rules, "--upstream", "http://a", "--host", "a/b"], 2, "is not a host"),
        (vec![&*rules, "--upstream", "http://a", "--trust", "10.0.0.1/8"], 2, "10.0.0.0/8"),
        (vec![&*rules], 2, "--upstream"),
        (vec![&*missing, "--upstream", "http://a"], 1, "missing.toml"),
        (vec![&*route, "--upstream", "http://a"], 1, "`key` needs the route"),
        (vec![&*twice, "--upstream", "http://a", "--trust", "10.0.0.0/8"], 1, "client_ip"),
    ] {
        let output = command(&arguments).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.contains(text), "{arguments:?}: {error}");
    }
}
