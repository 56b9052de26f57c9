//! The reverse proxy, in front of a server with the service. Both are on the loopback.

use std::future::pending;
use std::net::SocketAddr;

use axum::body::Body;
use axum::http::Request;
use portcullis::Limiter;
use portcullis_proxy::{ReverseProxy, Upstream};
use portcullis_tests::HttpClient;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::Answer;
use crate::program::Service;
use crate::timeline::Step;

pub(crate) struct Proxy {
    addr: SocketAddr,
    /// The servers, which end with this.
    _servers: JoinSet<()>,
}

impl Proxy {
    pub(super) async fn start(limiter: &Limiter, service: &Service) -> Result<Self, String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("the loopback has a free port");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let upstream = Upstream::new(&url).expect("the URL is valid");
        let proxy = ReverseProxy::new(limiter, upstream).map_err(|error| error.to_string())?;
        let bound =
            proxy.bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("the loopback has a free port");
        let (addr, app) = (bound.local_addr(), Service::router().layer(service.extension()));
        let mut servers = JoinSet::new();
        servers
            .spawn(async move { axum::serve(listener, app).await.expect("it serves until it is aborted") });
        servers.spawn(async move {
            bound.serve(pending()).await;
        });
        Ok(Self { addr, _servers: servers })
    }

    pub(super) async fn ask(&self, step: &Step) -> Answer {
        let client = HttpClient::new(Some(step.peer), step.version == 2);
        let mut request =
            Request::builder().method(step.method()).uri(format!("http://{}{}", self.addr, step.path()));
        for (name, value) in step.header_lines() {
            request = request.header(name, value);
        }
        let (head, body) = client.start(request, step.body.clone()).await.into_parts();
        Answer { status: head.status, headers: head.headers, body: Body::new(body) }
    }
}
