//! The files with limits that services publish: each is sent the requests that just fit, and one more.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, Request, Response};
use axum::{Extension, Router};
use portcullis::rules::{Door, Loader, Rules};
use portcullis::testing::{self, ManualClock};
use portcullis::{Limiter, Timestamp};
use portcullis_servers::within_a_minute;
use tower::ServiceExt as _;

/// A gateway at the address 10.0.0.9 in front of an application, which answers with the status in `x-answer`.
struct Service {
    clock: ManualClock,
    app: Router,
}

/// A method, a URI, and headers that the gateway writes. A client in `x-forwarded-for` is 192.0.2.1 unless one is named.
#[derive(Clone, Copy)]
struct Call<'a>(&'a str, &'a str, &'a [(&'a str, &'a str)]);

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

impl Service {
    /// The rules of a file, at the beginning of a day.
    fn new(file: &str) -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/rules/published").join(file);
        let loader = Loader::file(path).environment(|_| None).for_door(Door::Proxy);
        let rules = Rules::load(&loader).unwrap_or_else(|findings| panic!("{findings}"));
        assert!(!rules.warnings().has_warnings(), "{}", rules.warnings());
        let clock = ManualClock::new(Timestamp::from_micros(20_000 * 86_400_000_000));
        let limiter: Limiter = testing::limiter(&clock).with_rules(rules).unwrap();
        let app = Router::new().fallback(async |headers: HeaderMap| {
            let status =
                headers.get("x-answer").map_or(200, |status| status.to_str().unwrap().parse().unwrap());
            let response = Response::builder().status(status);
            match headers.get("x-json") {
                None => response.body(Body::from("answer")).unwrap(),
                Some(json) => {
                    let json = json.as_bytes().to_vec();
                    response.header("content-type", "application/json").body(Body::from(json)).unwrap()
                }
            }
        });
        let gateway = Extension(SocketAddr::from(([10, 0, 0, 9], 1024)));
        Self { clock, app: app.layer(limiter.rules().unwrap().layer()).layer(gateway) }
    }

    async fn response(&self, Call(method, uri, headers): Call<'_>) -> Response<Body> {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if !headers.iter().any(|(name, _)| *name == "x-forwarded-for") {
            request = request.header("x-forwarded-for", "192.0.2.1");
        }
        self.app.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    }

    /// Sends a call, and reads its response to the end.
    async fn completes(&self, call: Call<'_>) -> HeaderMap {
        let (head, body) = self.response(call).await.into_parts();
        assert_eq!(head.status, 200);
        axum::body::to_bytes(body, 1_000).await.unwrap();
        head.headers
    }

    async fn status(&self, call: Call<'_>) -> u16 {
        self.response(call).await.status().as_u16()
    }

    async fn admits(&self, count: usize, call: Call<'_>) {
        for number in 1..=count {
            assert_eq!(self.status(call).await, 200, "request {number} of {count} for {}", call.1);
        }
    }

    /// So many requests pass, and the next one does not.
    async fn admits_at_most(&self, count: usize, call: Call<'_>) {
        self.admits(count, call).await;
        assert_eq!(self.status(call).await, 429, "request {} for {}", count + 1, call.1);
    }
}

const ADA: (&str, &str) = ("x-user-id", "ada");

#[tokio::test]
async fn github_limits_addresses_and_users_by_hour() {
    let service = Service::new("github.toml");
    let (anonymous, user) = (Call("GET", "/users/ada", &[]), Call("GET", "/users/ada", &[ADA]));
    service.admits_at_most(60, anonymous).await;
    service.admits(1, Call("GET", "/users/ada", &[("x-forwarded-for", "192.0.2.2")])).await;

    // As many as the points of a minute are, until the hour has no more.
    for _ in 0..5 {
        service.admits_at_most(900, user).await;
        service.clock.advance(MINUTE);
    }
    // Searches are not among the 5 000.
    service.admits_at_most(30, Call("GET", "/search/issues?q=a", &[ADA])).await;
    service.admits_at_most(500, user).await;
    service.clock.advance(MINUTE);
    assert_eq!(service.status(user).await, 429, "not the points: the hour");
    assert_eq!(service.status(anonymous).await, 429);
    service.clock.advance(54 * MINUTE);
    service.admits(1, user).await;
    service.admits_at_most(60, anonymous).await;
}

#[tokio::test]
async fn github_limits_searches_by_minute() {
    let service = Service::new("github.toml");
    service.admits_at_most(10, Call("GET", "/search/issues?q=a", &[])).await;
    service.admits_at_most(30, Call("GET", "/search/issues?q=a", &[ADA])).await;
    // Searches are not among the 60.
    service.admits_at_most(60, Call("GET", "/users/ada", &[])).await;
    service.clock.advance(MINUTE);
    service.admits_at_most(30, Call("GET", "/search/code?q=a", &[ADA])).await;
}

#[tokio::test]
async fn github_charges_five_points_for_writes() {
    let service = Service::new("github.toml");
    for method in ["POST", "PATCH", "PUT", "DELETE"] {
        service.admits_at_most(180, Call(method, "/user/keys", &[ADA])).await;
        service.clock.advance(MINUTE);
    }
    for method in ["HEAD", "OPTIONS"] {
        service.admits_at_most(900, Call(method, "/user/keys", &[ADA])).await;
        service.clock.advance(MINUTE);
    }
}

#[tokio::test]
async fn github_limits_content_by_minute_and_hour() {
    let service = Service::new("github.toml");
    let comment = Call("POST", "/repos/ada/engine/issues/1/comments", &[ADA]);
    for _ in 0..6 {
        service.admits_at_most(80, comment).await;
        service.clock.advance(MINUTE);
    }
    service.admits_at_most(20, comment).await;
    service.clock.advance(MINUTE);
    assert_eq!(service.status(Call("PATCH", "/repos/ada/engine/pulls/1", &[ADA])).await, 429);
    service.admits(1, Call("GET", "/repos/ada/engine/issues", &[ADA])).await;
    let anonymous = service.response(Call("POST", "/repos/ada/engine/issues", &[])).await;
    assert_eq!(
        (anonymous.status().as_u16(), &anonymous.headers()["www-authenticate"]),
        (401, &"Bearer".parse().unwrap())
    );
}

#[tokio::test]
async fn github_limits_requests_at_once() {
    let service = Service::new("github.toml");
    let call = Call("GET", "/users/ada", &[ADA]);
    let mut held = Vec::new();
    for _ in 0..100 {
        held.push(service.response(call).await);
    }
    assert!(held.iter().all(|response| response.status() == 200));
    assert_eq!(service.status(call).await, 429);
    service.admits(1, Call("GET", "/users/ada", &[("x-user-id", "grace")])).await;
    held.pop();
    let released = async {
        while service.status(call).await != 200 {
            tokio::task::yield_now().await;
        }
    };
    within_a_minute("released permit", released).await;
}

const BOT: (&str, &str) = ("x-bot-id", "1");
const OTHER_BOT: (&str, &str) = ("x-bot-id", "2");

#[tokio::test]
async fn discord_limits_bots_over_all_routes() {
    let service = Service::new("discord.toml");
    service.admits(25, Call("GET", "/api/v10/channels/1", &[BOT])).await;
    service.admits_at_most(25, Call("GET", "/api/v10/guilds/1", &[BOT])).await;
    service.admits_at_most(50, Call("GET", "/api/v10/guilds/1", &[OTHER_BOT])).await;
    service.admits_at_most(50, Call("GET", "/api/v10/gateway", &[])).await;
    service.admits(50, Call("GET", "/api/v10/gateway", &[("x-forwarded-for", "192.0.2.2")])).await;
    service.clock.advance(SECOND);
    service.admits_at_most(50, Call("GET", "/api/v10/channels/1", &[BOT])).await;
}

#[tokio::test]
async fn discord_limits_routes_by_their_resource() {
    let service = Service::new("discord.toml");
    let message = Call("POST", "/api/v10/channels/1/messages", &[BOT]);
    service.admits_at_most(5, message).await;
    assert_eq!(service.status(Call("POST", "/api/v9/channels/1/messages", &[BOT])).await, 429);
    service.admits(1, Call("GET", "/api/v10/channels/1/messages", &[BOT])).await;
    service.admits_at_most(5, Call("POST", "/api/v10/channels/2/messages", &[BOT])).await;
    service.admits_at_most(5, Call("POST", "/api/v10/channels/1/messages", &[OTHER_BOT])).await;
    service.clock.advance(4 * SECOND);
    assert_eq!(service.status(message).await, 429);
    service.clock.advance(SECOND);
    service.admits(5, message).await;

    service.admits(9, Call("PATCH", "/api/v10/guilds/1/members/1", &[BOT])).await;
    service.admits_at_most(1, Call("PATCH", "/api/v10/guilds/1/members/2", &[BOT])).await;
    service.admits(1, Call("PATCH", "/api/v10/guilds/2/members/1", &[BOT])).await;
    // Without a bot, the service answers.
    service.admits(6, Call("POST", "/api/v10/channels/1/messages", &[])).await;
    service.admits(11, Call("PATCH", "/api/v10/guilds/1/members/1", &[])).await;
    service.admits_at_most(5, Call("POST", "/api/v10/webhooks/1/token", &[])).await;
    service.admits(1, Call("POST", "/api/v10/webhooks/2/token", &[])).await;
}

#[tokio::test]
async fn discord_blocks_addresses_of_invalid_requests() {
    let service = Service::new("discord.toml");
    let valid = Call("GET", "/api/v10/users/@me", &[BOT]);
    for number in 0..10_000 {
        if number % 50 == 0 {
            service.clock.advance(SECOND);
            service.admits(1, Call("GET", "/api/v10/users/@me", &[OTHER_BOT])).await;
        }
        let answer = ["401", "403", "429"][number % 3];
        let invalid = Call("GET", "/api/v10/users/@me", &[BOT, ("x-answer", answer)]);
        assert_eq!(service.status(invalid).await.to_string(), answer, "request {number}");
    }
    service.clock.advance(SECOND);
    assert_eq!(service.status(valid).await, 429);
    service.admits(1, Call("GET", "/api/v10/users/@me", &[BOT, ("x-forwarded-for", "192.0.2.2")])).await;
    service.clock.advance(398 * SECOND);
    assert_eq!(service.status(valid).await, 429);
    service.clock.advance(SECOND);
    service.admits(50, valid).await;
}

const ACCOUNT: (&str, &str) = ("x-account-id", "acct_1");
const LIVE: &[(&str, &str)] = &[ACCOUNT, ("x-verified-key", "sk_live_1")];
const TEST: &[(&str, &str)] = &[ACCOUNT, ("x-verified-key", "sk_test_1")];

#[tokio::test]
async fn stripe_limits_reads_and_writes_of_each_mode() {
    let service = Service::new("stripe.toml");
    let other = &[("x-account-id", "acct_2"), ("x-verified-key", "sk_live_3")];
    for _ in 0..2 {
        for (limit, secret, restricted) in [(100, LIVE, "rk_live_2"), (25, TEST, "rk_test_2")] {
            let restricted = &[ACCOUNT, ("x-verified-key", restricted)];
            service.admits_at_most(limit, Call("GET", "/v1/charges", secret)).await;
            assert_eq!(service.status(Call("GET", "/v1/charges", restricted)).await, 429);
            service.admits(10, Call("DELETE", "/v1/customers/1", restricted)).await;
            service.admits_at_most(limit - 10, Call("POST", "/v1/charges", secret)).await;
        }
        service.admits_at_most(100, Call("GET", "/v1/charges", other)).await;
        service.clock.advance(SECOND);
    }
}

#[tokio::test]
async fn stripe_limits_searches_and_files() {
    let service = Service::new("stripe.toml");
    for _ in 0..2 {
        service.admits(10, Call("GET", "/v1/customers/search?query=a", LIVE)).await;
        service.admits_at_most(10, Call("GET", "/v1/charges/search?query=a", LIVE)).await;
        service.admits(10, Call("GET", "/v1/files", LIVE)).await;
        service.admits_at_most(10, Call("GET", "/v1/files/file_1", LIVE)).await;
        service.admits_at_most(20, Call("POST", "/v1/files", LIVE)).await;
        service.admits(60, Call("GET", "/v1/charges", LIVE)).await;
        service.clock.advance(SECOND);
    }
}

const HOST: (&str, &str) = ("host", "shop.myshopify.com");
const TOKEN: (&str, &str) = ("x-shopify-access-token", "shpat_1");
const PRODUCTS: &str = "/admin/api/2026-10/products.json";
const GRAPHQL: &str = "/admin/api/2026-10/graphql.json";

#[tokio::test]
async fn shopify_fills_a_bucket_by_app_and_store() {
    let service = Service::new("shopify.toml");
    let products = Call("GET", PRODUCTS, &[HOST, TOKEN]);
    service.admits_at_most(40, products).await;
    service.admits_at_most(40, Call("GET", PRODUCTS, &[("host", "other.myshopify.com"), TOKEN])).await;
    service.admits_at_most(40, Call("GET", PRODUCTS, &[HOST, ("x-shopify-access-token", "shpat_2")])).await;
    service.admits(1, Call("POST", GRAPHQL, &[HOST, TOKEN])).await;
    service.clock.advance(SECOND);
    service.admits_at_most(2, products).await;
    service.clock.advance(20 * SECOND);
    service.admits_at_most(40, products).await;
    assert_eq!(service.status(Call("GET", PRODUCTS, &[HOST])).await, 401);
}

#[tokio::test]
async fn shopify_charges_queries_by_their_cost() {
    let service = Service::new("shopify.toml");
    let query =
        async |cost| service.status(Call("POST", GRAPHQL, &[HOST, TOKEN, ("x-query-cost", cost)])).await;
    assert_eq!(query("1001").await, 400, "a query of more never fits");
    assert_eq!((query("600").await, query("400").await, query("1").await), (200, 200, 429));
    service.clock.advance(SECOND);
    assert_eq!((query("51").await, query("50").await, query("1").await), (429, 200, 429));
    service.clock.advance(20 * SECOND);
    assert_eq!((query("1000").await, query("1").await), (200, 429));
    // GraphQL uses nothing of REST.
    service.admits_at_most(40, Call("GET", PRODUCTS, &[HOST, TOKEN])).await;
}

#[tokio::test]
async fn shopify_gives_back_what_a_query_did_not_use() {
    let service = Service::new("shopify.toml");
    let used = (
        "x-json",
        r#"{"data": {}, "extensions": {"cost": {"requestedQueryCost": 600, "actualQueryCost": 100}}}"#,
    );
    service.completes(Call("POST", GRAPHQL, &[HOST, TOKEN, ("x-query-cost", "600"), used])).await;
    let query =
        async |cost| service.status(Call("POST", GRAPHQL, &[HOST, TOKEN, ("x-query-cost", cost)])).await;
    assert_eq!((query("901").await, query("900").await), (429, 200));
}

#[tokio::test]
async fn shopify_limits_storefronts_by_address() {
    let service = Service::new("shopify.toml");
    service.admits_at_most(60, Call("POST", "/api/2026-10/graphql.json", &[HOST])).await;
    service
        .admits(1, Call("POST", "/api/2026-10/graphql.json", &[HOST, ("x-forwarded-for", "192.0.2.2")]))
        .await;
    service.clock.advance(SECOND);
    service.admits_at_most(1, Call("POST", "/api/2026-10/graphql.json", &[HOST])).await;
}

const COMPLETIONS: &str = "/v1/chat/completions";
const ORGANISATION: (&str, &str) = ("x-organization-id", "org-1");
const MODEL: (&str, &str) = ("x-model", "gpt-4o");

#[tokio::test]
async fn openai_limits_requests_by_minute_and_day() {
    let service = Service::new("openai.toml");
    let call = Call("POST", COMPLETIONS, &[ORGANISATION, MODEL]);
    for _ in 0..20 {
        service.admits_at_most(500, call).await;
        service.clock.advance(MINUTE);
    }
    assert_eq!(service.status(call).await, 429, "not the minute: the day");
    service.admits_at_most(500, Call("POST", COMPLETIONS, &[ORGANISATION, ("x-model", "gpt-4o-mini")])).await;
    service.clock.advance((24 * 60 - 20) * MINUTE);
    service.admits_at_most(500, call).await;
    service.clock.advance(Duration::from_millis(120));
    service.admits_at_most(1, call).await;
}

#[tokio::test]
async fn openai_limits_tokens_by_minute() {
    let service = Service::new("openai.toml");
    let tokens = async |organisation, tokens| {
        let headers = [("x-organization-id", organisation), MODEL, ("x-estimated-tokens", tokens)];
        service.status(Call("POST", COMPLETIONS, &headers)).await
    };
    assert_eq!(tokens("org-1", "30001").await, 400, "a request for more never fits");
    assert_eq!((tokens("org-1", "20000").await, tokens("org-1", "10000").await), (200, 200));
    assert_eq!((tokens("org-1", "1").await, tokens("org-2", "30000").await), (429, 200));
    service.clock.advance(SECOND);
    assert_eq!((tokens("org-1", "501").await, tokens("org-1", "500").await), (429, 200));
    service.clock.advance(MINUTE);
    assert_eq!(tokens("org-1", "30000").await, 200);
}

#[tokio::test]
async fn openai_charges_tokens_that_were_used() {
    let service = Service::new("openai.toml");
    let used = ("x-json", r#"{"choices": [], "usage": {"total_tokens": 500}}"#);
    let call = Call("POST", COMPLETIONS, &[ORGANISATION, MODEL, ("x-estimated-tokens", "20000"), used]);
    for [left, reset] in [["10000", "40s"], ["9500", "41s"]] {
        let headers = service.completes(call).await;
        assert_eq!(
            [&headers["x-ratelimit-remaining-tokens"], &headers["x-ratelimit-reset-tokens"]],
            [left, reset]
        );
    }
    let headers = service.completes(call).await;
    assert_eq!(headers["x-ratelimit-remaining-requests"], "497");
    assert_eq!(headers["x-ratelimit-reset-requests"], "360ms");
    assert!(!headers.contains_key("x-ratelimit-limit-requests-day"));
}
