//! A file that names what the program registers: who is exempt or denied, and what makes the responses to rejected requests.

use axum::body::{Body, Bytes};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Response};
use portcullis::Rejection;
use portcullis::rules::Loader;
use tower::util::MapRequestLayer;

use super::*;

/// The caller, as authentication in front of the layer has found out.
#[derive(Clone, Copy, PartialEq)]
enum Caller {
    Staff,
    Robot,
}

fn is(parts: &Parts, caller: Caller) -> bool {
    parts.extensions.get() == Some(&caller)
}

fn with_body(rejection: &Rejection<'_>, body: String) -> Response<Bytes> {
    Response::builder().status(rejection.status()).body(body.into()).unwrap()
}

/// The file, and the functions that it names.
fn loader(file: &Limits) -> Loader {
    Loader::file(file.path())
        .matcher("staff", |parts: &Parts| is(parts, Caller::Staff))
        .matcher("robot", |parts: &Parts| is(parts, Caller::Robot))
        .rejection("page", |rejection| with_body(rejection, format!("<p>{}", rejection.message())))
        .rejection("terse", |rejection| with_body(rejection, format!("{:?}", rejection.reason())))
}

/// All weekly, so that no window ends during a test.
fn limits(orders: &str) -> String {
    format!(
        r#"
        [layer]
        except = {{ function = "staff" }}
        deny = {{ function = "robot", path = "/orders" }}
        reject_with = {{ function = "terse" }}

        [policy.orders]
        strategy = "fixed_window"
        quota = "1/w"
        key = "global"
        match = {{ path = "/orders" }}
        {orders}

        [policy.all]
        strategy = "fixed_window"
        quota = "3/w"
        key = "global"
        "#
    )
}

const PAGE: &str = "reject_with = { function = \"page\" }";

async fn serve(limiter: &Limiter) -> String {
    let authenticate = MapRequestLayer::new(|mut request: Request<Body>| {
        let caller = match request.headers().get("authorization").map(HeaderValue::as_bytes) {
            Some(b"Bearer staff") => Some(Caller::Staff),
            Some(b"Bearer robot") => Some(Caller::Robot),
            _ => None,
        };
        if let Some(caller) = caller {
            request.extensions_mut().insert(caller);
        }
        request
    });
    let app = Router::new()
        .route("/orders", get(async || "ordered"))
        .route("/search", get(async || "found"))
        .layer(limiter.rules().unwrap().layer())
        .layer(authenticate);
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(axum::serve(listener, app).into_future());
    url
}

async fn functions_of_the_program_apply(file: &Limits, limiter: Limiter) {
    let live = limiter.rules().unwrap().clone();
    let (url, client) = (serve(&limiter).await, HttpClient::http_1());
    let call = async |path: &str, token: &str| {
        let request = Request::get(format!("{url}{path}")).header("authorization", format!("Bearer {token}"));
        let response = client.send(request, ()).await;
        // The layer adds it to the response of a function.
        assert_eq!(response.status() == 429, response.headers().contains_key("retry-after"));
        let body = String::from_utf8_lossy(response.body()).into_owned();
        (response.status().as_u16(), body)
    };
    let is_page = |(status, body): (u16, String)| {
        status == 429 && body.starts_with("<p>rate limit exceeded: retry after ")
    };
    let terse = (429, "Limited".to_owned());
    let denied = (403, "<p>this server does not allow the request".to_owned());

    // Staff is not charged, and robots get no orders.
    for _ in 0..5 {
        assert_eq!(call("/orders", "staff").await, (200, "ordered".to_owned()));
    }
    assert_eq!(call("/orders", "robot").await, denied);

    // The policy that rejects a request makes the response, else the layer.
    assert_eq!(call("/orders", "customer").await.0, 200);
    assert!(is_page(call("/orders", "customer").await));
    assert_eq!(call("/search", "customer").await.0, 200);
    assert_eq!(call("/search", "robot").await.0, 200);
    assert_eq!(call("/search", "customer").await, terse);
    assert_eq!(call("/search", "staff").await.0, 200);

    // A name that the program does not have is refused, and the last good rules stay.
    file.write(&limits(&PAGE.replace("page", "pgae")));
    let Err(ReloadError::Invalid(findings)) = live.reload() else { panic!("there is no such function") };
    let expected = "policy.orders.reject_with.function: no rejection \"pgae\" is registered (help: did you mean \"page\"?";
    assert!(findings.to_string().contains(expected), "{findings}");
    assert_eq!(live.generation(), 1);

    // The functions are those of the program after a reload too.
    file.write(&limits(""));
    assert_eq!(live.reload().unwrap(), 2);
    assert_eq!(call("/orders", "customer").await, terse);
    assert_eq!(call("/orders", "robot").await, (403, "Denied".to_owned()));
    assert_eq!(call("/orders", "staff").await.0, 200);
}

#[tokio::test]
async fn functions_of_the_program_apply_in_memory() {
    let file = Limits::new("functions-memory", &limits(PAGE));
    let rules = Rules::load(&loader(&file)).unwrap_or_else(|findings| panic!("{findings}"));
    functions_of_the_program_apply(&file, Limiter::memory().with_rules(rules).unwrap()).await;
}

#[tokio::test]
async fn functions_of_the_program_apply_on_redis() {
    let (redis, file) = (RedisServer::start().unwrap(), Limits::new("functions-redis", &limits(PAGE)));
    let rules = Rules::load(&loader(&file)).unwrap_or_else(|findings| panic!("{findings}"));
    functions_of_the_program_apply(&file, on_redis(&redis, rules).await).await;
}
