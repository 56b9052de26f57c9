//! `portcullis admin` as a process, against the admin API of a real server, in memory and on Redis.

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware::map_request;
use axum::routing::get;
use portcullis_admin::{Actor, Admin, Refused, has_bearer_token};
use portcullis_core::store::Store;
use portcullis_core::{Policy, Quota, Secret};
use portcullis_memory::MemoryStore;
use portcullis_redis::RedisStore;
use portcullis_servers::RedisServer;
use portcullis_tower::{Extension, Header, PolicyExt as _, RateLimitLayer, Registry};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::spawn_blocking;

const TOKEN: &str = "a-long-random-token";

/// What authentication would put into the requests of a user.
#[derive(Clone)]
struct User(String);

/// A service that limits `/search` by API key and `/me` by user, with its admin API below `/limits`.
struct Service {
    url: String,
}

impl Service {
    async fn start(store: Arc<dyn Store>) -> Self {
        Self::start_with(store, Secret::new("test", b"0123456789abcdef").unwrap()).await
    }

    async fn start_with(store: Arc<dyn Store>, secret: Secret) -> Self {
        let registry = Arc::new(Registry::new(store, secret));
        let search = Policy::fixed_window("search", Quota::per_week(2)).allow_overrides();
        let layer = RateLimitLayer::new(Arc::clone(&registry), search.by(Header::named("x-api-key")));
        let by_user = Extension::<User>::with(|user, key| key.part("user", user.0.as_bytes()));
        let calls = Policy::fixed_window("calls", Quota::per_week(2)).allow_overrides();
        let by_user = RateLimitLayer::new(Arc::clone(&registry), calls.by(by_user));
        let plain = Policy::fixed_window("plain", Quota::per_week(1_000));
        let plain = plain.by(Extension::<User>::with(|user, key| key.part("user", user.0.as_bytes())));
        let plain = RateLimitLayer::new(Arc::clone(&registry), plain);
        let admin = Admin::new(registry, |parts: &http::request::Parts| {
            if has_bearer_token(parts, TOKEN) {
                Ok(Actor::new("operator"))
            } else {
                Err(Refused::Unauthenticated)
            }
        });
        let authenticated = map_request(async |mut request: Request| {
            let user = request.headers()["x-api-key"].to_str().unwrap().to_owned();
            request.extensions_mut().insert(User(user));
            request
        });
        let me = Router::new().route("/me", get(async || "me")).route_layer(by_user);
        let by_users = Router::new().route("/plain", get(async || "plain")).route_layer(plain).merge(me);
        let by_users = by_users.route_layer(authenticated);
        let app = Router::new()
            .route("/search", get(async || "found"))
            .route_layer(layer.route("GET /search"))
            .merge(by_users)
            .nest("/limits", admin.into_router());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let app = app.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url }
    }

    /// The status of a search with an API key.
    async fn search(&self, key: &'static str) -> u16 {
        self.get("/search", key).await
    }

    async fn get(&self, path: &str, key: &'static str) -> u16 {
        let url = format!("{}{path}", self.url);
        let send = move || {
            let config = ureq::Agent::config_builder().http_status_as_error(false).build();
            let agent: ureq::Agent = config.into();
            agent.get(&url).header("x-api-key", key).call().unwrap().status().as_u16()
        };
        spawn_blocking(send).await.unwrap()
    }

    /// The exit code of the command, and what it writes to standard output and standard error.
    async fn admin(&self, token: &'static str, arguments: &[&str]) -> (i32, String, String) {
        self.admin_of("", token, arguments).await
    }

    /// Like [`admin`](Self::admin), with an input.
    async fn admin_of(
        &self,
        input: &'static str,
        token: &'static str,
        arguments: &[&str],
    ) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
        command
            .env("PORTCULLIS_ADMIN_TOKEN", token)
            .args(["admin", &format!("{}/limits", self.url)])
            .args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = spawn_blocking(move || {
            let mut child = command.spawn().unwrap();
            // A command that reads nothing may have ended.
            let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
            child.wait_with_output().unwrap()
        });
        let output = output.await.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    /// The output of a command that succeeds.
    async fn shown(&self, arguments: &[&str]) -> String {
        let (code, out, error) = self.admin(TOKEN, arguments).await;
        assert_eq!((code, error.as_str()), (0, ""), "{arguments:?} {out}");
        out
    }

    async fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.shown(&[arguments, &["--json"]].concat()).await).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_changes_a_service_in_memory() {
    let reach = "this instance, until it restarts: its store is not shared";
    an_operator_changes_a_service(Arc::new(MemoryStore::new()), reach).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_changes_a_service_on_redis() {
    let redis = RedisServer::start().unwrap();
    let store = RedisStore::builder(redis.url()).deadline(Duration::from_secs(5)).connect().await.unwrap();
    an_operator_changes_a_service(Arc::new(store), "all instances that share the store").await;
}

async fn an_operator_changes_a_service(store: Arc<dyn Store>, reach: &str) {
    let service = Service::start(store).await;
    let reached = format!("reach        {reach}\n");
    let change = async |arguments: &[&str]| {
        let shown = service.shown(arguments).await;
        assert!(shown.ends_with(&reached), "{arguments:?}: {shown}");
    };
    let policies = service.shown(&["policies"]).await;
    assert!(
        policies.contains("search") && policies.contains("enforce") && policies.contains("GET /search"),
        "{policies}"
    );
    assert!(service.shown(&["layers"]).await.contains("GET /search"));
    assert_eq!(service.shown(&["recent"]).await, "none\n");

    // One client uses up its limit. The lists name it by its fingerprint.
    for status in [200, 200, 429] {
        assert_eq!(service.search("ada").await, status);
    }
    let top = service.json(&["top"]).await;
    let fingerprint = top[0]["fingerprint"].as_str().unwrap().to_owned();
    assert_eq!((&top[0]["requests"], &top[0]["rejected"]), (&3.into(), &1.into()));
    assert!(service.shown(&["recent"]).await.contains(&fingerprint));
    assert!(service.shown(&["limited"]).await.contains(&fingerprint));
    let watched = service.shown(&["watch", "--count", "1"]).await;
    assert!(watched.contains("search  enforce         2         1"), "{watched}");

    // A request of the client finds the same key.
    let by_request = ["--policy", "search", "--request", "GET /search", "-H", "x-api-key: ada"];
    let of = ["--policy", "search", "--fingerprint", &fingerprint];
    let budget = service.json(&[&["budget"][..], &by_request].concat()).await;
    assert_eq!((&budget["fingerprint"], &budget["remaining"]), (&fingerprint.as_str().into(), &0.into()));
    let text = service.shown(&[&["budget"][..], &of].concat()).await;
    assert!(text.contains("remaining") && text.contains(&fingerprint), "{text}");

    change(&[&["reset"][..], &of].concat()).await;
    assert_eq!(service.search("ada").await, 200);

    change(&[&["block", "--for", "1h"][..], &of].concat()).await;
    assert_eq!(service.search("ada").await, 429);
    let overrides = service.json(&[&["overrides"][..], &of].concat()).await;
    assert!(overrides["block"]["until"].is_u64() && overrides["grant"].is_null(), "{overrides}");
    change(&[&["unblock"][..], &of].concat()).await;
    assert_eq!(service.search("ada").await, 200);
    assert_eq!(service.search("ada").await, 429);

    change(&[&["grant", "--quota", "5/w", "--for", "1h"][..], &by_request].concat()).await;
    assert_eq!(service.search("ada").await, 200);
    change(&[&["revoke"][..], &of].concat()).await;
    assert_eq!(service.search("ada").await, 429);

    let quota = service.shown(&["quota", "search", "7/w"]).await;
    assert_eq!(
        quota,
        "action  quota\npolicy  search\nbefore  fixed_window 2/w\nnow     fixed_window 7/w\nreach   this instance, until it restarts or its rules change\n"
    );
    assert_eq!(service.search("ada").await, 200);
    let changed = service.shown(&["mode", "search", "shadow"]).await;
    assert_eq!(
        changed,
        "action  mode\npolicy  search\nmode    shadow\nreach   this instance, until it restarts or its rules change the mode\n"
    );
    assert_eq!(service.search("ada").await, 200);
    assert!(service.shown(&["policies"]).await.contains("shadow"));
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_names_users_by_parts() {
    let service = Service::start(Arc::new(MemoryStore::new())).await;
    for status in [200, 200, 429] {
        assert_eq!(service.get("/me", "ada").await, status);
    }
    let of = ["--policy", "calls", "--part", "user=ada"];
    let budget = service.json(&[&["budget"][..], &of].concat()).await;
    let top = service.json(&["top"]).await;
    assert_eq!((&budget["remaining"], &budget["fingerprint"]), (&0.into(), &top[0]["fingerprint"]));
    service.shown(&[&["grant", "--quota", "5/w", "--for", "1h"][..], &of].concat()).await;
    assert_eq!(service.get("/me", "ada").await, 200);
    service.shown(&[&["block", "--for", "1h"][..], &of].concat()).await;
    assert_eq!((service.get("/me", "ada").await, service.get("/me", "grace").await), (429, 200));

    // An API key is in no argument and no output.
    assert_eq!(service.search("s3cret-key").await, 200);
    let input = "header=s3cret-key\nheader name=x-api-key\n";
    let by_input = ["budget", "--policy", "search", "--part-from-stdin", "--json"];
    let (code, out, error) = service.admin_of(input, TOKEN, &by_input).await;
    assert_eq!((code, error.as_str()), (0, ""));
    assert!(out.contains(r#""remaining":1"#) && !out.contains("s3cret-key"), "{out}");
    let as_argument = ["budget", "--policy", "search", "--part", "header=s3cret-key"];
    let (code, _, error) = service.admin(TOKEN, &as_argument).await;
    assert!(code == 2 && error.contains("use --part-from-stdin"), "{error}");
    let (code, _, error) = service.admin_of("s3cret-key\n", TOKEN, &by_input).await;
    assert!(code == 2 && error.contains("TAG=VALUE") && !error.contains("s3cret-key"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn block_everywhere_needs_no_overrides_in_memory() {
    let service = Service::start(Arc::new(MemoryStore::new())).await;
    block_everywhere(&service).await;
    assert!(service.shown(&["blocked"]).await.contains("until"));
    let ended = service.json(&["unblock", "--everywhere", "--part", "user=ada"]).await;
    assert_eq!(ended["action"], "unblock everywhere");
    assert_eq!(
        (service.get("/plain", "ada").await, service.shown(&["blocked"]).await.as_str()),
        (200, "none\n")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn block_everywhere_reaches_all_instances_on_redis() {
    let redis = RedisServer::start().unwrap();
    let start = async || {
        let store =
            RedisStore::builder(redis.url()).deadline(Duration::from_secs(5)).connect().await.unwrap();
        Service::start(Arc::new(store)).await
    };
    let (one, other) = (start().await, start().await);
    let answer = block_everywhere(&one).await;
    assert!(answer["reach"].as_str().unwrap().starts_with("all instances that share the store"), "{answer}");
    let is_blocked = async |service: &Service| {
        for _ in 0..600 {
            if service.get("/plain", "ada").await == 429 {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        false
    };
    assert!(is_blocked(&other).await);
    // An instance that starts reads the list as well.
    let late = start().await;
    assert!(is_blocked(&late).await && late.get("/plain", "grace").await == 200);
    assert_eq!(late.json(&["blocked"]).await[0]["fingerprint"], answer["fingerprint"]);
}

/// Blocks a user under all policies, of which one has no overrides, and returns the answer.
async fn block_everywhere(service: &Service) -> Value {
    assert_eq!((service.get("/me", "ada").await, service.get("/plain", "ada").await), (200, 200));
    let answer = service.json(&["block", "--everywhere", "--part", "user=ada", "--for", "1h"]).await;
    assert_eq!((&answer["action"], &answer["policy"]), (&"block everywhere".into(), &Value::Null));
    assert!(answer["until"].as_u64().unwrap() > 1_700_000_000_000, "{answer}");
    assert_eq!((service.get("/me", "ada").await, service.get("/plain", "ada").await), (429, 429));
    assert_eq!((service.get("/me", "grace").await, service.get("/plain", "grace").await), (200, 200));
    let budget = service.json(&["budget", "--policy", "plain", "--part", "user=ada"]).await;
    assert_eq!(budget["blocked"], true);
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn published_secret_is_explained_in_one_line() {
    let service = Service::start_with(Arc::new(MemoryStore::new()), Secret::published()).await;
    assert_eq!(service.search("ada").await, 200);
    for command in [&["top"][..], &["budget", "--policy", "calls", "--part", "user=ada"]] {
        let shown = service.shown(command).await;
        let last = shown.lines().last().unwrap();
        assert!(last.starts_with("no fingerprints: the limiter has the published secret"), "{shown}");
        assert!(!shown.contains("fingerprint  ") && !shown.contains(" -"), "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_names_what_is_wrong() {
    let service = Service::start(Arc::new(MemoryStore::new())).await;
    let (code, out, error) = service.admin("guess", &["policies"]).await;
    assert!(code == 1 && out.is_empty() && error.contains("answered 401 Unauthorized"), "{error}");
    let fingerprint = "0f".repeat(16);
    let unknown = ["budget", "--policy", "serach", "--fingerprint", &fingerprint];
    let (code, _, error) = service.admin(TOKEN, &unknown).await;
    assert!(code == 1 && error.contains("the policies are calls, plain, search"), "{error}");
    for arguments in [
        &["block", "--part", "user=a", "--for", "1h"][..],
        &["block", "--everywhere", "--policy", "calls", "--part", "user=a", "--for", "1h"],
    ] {
        let (code, _, error) = service.admin(TOKEN, arguments).await;
        assert!(code == 2 && error.contains("--policy"), "{error}");
    }
    let shared = ["block", "--everywhere", "--part", "global=", "--for", "1h"];
    let (code, _, error) = service.admin(TOKEN, &shared).await;
    assert!(code == 1 && error.contains("unrelated clients share this key"), "{error}");
    let other_period =
        ["grant", "--policy", "search", "--fingerprint", &fingerprint, "--quota", "5/min", "--for", "1h"];
    let (code, _, error) = service.admin(TOKEN, &other_period).await;
    assert!(code == 1 && error.contains("period"), "{error}");
    let no_key = ["budget", "--policy", "search", "--request", "GET /search"];
    let (code, _, error) = service.admin(TOKEN, &no_key).await;
    assert!(code == 1 && error.lines().count() <= 2, "{error}");
    let chosen_key = ["mode", "search", "10%"];
    let (code, _, error) = service.admin(TOKEN, &chosen_key).await;
    assert!(code == 1 && error.contains("mode"), "{error}");
}
