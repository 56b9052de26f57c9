//! `portcullis admin` as a process, against servers that lie. The package `tests` has those against the real API.

use std::io::{BufRead as _, BufReader, Read as _, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use crate::rules::Folder;

const TOKEN: &str = "s3cret-token";

/// Answers every connection in the same way, and keeps what was sent.
struct Server {
    url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// `answer` writes a whole response.
    fn start(answer: impl Fn(&mut TcpStream) -> std::io::Result<()> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&requests);
        // The thread ends with the process.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                kept.lock().unwrap().push(request(&stream));
                // A client that has enough closes the connection.
                let _ = answer(&mut stream);
            }
        });
        Self { url, requests }
    }

    fn answering(status: &'static str, headers: &'static str, body: impl Into<String>) -> Self {
        let body = body.into();
        Self::start(move |stream| {
            let length = body.len();
            write!(
                stream,
                "HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{headers}connection: close\r\n\r\n{body}"
            )
        })
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// The head of a request in lower case, and its body.
fn request(stream: &TcpStream) -> String {
    let mut reader = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
        head.push_str(&lower);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    head + &String::from_utf8(body).unwrap()
}

/// The exit code, and what is written to standard output and standard error. No output may have the token.
fn admin(arguments: &[&str]) -> (i32, String, String) {
    run(Command::new(env!("CARGO_BIN_EXE_portcullis")).env("PORTCULLIS_ADMIN_TOKEN", TOKEN), arguments)
}

fn run(command: &mut Command, arguments: &[&str]) -> (i32, String, String) {
    let output = command.arg("admin").args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (out, error) = (text(output.stdout), text(output.stderr));
    assert!(!out.contains(TOKEN) && !error.contains(TOKEN), "{out} {error}");
    (output.status.code().unwrap(), out, error)
}

#[test]
fn a_list_is_a_table_or_json() {
    let top = json!([{ "policy": "search", "fingerprint": "0f".repeat(16), "requests": 7, "rejected": 2, "error": 0 }]);
    let server = Server::answering("200 OK", "", json!({ "top": top, "recent": [] }).to_string());
    let (code, out, error) = admin(&[&server.url, "top"]);
    assert_eq!((code, error.as_str()), (0, ""));
    assert!(out.starts_with("policy") && out.contains("0f0f") && out.lines().count() == 2, "{out}");
    let (code, out, _) = admin(&[&server.url, "top", "--json"]);
    assert_eq!((code, serde_json::from_str::<Value>(&out).unwrap()), (0, top));
    assert_eq!(admin(&[&server.url, "recent"]), (0, "none\n".to_owned(), String::new()));
    let (code, _, error) = admin(&[&server.url, "limited"]);
    assert!(code == 2 && error.contains("no `limited_now`: is the server of another version?"), "{error}");
    let head = &server.requests()[0];
    assert!(head.starts_with("get /v1/snapshot http/1.1"), "{head}");
    assert!(head.contains(&format!("authorization: bearer {TOKEN}")), "{head}");
    assert!(!head.contains("origin:") && !head.contains("sec-fetch"), "{head}");
}

#[test]
fn changes_have_the_body_of_the_api() {
    let server = Server::answering("200 OK", "", "");
    let fingerprint = "0F".repeat(16);
    let of = ["--policy", "search", "--fingerprint", &fingerprint];
    let by_request = [
        "--policy",
        "search",
        "--request",
        "GET https://shop.example/search?q=x",
        "-H",
        "X-Api-Key: k",
        "--peer",
        "192.0.2.1",
    ];
    let identity = json!({ "fingerprint": "0f".repeat(16) });
    let request = json!({ "request": { "method": "GET", "path": "/search?q=x", "peer": "192.0.2.1",
        "headers": { "x-api-key": "k", "host": "shop.example" } } });
    let body = |identity: &Value, more: &[(&str, Value)]| {
        let mut body = json!({ "policy": "search", "identity": identity });
        for (name, value) in more {
            body[*name] = value.clone();
        }
        body
    };
    let hour = ("duration_seconds", json!(3_600));
    let cases: [(&[&str], &[&str], &str, Value); 9] = [
        (&["budget"], &of, "budget", body(&identity, &[])),
        (&["budget"], &by_request, "budget", body(&request, &[])),
        (&["reset"], &of, "reset", body(&identity, &[])),
        (
            &["grant", "--quota", "100/min burst 20", "--for", "1h"],
            &of,
            "grant",
            body(&identity, &[("quota", json!("100/min burst 20")), hour.clone()]),
        ),
        (&["revoke"], &of, "revoke", body(&identity, &[])),
        (&["block", "--for", "60m"], &of, "block", body(&identity, &[hour])),
        (&["unblock"], &of, "unblock", body(&identity, &[])),
        (&["overrides"], &of, "overrides", body(&identity, &[])),
        (&["mode", "search", "shadow"], &[], "mode", json!({ "policy": "search", "mode": "shadow" })),
    ];
    for (index, (command, rest, path, expected)) in cases.iter().enumerate() {
        let answer = admin(&[&[server.url.as_str()], *command, *rest].concat());
        assert_eq!(answer, (0, "done\n".to_owned(), String::new()), "{command:?}");
        let sent = server.requests()[index].clone();
        assert!(sent.starts_with(&format!("post /v1/{path} http/1.1")), "{sent}");
        assert!(sent.contains("content-type: application/json"), "{sent}");
        let body = sent.lines().last().unwrap();
        assert_eq!(serde_json::from_str::<Value>(body).unwrap(), *expected, "{command:?}");
    }
}

#[test]
fn invalid_arguments_are_refused_before_anything_is_sent() {
    let server = Server::answering("200 OK", "", "");
    let fingerprint = "0f".repeat(16);
    for arguments in [
        &["budget"][..],
        &["budget", "--policy", "search"],
        &["budget", "--policy", "search", "--fingerprint", "0f"],
        &["budget", "--policy", "search", "--fingerprint", &fingerprint, "--request", "GET /"],
        &["budget", "--policy", "search", "--fingerprint", &fingerprint, "--peer", "192.0.2.1"],
        &["budget", "--policy", "search", "--request", "GET /", "-H", "a: 1", "-H", "a: 2"],
        &["budget", "--policy", "sch\nön", "--fingerprint", &fingerprint],
        &["grant", "--policy", "search", "--fingerprint", &fingerprint, "--quota", "many", "--for", "1h"],
        &["block", "--policy", "search", "--fingerprint", &fingerprint, "--for", "100ms"],
        &["block", "--policy", "search", "--fingerprint", &fingerprint],
        &["mode", "search", "on"],
        &["mode", "search", "101%"],
        &["watch", "--every", "0"],
        &["top", "--token", TOKEN],
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_portcullis"))
            .env("PORTCULLIS_ADMIN_TOKEN", TOKEN)
            .args([&["admin", &server.url], arguments].concat())
            .output();
        assert_eq!(output.unwrap().status.code(), Some(2), "{arguments:?}");
    }
    assert_eq!(server.requests(), [""; 0]);
}

#[test]
fn a_token_comes_from_the_environment_or_a_file() {
    let (server, folder) = (Server::answering("200 OK", "", "[]"), Folder::new("admin-token"));
    let mut without = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    let (code, _, error) = run(without.env_remove("PORTCULLIS_ADMIN_TOKEN"), &[&server.url, "layers"]);
    assert!(code == 2 && error.contains("set PORTCULLIS_ADMIN_TOKEN, or give --token-file FILE"), "{error}");
    let file = folder.write("token", &format!("{TOKEN}\n"));
    let mut by_file = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    let by_file = by_file.env_remove("PORTCULLIS_ADMIN_TOKEN");
    assert_eq!(run(by_file, &[&server.url, "layers", "--token-file", &file]).0, 0);
    for (name, text) in [("empty", "\n"), ("two", "s3cret token"), ("long", &"a".repeat(10_000))] {
        let (code, _, error) = admin(&[&server.url, "layers", "--token-file", &folder.write(name, text)]);
        assert!(code == 2 && error.contains(name) && error.contains("token"), "{error}");
    }
    assert_eq!(admin(&[&server.url, "layers", "--token-file", &folder.path("missing")]).0, 2);
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_token_goes_to_no_other_place() {
    let other = Server::answering("200 OK", "", "[]");
    for status in ["301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let location: &'static str = format!("location: {}/v1/layers\r\n", other.url).leak();
        let server = Server::answering(status, location, "");
        for arguments in [&["layers"][..], &["mode", "search", "off"]] {
            let (code, out, error) = admin(&[&[server.url.as_str()], arguments].concat());
            assert_eq!((code, out.as_str()), (2, ""), "{error}");
            assert!(error.contains(&format!("redirects to {}", other.url)), "{error}");
        }
    }
    assert_eq!(other.requests(), [""; 0]);

    // Not over an open network, and not to a proxy.
    let (code, _, error) = admin(&["http://192.0.2.1:9090", "layers"]);
    assert!(code == 2 && error.contains("use https, or --plain-http"), "{error}");
    let (code, _, error) = admin(&["http://u:p@127.0.0.1", "layers"]);
    assert!(code == 2 && error.contains("leave out the user and the password"), "{error}");
    let server = Server::answering("200 OK", "", "[]");
    let mut proxied = Command::new(env!("CARGO_BIN_EXE_portcullis"));
    for variable in ["http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"] {
        proxied.env(variable, &other.url);
    }
    assert_eq!(run(proxied.env("PORTCULLIS_ADMIN_TOKEN", TOKEN), &[&server.url, "layers"]).0, 0);
    assert_eq!((other.requests().len(), server.requests().len()), (0, 1));
}

#[test]
fn a_refusal_exits_with_1_and_names_the_fix() {
    let problem =
        json!({ "status": 401, "title": "Unauthorized", "detail": "no valid \u{1b}[31mtoken" }).to_string();
    for (status, body, fix) in [
        ("401 Unauthorized", problem.as_str(), "set PORTCULLIS_ADMIN_TOKEN"),
        ("403 Forbidden", "<h1>no</h1>", "a token that may do this"),
        ("404 Not Found", "", "check that the admin router is at this URL"),
        (
            "422 Unprocessable Entity",
            r#"{"detail":"no such policy","policies":["search"]}"#,
            "no such policy; the policies are search",
        ),
        ("503 Service Unavailable", "{}", "try again later"),
    ] {
        let server = Server::answering(status, "", body);
        let (code, out, error) = admin(&[&server.url, "policies"]);
        assert_eq!((code, out.as_str()), (1, ""), "{error}");
        assert!(
            error.starts_with(&format!("portcullis: {}/v1/policies answered {status}", server.url)),
            "{error}"
        );
        assert!(error.contains(fix) && !error.contains('\u{1b}'), "{error}");
    }
}

#[test]
fn what_is_no_answer_exits_with_2() {
    for (body, expected) in
        [("<html>", "without JSON"), ("{\"top\":", "without JSON"), (&"[".repeat(100_000), "without JSON")]
    {
        let server = Server::answering("200 OK", "", body);
        let (code, out, error) = admin(&[&server.url, "layers"]);
        assert!(code == 2 && out.is_empty() && error.contains(expected), "{error}");
    }
    let garbage = Server::start(|stream| stream.write_all(b"\0\x01SSH-2.0-x\r\n\r\n"));
    let (code, _, error) = admin(&[&garbage.url, "layers"]);
    assert!(code == 2 && error.contains("is it the admin API?"), "{error}");
    let closed = Server::start(|_| Ok(()));
    assert_eq!(admin(&[&closed.url, "layers"]).0, 2);
    let (code, _, error) = admin(&["http://127.0.0.1:1", "layers"]);
    assert!(code == 2 && error.contains("is the service running"), "{error}");
}

#[test]
fn an_answer_is_read_up_to_16_mib() {
    let endless = |head: &'static str, part: Vec<u8>| {
        Server::start(move |stream| {
            stream.write_all(head.as_bytes())?;
            loop {
                stream.write_all(&part)?;
            }
        })
    };
    let mut chunk = b"10000\r\n".to_vec();
    chunk.extend(vec![b' '; 0x1_0000]);
    chunk.extend(b"\r\n");
    let chunked = endless("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", chunk);
    let stated = endless("HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n", vec![b' '; 0x1_0000]);
    let unstated = endless("HTTP/1.1 404 Not Found\r\nconnection: close\r\n\r\n", vec![b' '; 0x1_0000]);
    for server in [chunked, stated, unstated] {
        let (code, out, error) = admin(&[&server.url, "layers"]);
        assert!(code == 2 && out.is_empty() && error.contains("more than 16 MiB"), "{error}");
    }
    let head = endless("HTTP/1.1 200 OK\r\n", b"x-long: header\r\n".repeat(1_000));
    let (code, _, error) = admin(&[&head.url, "layers"]);
    assert!(code == 2 && error.contains("is it the admin API?"), "{error}");
}

#[test]
fn a_server_that_does_not_finish_is_given_up() {
    let silent = Server::start(|stream| {
        let _ = stream.read(&mut [0]);
        Ok(())
    });
    // A byte every now and then keeps no client waiting for longer.
    let slow = Server::start(|stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")?;
        loop {
            stream.write_all(b" ")?;
            thread::sleep(std::time::Duration::from_millis(100));
        }
    });
    let urls = [silent.url.clone(), slow.url.clone()];
    let answers = urls.map(|url| thread::spawn(move || admin(&[&url, "layers"])));
    for answer in answers {
        let (code, out, error) = answer.join().unwrap();
        assert!(code == 2 && out.is_empty() && error.contains("no answer within 10 s"), "{error}");
    }
}

#[test]
fn watch_shows_snapshots_until_it_has_enough() {
    let snapshot = json!({ "time": 1_700_000_000_000_u64, "policies": [{ "name": "search", "mode": "enforce", "admitted": 5,
        "rejected": 1, "would_reject": 0 }] });
    let server = Server::answering("200 OK", "", snapshot.to_string());
    let (code, out, error) = admin(&[&server.url, "watch", "--count", "1"]);
    assert_eq!((code, error.as_str()), (0, ""));
    assert!(out.starts_with("2023-11-14T22:13:20Z\n") && out.contains("search  enforce"), "{out}");
    let (code, out, _) = admin(&[&server.url, "watch", "--count", "2", "--json"]);
    assert_eq!((code, out), (0, format!("{snapshot}\n{snapshot}\n")));
    let gone = Server::answering("403 Forbidden", "", "");
    assert_eq!(admin(&[&gone.url, "watch"]).0, 1);
    assert_eq!(admin(&["http://127.0.0.1:1", "watch"]).0, 2);
}
