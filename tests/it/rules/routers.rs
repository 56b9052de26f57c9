//! Routers inside each other, under rules that name paths as clients write them.

use axum::Router;
use axum::http::{Method, Request};
use axum::routing::get;
use portcullis::Limiter;
use portcullis::rules::{Format, Loader, Rules};
use portcullis_tests::HttpClient;
use tokio::net::TcpListener;

/// All weekly, so that no window ends during a test.
const LIMITS: &str = r#"
    [layer]
    except = [{ path = "/api/health" }]

    [policy.search]
    strategy = "fixed_window"
    quota = "3/w"
    key = "global"
    match = { path = "/api/search" }

    [policy.users]
    strategy = "fixed_window"
    quota = "3/w"
    key = "global"
    match = { path = "/api/users/{id}", methods = ["GET"] }

    [policy.unknown]
    strategy = "fixed_window"
    quota = "3/w"
    key = "global"
    match = [{ path = "/api/unknown" }, { path = "/api/health" }, { path = "/health" }]
"#;

/// Where the layer is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    /// Around each route and fallback of the outer router, behind its choice of a route.
    Outside,
    /// Around each route and fallback of the router that is nested, which sees paths without their prefix.
    Inside,
    /// Around each route and fallback of a router that is nested as a service.
    InsideService,
    /// Around a whole router, in front of its choice of a route.
    Around,
    /// Inside, one level deeper.
    Deep,
}

fn app(place: Place) -> Router {
    let rules = Rules::load(&Loader::text("limits.toml", Format::Toml, LIMITS)).unwrap();
    let layer = Limiter::memory().with_rules(rules).unwrap().rules().unwrap().layer();
    let api = Router::new()
        .route("/search", get(async || "found"))
        .route("/users/{user}", get(async || "user"))
        .route("/health", get(async || "fine"))
        .fallback(async || "nothing");
    let outer = Router::new().route("/health", get(async || "fine")).fallback(async || "nothing here");
    match place {
        Place::Outside => outer.nest("/api", api).layer(layer),
        Place::Inside => outer.nest("/api", api.layer(layer)),
        Place::InsideService => outer.nest_service("/api", api.layer(layer)),
        Place::Around => Router::new().fallback_service(tower::Layer::layer(&layer, outer.nest("/api", api))),
        Place::Deep => {
            let deep =
                Router::new().nest("/search", Router::new().fallback(async || "found").layer(layer.clone()));
            let rest = Router::new().route("/users/{user}", get(async || "user")).layer(layer.clone());
            let health = Router::new().route("/health", get(async || "fine"));
            let unknown = Router::new().fallback(async || "nothing").layer(layer);
            outer.nest("/api", unknown.merge(deep).merge(rest).merge(health))
        }
    }
}

struct Server {
    url: String,
    client: HttpClient,
}

impl Server {
    async fn start(place: Place) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(axum::serve(listener, app(place)).into_future());
        Self { url, client: HttpClient::http_1() }
    }

    /// The status, and what is left under the policy that limits the request.
    async fn send(&self, method: Method, path: &str) -> (u16, Option<u64>) {
        let request = Request::builder().method(method).uri(format!("{}{path}", self.url));
        let response = self.client.send(request, ()).await;
        let remaining = response.headers().get("x-ratelimit-remaining");
        (response.status().as_u16(), remaining.map(|value| value.to_str().unwrap().parse().unwrap()))
    }

    async fn get(&self, path: &str) -> (u16, Option<u64>) {
        self.send(Method::GET, path).await
    }
}

#[tokio::test]
async fn rules_match_the_path_that_the_client_wrote() {
    for place in [Place::Outside, Place::Inside, Place::InsideService, Place::Around, Place::Deep] {
        let server = Server::start(place).await;
        for left in [2, 1, 0] {
            assert_eq!(server.get("/api/search").await, (200, Some(left)), "{place:?}");
        }
        assert_eq!(server.get("/api/search").await, (429, Some(0)), "{place:?}");
        // The route has another name for its parameter.
        assert_eq!(server.get("/api/users/7").await, (200, Some(2)), "{place:?}");
        assert_eq!(server.get("/api/users/8?q=1").await, (200, Some(1)), "{place:?}");
        assert_eq!(server.send(Method::HEAD, "/api/users/9").await, (200, Some(0)), "{place:?}");
        assert_eq!(server.get("/api/users/7").await.0, 429, "{place:?}");
        // A fallback is limited as a route is.
        if place != Place::Deep {
            assert_eq!(server.get("/api/unknown").await, (200, Some(2)), "{place:?}");
        }
        // The exemption is for this path, and not for the same one without its prefix.
        assert_eq!(server.get("/api/health").await, (200, None), "{place:?}");
        let is_outside = matches!(place, Place::Outside | Place::Around);
        assert_eq!(server.get("/health").await, (200, is_outside.then_some(1)), "{place:?}");
        // Neither is the path that the inner router sees one of a rule.
        assert_eq!(server.get("/search").await, (200, None), "{place:?}");
    }
}

/// Whatever a router takes such a path for, it never gets to the handler without being counted.
#[tokio::test]
async fn no_spelling_of_a_path_goes_round_a_rule() {
    for place in [Place::Outside, Place::Inside, Place::InsideService, Place::Around] {
        for path in [
            "/api/search/",
            "/api//search",
            "/api/search//",
            "/api/%73earch",
            "/api/%73%65%61%72%63%68",
            "/api/./search",
            "/api/x/../search",
            "/api/search;v=1",
            "/api/search?x=1",
            "//api/search",
            "/%61pi/search",
            "/api%2Fsearch",
        ] {
            let server = Server::start(place).await;
            assert_eq!(server.get("/api/search").await, (200, Some(2)), "{path} {place:?}");
            let (status, remaining) = server.get(path).await;
            assert_eq!(status, 200, "{path} {place:?}");
            // Paths that the outer router does not pass on get to its fallback, and to no handler that is limited.
            let is_passed_on = matches!(place, Place::Outside | Place::Around) || path.starts_with("/api/");
            assert_eq!(remaining, is_passed_on.then_some(1), "{path} {place:?}");
            let left = u64::from(!is_passed_on);
            assert_eq!(server.get("/api/search").await, (200, Some(left)), "{path} {place:?}");
            if is_passed_on {
                assert_eq!(server.get(path).await, (429, Some(0)), "{path} {place:?}");
            }
        }
    }
}

#[tokio::test]
async fn route_key_is_its_pattern_with_prefix() {
    let limits = r#"
        [policy.routes]
        strategy = "fixed_window"
        quota = "2/w"
        key = "route"
        on_missing = "exempt"
    "#;
    for is_inside in [false, true] {
        let rules = Rules::load(&Loader::text("limits.toml", Format::Toml, limits)).unwrap();
        let layer = Limiter::memory().with_rules(rules).unwrap().rules().unwrap().layer();
        let users = Router::new().route("/users/{id}", get(async || "user"));
        let app = if is_inside {
            Router::new().nest("/a", users.clone().layer(layer.clone())).nest("/b", users.layer(layer))
        } else {
            Router::new().nest("/a", users.clone()).nest("/b", users).layer(layer)
        };
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(axum::serve(listener, app).into_future());
        let server = Server { url, client: HttpClient::http_1() };
        // Two routes, each with one count for all users.
        for (path, remaining) in [("/a/users/1", 1), ("/a/users/2", 0), ("/b/users/1", 1)] {
            assert_eq!(server.get(path).await, (200, Some(remaining)), "{path} {is_inside}");
        }
        assert_eq!(server.get("/a/users/3").await, (429, Some(0)), "{is_inside}");
        // Without a route there is no key.
        assert_eq!(server.get("/c").await, (404, None), "{is_inside}");
    }
}
