//! Clients that `portcullis admin` and the API name by the parts of their keys, under rules from files.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use axum::Router;
use axum::routing::get;
use portcullis::Limiter;
use portcullis::admin::{Actor, Refused};
use portcullis::rules::{Format, Loader, Rules};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::spawn_blocking;

/// A service that is limited by rules, with its admin API below `/limits`.
struct Service {
    url: String,
}

impl Service {
    /// With one policy `p` for each key.
    async fn start(keys: &[&str]) -> Self {
        let mut rules = String::from(
            "[client_ip]\nheader = \"x-forwarded-for\"\ntrusted_proxies = [\"127.0.0.0/8\"]\nipv6_prefix = 56\n",
        );
        for (index, key) in keys.iter().enumerate() {
            let _ = writeln!(
                rules,
                "[policy.p{index}]\nstrategy = \"fixed_window\"\nquota = \"100/w\"\noverrides = true\nkey = {key}\non_missing = \"exempt\""
            );
        }
        let rules = Rules::load(&Loader::text("limits.toml", Format::Toml, &rules)).unwrap();
        let limiter = Limiter::memory().with_rules(rules).unwrap();
        let admin = limiter.admin(|parts: &http::request::Parts| match parts.headers.get("authorization") {
            Some(_) => Ok(Actor::new("operator")),
            None => Err(Refused::Unauthenticated),
        });
        let app = Router::new()
            .route("/channels/{channel}", get(async || "channel"))
            .route("/helloworld.Greeter/SayHello", get(async || "hello"))
            .route_layer(limiter.rules().unwrap().layer())
            .nest("/limits", admin.into_router());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let app = app.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url }
    }

    /// The status of a request of the client that the examples of the page name.
    async fn request(&self, path: &str, address: &'static str) -> u16 {
        let url = format!("{}{path}?email=ada%40example.com", self.url);
        let send = move || {
            let config = ureq::Agent::config_builder().http_status_as_error(false).build();
            let agent: ureq::Agent = config.into();
            let request = agent.get(&url).header("x-forwarded-for", address).header("x-user", "ada");
            let request = request.header("x-consumer", "acme").header("cookie", "sid=31d4");
            let request =
                request.header("authorization", "Bearer abc.def").header("host", "api.example.com:80");
            request.call().unwrap().status().as_u16()
        };
        spawn_blocking(send).await.unwrap()
    }

    async fn admin(&self, input: &'static str, arguments: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
        command.env("PORTCULLIS_ADMIN_TOKEN", "token").args(["admin", &format!("{}/limits", self.url)]);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let run = move || -> std::io::Result<Output> {
            let mut child = command.spawn()?;
            std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes())?;
            child.wait_with_output()
        };
        let output = spawn_blocking(run).await.unwrap().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    async fn json(&self, arguments: &[&str]) -> Value {
        let (code, out, error) = self.admin("", &[arguments, &["--json"]].concat()).await;
        assert_eq!(code, 0, "{arguments:?}: {error}");
        serde_json::from_str(&out).unwrap()
    }
}

/// The keys of a row of the page, and its parts.
fn rows() -> Vec<(Vec<String>, Vec<String>)> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/admin.md");
    let page = std::fs::read_to_string(page).unwrap();
    let section = page.split("\n## Names of parts\n").nth(1).expect("the page has the section");
    let quoted = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let rows =
        section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let rows: Vec<_> =
        rows.skip(2).map(|row| row.trim_matches('|').split('|').map(quoted).collect::<Vec<_>>()).collect();
    rows.into_iter().map(|cells| (cells[0].clone(), cells[1].clone())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn documented_names_are_those_of_keys_in_rules() {
    let rows = rows();
    assert_eq!(rows.len(), 16);
    for (keys, parts) in rows {
        for key in keys {
            // The peer is this machine.
            let of_peer: String = parts.join("\n").replace("203.0.113.20", "127.0.0.1");
            let parts = if key == "\"peer\"" { of_peer } else { parts.join("\n") };
            let service = Service::start(&[&key, "\"client_ip\""]).await;
            let path = if key.contains("grpc") { "/helloworld.Greeter/SayHello" } else { "/channels/7" };
            assert_eq!(service.request(path, "203.0.113.20").await, 200);
            let (code, out, error) = service
                .admin(parts.leak(), &["budget", "--policy", "p0", "--part-from-stdin", "--json"])
                .await;
            assert_eq!(code, 0, "{key}: {error}");
            let answer: Value = serde_json::from_str(&out).unwrap();
            assert_eq!((&answer["remaining"], answer.get("note")), (&json!(99), None), "{key} {answer}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn block_reaches_the_client_that_it_names() {
    let service = Service::start(&[
        "\"client_ip\"",
        "{ header = \"x-user\" }",
        "{ all = [\"client_ip\", { query = \"email\" }] }",
    ])
    .await;
    let client = "2001:db8:0:12:3::4";
    for arguments in [
        &["--policy", "p0", "--client", client][..],
        &["--policy", "p0", "--client", "2001:db8:0:ff::/56"],
        &["--policy", "p0", "--part", "ip=2001:db8:0:1::9"],
        &["--policy", "p0", "--part", "ipv6:hex=20010db800000000000000000000000038"],
        &["--policy", "p1", "--header", "x-user=ada"],
        &["--policy", "p1", "--part", "header x-user=ada"],
        &["--policy", "p2", "--part", "ip=2001:db8::1", "--part", "query email=ada@example.com"],
        &["--everywhere", "--client", client],
        &["--everywhere", "--header", "x-user=ada"],
    ] {
        assert_eq!(service.request("/channels/7", client).await, 200, "{arguments:?}");
        let block = service.json(&[&["block", "--for", "1h"], arguments].concat()).await;
        assert_eq!(block.get("note"), None, "{block}");
        assert_eq!(service.request("/channels/7", client).await, 429, "{arguments:?}");
        service.json(&[&["unblock"], arguments].concat()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_of_no_key_are_refused() {
    let service = Service::start(&["\"client_ip\"", "{ header = \"x-user\" }"]).await;
    for (arguments, expected) in [
        (&["--everywhere", "--part", "ipv4=203.0.113.20"][..], "header x-user=ada or ip=203.0.113.20"),
        (&["--everywhere", "--part", "x-user=ada"], "header x-user=ada or ip=203.0.113.20"),
        (&["--policy", "p1", "--part", "user=ada"], "header x-user=ada"),
        (&["--policy", "p0", "--part", "ipv4:hex=cb007109"], "ip=203.0.113.20"),
        (&["--policy", "p0", "--part", "ipv4:hex=cb00711418"], "ip=203.0.113.20"),
        (&["--policy", "p0", "--part", "ip=ada"], "must be an address"),
        (&["--policy", "p0", "--client", "203.0.113.0/24"], "networks of /32"),
        (&["--policy", "p0", "--client", "2001:db8::/64"], "networks of /56"),
        (&["--policy", "p0", "--header", "x-user=ada"], "ip=203.0.113.20"),
        (&["--policy", "p1", "--part", "header x-user= "], "must not be empty"),
    ] {
        for command in [&["block", "--for", "1h"][..], &["unblock"]] {
            let (code, out, error) = service.admin("", &[command, arguments].concat()).await;
            assert!(code == 1 && out.is_empty() && error.contains(expected), "{arguments:?}: {error}");
        }
        if arguments[0] == "--policy" {
            for command in ["budget", "overrides", "reset", "revoke"] {
                let (code, _, error) = service.admin("", &[&[command], arguments].concat()).await;
                assert!(code == 1 && error.contains(expected), "{command} {arguments:?}: {error}");
            }
        }
    }
    // What begins with four bytes and the prefix is the key itself.
    let (code, _, error) =
        service.admin("", &["budget", "--policy", "p0", "--part", "ipv4:hex=cb00711420"]).await;
    assert_eq!(code, 0, "{error}");
    let (code, _, error) = service.admin("ada\n", &["budget", "--policy", "p1", "--header", "x-user"]).await;
    assert_eq!(code, 0, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unseen_fingerprint_has_a_note() {
    let service = Service::start(&["\"client_ip\""]).await;
    let of = |fingerprint: &str| {
        let arguments = ["budget", "--policy", "p0", "--fingerprint", fingerprint];
        arguments.map(str::to_owned)
    };
    let budget = async |fingerprint: &str| {
        let arguments = of(fingerprint);
        service.json(&arguments.each_ref().map(String::as_str)).await
    };
    let unseen = budget(&"deadbeef".repeat(4)).await;
    assert!(unseen["note"].as_str().unwrap().contains("cannot be verified"), "{unseen}");
    assert_eq!(service.request("/channels/7", "203.0.113.20").await, 200);
    let seen = service.json(&["top"]).await[0]["fingerprint"].as_str().unwrap().to_owned();
    let budget = budget(&seen).await;
    assert_eq!((&budget["remaining"], budget.get("note")), (&json!(99), None));
}
