//! Under Axum.

use std::net::SocketAddr;

use axum::body::Body;
use axum::extract::{ConnectInfo, connect_info::MockConnectInfo};
use axum::routing::get;
use axum::{Extension, Router};
use http::Request;
use portcullis_core::{Decision, Policy, Quota};
use portcullis_tower::{ClientIp, LayerBuilder, RateLimitLayer};
use tower::ServiceExt as _;

use crate::support::gate;

fn limit() -> RateLimitLayer {
    LayerBuilder::new(gate(), Policy::gcra("all", Quota::per_minute(1))).by(ClientIp::peer())
}

async fn handler(Extension(decision): Extension<Decision>) -> String {
    decision.policy().to_string()
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
async fn around_routers_routes_and_handlers() {
    for app in [
        Router::new().route("/", get(handler)).layer(limit()),
        Router::new().route("/", get(handler)).route_layer(limit()),
        Router::new().route("/", get(handler).layer(limit())),
        Router::new().route("/", get(handler).route_layer(limit())),
        Router::new().merge(Router::new().route("/", get(handler)).layer(limit())),
    ] {
        assert_eq!(statuses(app, ADDRESSES).await, [200, 429, 200]);
    }
}

#[tokio::test]
async fn the_address_of_a_test_counts() {
    let address: SocketAddr = "192.0.2.1:1".parse().unwrap();
    let app = Router::new().route("/", get(handler)).layer(limit()).layer(MockConnectInfo(address));
    for status in [200, 429] {
        let request = Request::get("/").body(Body::empty()).unwrap();
        assert_eq!(app.clone().oneshot(request).await.unwrap().status(), status);
    }
}
