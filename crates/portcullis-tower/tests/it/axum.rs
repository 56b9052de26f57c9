//! The layer under Axum.

mod bodies;

use std::convert::Infallible;
use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, connect_info::MockConnectInfo};
use axum::handler::Handler as _;
use axum::response::Response;
use axum::routing::get;
use http::Request;
use portcullis_core::{Policy, Quota};
use portcullis_tower::{Charge, ClientIp, Global, Limit, PolicyExt as _, RateLimitLayer, Route, Shadow};
use tower::util::BoxCloneService;
use tower::{Layer as _, ServiceBuilder, ServiceExt as _};

use crate::log::log;
use crate::support::registry;

fn limit() -> RateLimitLayer {
    RateLimitLayer::new(registry(), Policy::gcra("all", Quota::per_minute(1)).by(ClientIp::peer()))
        .with_charge()
}

async fn handler(charge: Charge) -> String {
    charge.decision().policy().to_string()
}

async fn statuses(app: Router, addresses: [&str; 3]) -> [u16; 3] {
    let mut statuses = [0; 3];
    for (status, address) in statuses.iter_mut().zip(addresses) {
        let mut request = Request::get("/").body(Body::empty()).unwrap();
        request.extensions_mut().insert(ConnectInfo(address.parse::<SocketAddr>().unwrap()));
        *status = app.clone().oneshot(request).await.unwrap().status().as_u16();
    }
    statuses
}

const ADDRESSES: [&str; 3] = ["192.0.2.1:1", "192.0.2.1:2", "192.0.2.2:1"];

#[tokio::test]
async fn a_layer_wraps_routers_routes_and_handlers() {
    for app in [
        Router::new().route("/", get(handler)).layer(limit()),
        Router::new().route("/", get(handler)).route_layer(limit()),
        Router::new().route("/", get(handler).layer(limit())),
        Router::new().route("/", get(handler).route_layer(limit())),
        Router::new().merge(Router::new().route("/", get(handler)).layer(limit())),
        Router::new().route("/", get(handler)).layer(limit().for_axum()),
        Router::new().route("/", get(handler)).route_layer(limit().for_axum()),
        Router::new().route("/", get(handler).layer(limit().for_axum())),
        Router::new().route("/", get(handler).route_layer(limit().for_axum())),
        Router::new().route("/", get(handler.layer(limit().for_axum()))),
        Router::new().route("/", get(handler)).layer(ServiceBuilder::new().layer(limit().for_axum())),
    ] {
        assert_eq!(statuses(app, ADDRESSES).await, [200, 429, 200]);
    }
}

#[tokio::test]
async fn mock_connect_info_is_used_as_the_address() {
    let address: SocketAddr = "192.0.2.1:1".parse().unwrap();
    let app = Router::new().route("/", get(handler)).layer(limit()).layer(MockConnectInfo(address));
    for status in [200, 429] {
        let request = Request::get("/").body(Body::empty()).unwrap();
        assert_eq!(app.clone().oneshot(request).await.unwrap().status(), status);
    }
}

/// The only test here in which a key by route is asked for before a router has seen the request: the line is for all layers.
#[tokio::test]
async fn a_key_by_route_around_a_router_is_explained_in_the_log() {
    let (log, _guard) = log();
    let limit = || {
        let policy = Policy::gcra("all", Quota::per_minute(1));
        RateLimitLayer::new(registry(), policy.by(Route::matched_path())).with_charge().for_axum()
    };
    let router = || Router::new().route("/", get(handler)).with_state(());
    let send = async |service: BoxCloneService<Request<Body>, Response, Infallible>, path| {
        service.oneshot(Request::get(path).body(Body::empty()).unwrap()).await.unwrap().status()
    };
    // In a router a route matches or not.
    let within = BoxCloneService::new(router().layer(limit()));
    for (path, status) in [("/", 200), ("/nowhere", 400)] {
        assert_eq!(send(within.clone(), path).await, status);
    }
    let missing = "WARN requests have no identity";
    assert!(log.lines().len() == 1 && log.lines()[0].starts_with(missing), "{:?}", log.lines());

    let around = BoxCloneService::new(limit().layer(router()));
    for _ in 0..2 {
        assert_eq!(send(around.clone(), "/").await, 400);
    }
    let lines = log.lines();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert_eq!(
        lines[1],
        "WARN Route::matched_path() finds no route, because no Axum router has seen the request: put the layer in the router, \
         with `Router::layer` or `Router::route_layer`, instead of around it; counted since the last such line code=PC212 requests=1"
    );
    assert!(lines[2].starts_with(missing), "{lines:?}");
}

#[tokio::test]
async fn the_charge_and_the_shadow_are_extractors() {
    let planned = Policy::gcra("planned", Quota::per_minute(1).burst(2));
    let layer =
        RateLimitLayer::new(registry(), Policy::gcra("all", Quota::per_minute(1).burst(9)).by(Global))
            .and(Limit::new(planned).shadow());
    let counted = async |charge: Charge, shadow: Shadow| {
        let left = charge.settle(3).await.unwrap().decision.remaining();
        format!("{left} left, {} denials", shadow.denials().count())
    };
    let asked = async |charge: Option<Charge>, shadow: Shadow| {
        format!("{} {}", charge.is_some(), shadow.decisions().len())
    };
    let app = Router::new()
        .route("/counted", get(counted).layer(layer.clone().with_charge()))
        .route("/asked", get(asked).layer(layer.clone().with_charge()))
        .route("/uncharged", get(counted).layer(layer.clone()))
        .route("/uncharged/asked", get(asked).layer(layer))
        .route("/free", get(asked))
        .route("/mistake", get(counted));
    let mut answers = Vec::new();
    for path in ["/counted", "/counted", "/asked", "/uncharged", "/uncharged/asked", "/free", "/mistake"] {
        let response = app.clone().oneshot(Request::get(path).body(Body::empty()).unwrap()).await.unwrap();
        let status = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), 1_000).await.unwrap();
        answers.push(format!("{status} {}", String::from_utf8_lossy(&body).trim()));
    }
    assert_eq!(
        answers,
        [
            "200 6 left, 0 denials",
            "200 3 left, 0 denials",
            "200 true 1",
            "500 the server cannot tell what this request was charged",
            "200 false 1",
            "200 false 0",
            "500 the server cannot tell what this request was charged",
        ]
    );
}

#[tokio::test]
async fn a_rejected_check_is_the_response_of_a_handler() {
    use std::sync::Arc;

    use axum::extract::State;
    use portcullis_tower::{CheckBuilder, Limited, Registry};

    static MAILS: Policy = Policy::fixed_window("mails", Quota::per_hour(1));

    async fn forgot(State(registry): State<Arc<Registry>>, email: String) -> Result<&'static str, Limited> {
        CheckBuilder::new(&registry, &MAILS).by(|key| key.part("email", email.as_bytes())).await?;
        Ok("sent")
    }
    let app = Router::new().route("/", axum::routing::post(forgot)).with_state(registry());
    for (email, status) in [("ada", 200), ("ada", 429), ("bob", 200)] {
        let response =
            app.clone().oneshot(Request::post("/").body(Body::from(email)).unwrap()).await.unwrap();
        assert_eq!(response.status(), status);
        assert_eq!(response.headers().get("retry-after").is_some(), status == 429);
    }
}
