//! Plans of customers, on real servers: two instances, in memory and on Redis, and a server for gRPC.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{Request as AxumRequest, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Request, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::get;
use axum::{Extension, Router};
use portcullis::check::Limited;
use portcullis::headers::RateLimitHeaders;
use portcullis::key::{CachedLookup, Extension as ByExtension, Header, Lookup};
use portcullis::redis::RedisStore;
use portcullis::{Charge, Limit, Limiter, Policy, PolicyExt as _, Quota, RateLimitLayer, Secret};
use portcullis_memory::MemoryStore;
use portcullis_servers::RedisServer;
use portcullis_tests::HttpClient;
use tokio::net::TcpListener;
use tonic::transport::{Endpoint, Server};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::grpc::listen;
use crate::handler_checks::limiters;

const FREE: Quota = Quota::per_week(10);
const PRO: Quota = Quota::per_week(1_000);

/// A week, so that no test sees the end of one.
fn weekly() -> Policy {
    Policy::fixed_window("weekly", FREE).caller_quotas(Quota::per_week(1), PRO)
}

#[derive(Clone, Copy)]
enum Plan {
    Free,
    Pro,
    /// A contract of its own.
    Contract(u64),
}

impl Plan {
    fn weekly(self) -> Quota {
        match self {
            Self::Free => FREE,
            Self::Pro => PRO,
            Self::Contract(limit) => Quota::new(limit, FREE.period(), None).unwrap(),
        }
    }
}

#[derive(Clone)]
struct Account {
    name: String,
    plan: Plan,
}

/// The accounts, which the instances of a service share.
type Accounts = Arc<Mutex<Vec<Account>>>;

fn accounts() -> Accounts {
    let account = |name: &str, plan| Account { name: name.to_owned(), plan };
    Arc::new(Mutex::new(vec![account("ada", Plan::Free), account("acme", Plan::Pro)]))
}

fn set_plan(accounts: &Accounts, name: &str, plan: Plan) {
    let mut accounts = accounts.lock().unwrap();
    accounts.iter_mut().find(|account| account.name == name).unwrap().plan = plan;
}

fn find(accounts: &Accounts, headers: &HeaderMap) -> Option<Account> {
    let name = headers.get("x-account")?.to_str().ok()?;
    accounts.lock().unwrap().iter().find(|account| account.name == name).cloned()
}

/// Puts the account into the request.
async fn authenticate(
    State(accounts): State<Accounts>,
    mut request: AxumRequest,
    next: Next,
) -> Result<Response, StatusCode> {
    let account = find(&accounts, request.headers()).ok_or(StatusCode::UNAUTHORIZED)?;
    request.extensions_mut().insert(account);
    Ok(next.run(request).await)
}

/// Charges a report what it turns out to cost.
async fn report(charge: Charge) -> Result<String, StatusCode> {
    let charged = charge.charge_more(4).await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    Ok(charged.remaining().to_string())
}

/// Checks in the handler, under the same policy and to the same key as the layer.
async fn export(limiter: Extension<Limiter>, account: Extension<Account>) -> Result<String, Limited> {
    let weekly = weekly();
    let check = limiter.check(&weekly).by(|key| key.part("account", account.name.as_bytes()));
    let charge = check.quota(account.plan.weekly()).await?;
    Ok(charge.decision().remaining().to_string())
}

fn by_account() -> ByExtension<Account> {
    ByExtension::<Account>::with(|account, key| key.part("account", account.name.as_bytes()))
}

fn app(limiter: &Limiter, accounts: &Accounts) -> Router {
    let plans = limiter
        .layer(
            weekly()
                .by(by_account())
                .quota(|parts| parts.extensions.get::<Account>().map(|account| account.plan.weekly())),
        )
        .headers(RateLimitHeaders::X_RATELIMIT | RateLimitHeaders::IETF)
        .with_charge();
    Router::new()
        .route("/", get(async || "found"))
        .route("/report", get(report))
        .layer(plans)
        .route("/export", get(export))
        .layer(from_fn_with_state(Arc::clone(accounts), authenticate))
        .layer(Extension(limiter.clone()))
}

/// A running instance.
struct Instance {
    url: String,
    client: HttpClient,
}

impl Instance {
    async fn start(app: Router) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(axum::serve(listener, app).into_future());
        Self { url, client: HttpClient::http_1() }
    }

    /// Sends a request. Returns the status, the limit and what remains.
    async fn send(&self, account: &str) -> (u16, u64, u64) {
        let request = Request::get(&self.url).header("x-account", account);
        let response = self.client.send(request, ()).await;
        let header = |name: &str| response.headers()[name].to_str().unwrap();
        let number = |name: &str| header(name).parse().unwrap();
        let limit: u64 = number("x-ratelimit-limit");
        assert_eq!(header("ratelimit-policy"), format!("\"weekly\";q={limit};w=604800"));
        (response.status().as_u16(), limit, number("x-ratelimit-remaining"))
    }

    async fn get(&self, path: &str, account: &str) -> (u16, String) {
        let request = Request::get(format!("{}{path}", self.url)).header("x-account", account);
        let response = self.client.send(request, ()).await;
        (response.status().as_u16(), String::from_utf8_lossy(response.body()).into_owned())
    }
}

/// Two limiters that share a store.
fn in_memory() -> [Limiter; 2] {
    let store = Arc::new(MemoryStore::new());
    [(), ()].map(|()| Limiter::new(Arc::clone(&store), Secret::published()))
}

async fn in_redis(redis: &RedisServer) -> [Limiter; 2] {
    let connect = async || {
        let store =
            RedisStore::builder(redis.url()).deadline(Duration::from_secs(5)).connect().await.unwrap();
        Limiter::new(store, Secret::published())
    };
    [connect().await, connect().await]
}

async fn each_account_has_its_plan_in_all_instances(limiters: [Limiter; 2]) {
    let accounts = accounts();
    let [one, other] = limiters.map(|limiter| app(&limiter, &accounts));
    let (one, other) = (Instance::start(one).await, Instance::start(other).await);
    for used in 0..5 {
        assert_eq!(one.send("ada").await, (200, 10, 9 - 2 * used));
        assert_eq!(other.send("ada").await, (200, 10, 8 - 2 * used));
        assert_eq!(one.send("acme").await, (200, 1_000, 999 - used));
    }
    assert_eq!(one.send("ada").await, (429, 10, 0));

    // An upgrade applies to the next request, and keeps what was used.
    set_plan(&accounts, "ada", Plan::Pro);
    assert_eq!(one.send("ada").await, (200, 1_000, 989));
    assert_eq!(other.send("ada").await, (200, 1_000, 988));
    // What a handler charges, and checks itself, is under the same plan.
    assert_eq!(other.get("/report", "ada").await, (200, "983".to_owned()));
    assert_eq!(one.get("/export", "ada").await, (200, "982".to_owned()));

    // After a downgrade, more is used than the plan has.
    set_plan(&accounts, "ada", Plan::Contract(15));
    assert_eq!(one.send("ada").await, (429, 15, 0));
    assert_eq!(other.get("/export", "ada").await.0, 429);
    set_plan(&accounts, "ada", Plan::Contract(20));
    assert_eq!(other.send("ada").await, (200, 20, 1));
    // A contract beyond what the policy declares is the policy's own quota.
    set_plan(&accounts, "acme", Plan::Contract(2_000));
    assert_eq!(one.send("acme").await, (200, 10, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_account_has_its_plan_in_memory() {
    each_account_has_its_plan_in_all_instances(in_memory()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_account_has_its_plan_in_redis() {
    let redis = RedisServer::start().unwrap();
    each_account_has_its_plan_in_all_instances(in_redis(&redis).await).await;
}

/// Finds the account of an API key and its quota, as in a database.
fn directory(accounts: &Accounts, queries: &Arc<Mutex<u32>>) -> CachedLookup {
    let (accounts, queries) = (Arc::clone(accounts), Arc::clone(queries));
    CachedLookup::new(Header::named("x-account"), move |parts: &Parts| {
        let found = find(&accounts, &parts.headers);
        let queries = Arc::clone(&queries);
        async move {
            tokio::task::yield_now().await;
            *queries.lock().unwrap() += 1;
            let Some(account) = found else { return Ok(Lookup::missing()) };
            Ok(Lookup::found("account", account.name).quota("weekly", account.plan.weekly()))
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn one_query_finds_the_account_and_its_quota() {
    let redis = RedisServer::start().unwrap();
    for limiters in [in_memory(), in_redis(&redis).await] {
        let (accounts, queries) = (accounts(), Arc::default());
        let [limiter, _] = limiters;
        let layer = limiter
            .layer(weekly().by_async(directory(&accounts, &queries)))
            .headers(RateLimitHeaders::X_RATELIMIT | RateLimitHeaders::IETF);
        let service = Instance::start(Router::new().route("/", get(async || "found")).layer(layer)).await;
        for used in 1..=5 {
            assert_eq!(service.send("acme").await, (200, 1_000, 1_000 - used));
            assert_eq!(service.send("ada").await, (200, 10, 10 - used));
        }
        assert_eq!(*queries.lock().unwrap(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn remembered_denial_shows_all_quotas() {
    let redis = RedisServer::start().unwrap();
    for [limiter, _] in [in_memory(), in_redis(&redis).await] {
        let pages = Policy::fixed_window("pages", FREE).caller_quotas(Quota::per_week(1), PRO);
        let layer = limiter
            .layer(weekly().by(Header::named("x-account")).quota(|_| Some(PRO)))
            .and(Limit::new(pages).quota(|_| Some(Quota::per_week(2))))
            .headers(RateLimitHeaders::IETF);
        let service = Instance::start(Router::new().route("/", get(async || "found")).layer(layer)).await;
        // The second denial is remembered, where the store does so, and has one decision.
        for status in [200, 200, 429, 429, 429] {
            let request = Request::get(&service.url).header("x-account", "acme");
            let response = service.client.send(request, ()).await;
            assert_eq!(response.status().as_u16(), status);
            let policies = "\"weekly\";q=1000;w=604800, \"pages\";q=2;w=604800";
            assert_eq!(response.headers()["ratelimit-policy"], policies, "{status}");
        }
    }
}

/// A layer of a gRPC server, whose callers name their limit.
fn by_metadata(limiter: &Limiter) -> RateLimitLayer {
    limiter.layer(weekly().by(Header::named("x-account")).quota(|parts| {
        let limit = parts.headers.get("x-limit")?.to_str().ok()?.parse().ok()?;
        Quota::new(limit, FREE.period(), None).ok()
    }))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grpc_status_tells_the_quota_of_the_caller() {
    let (_redis, limiters) = limiters().await;
    for limiter in limiters {
        let (incoming, url) = listen().await;
        let (_, health) = tonic_health::server::health_reporter();
        let server = Server::builder().layer(by_metadata(&limiter)).add_service(health);
        let server = tokio::spawn(server.serve_with_incoming(incoming));
        let mut client = HealthClient::new(Endpoint::from_shared(url).unwrap().connect().await.unwrap());
        let mut call = async |limit: &'static str| {
            let mut request = tonic::Request::new(HealthCheckRequest::default());
            request.metadata_mut().insert("x-account", "acme".parse().unwrap());
            request.metadata_mut().insert("x-limit", limit.parse().unwrap());
            client.check(request).await.map(|response| {
                response.metadata().get("x-ratelimit-limit").unwrap().to_str().unwrap().to_owned()
            })
        };
        for _ in 0..3 {
            assert_eq!(call("3").await.unwrap(), "3");
        }
        let refused = call("3").await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
        assert_eq!(refused.metadata().get("x-ratelimit-limit").unwrap(), "3");
        let details = String::from_utf8_lossy(refused.details()).into_owned();
        assert!(details.contains("0 of 3 units remain"), "{details}");
        assert_eq!(call("50").await.unwrap(), "50");
        server.abort();
    }
}
