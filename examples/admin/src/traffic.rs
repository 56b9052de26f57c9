//! Made-up clients, so that there is something to see.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::Request;
use tower::ServiceExt as _;

/// Sends 40 requests per second, as if from addresses of a network for documentation: half of them from one client, which is over the
/// limit of `/search`, and an eighth to `/login`, from two clients.
pub(crate) async fn send_to(app: Router) {
    let mut ticks = tokio::time::interval(Duration::from_millis(25));
    for number in 0_u32.. {
        ticks.tick().await;
        let (path, client) = match number % 8 {
            0 | 2 | 4 | 6 => ("/search", 1),
            1 => ("/login", 2 + number / 8 % 2),
            _ => ("/search", 4 + number % 40),
        };
        let address = Ipv4Addr::from(u32::from(Ipv4Addr::new(203, 0, 113, 0)) + client);
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = axum::http::Uri::from_static(path);
        request.extensions_mut().insert(ConnectInfo(SocketAddr::from((address, 49_152))));
        // As if it had arrived over the network. The response is of no interest.
        let Ok(_) = app.clone().oneshot(request).await;
    }
}
