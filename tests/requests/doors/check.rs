//! The check endpoint, asked as HAProxy asks it.

use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use portcullis::Limiter;
use portcullis_server::CheckEndpoint;

use crate::timeline::Step;

pub(super) fn router(limiter: &Limiter) -> Result<Router, String> {
    Ok(CheckEndpoint::new(limiter).map_err(|error| error.to_string())?.router())
}

pub(super) fn request(step: &Step) -> Request {
    let mut request = Request::get("/check/haproxy")
        .header("x-original-method", step.method())
        .header("x-original-uri", step.path())
        .header("x-original-address", step.peer.to_string());
    let host = step.header_lines().find(|(name, _)| *name == "host").map_or("localhost", |(_, host)| host);
    request = request.header("x-original-host", host);
    for (name, value) in step.header_lines().filter(|(name, _)| *name != "host") {
        request = request.header(name, value);
    }
    let mut request = request.body(Body::empty()).expect("the file has a valid request");
    let proxy = SocketAddr::from((Ipv4Addr::LOCALHOST, 50_000));
    request.extensions_mut().insert(ConnectInfo(proxy));
    request
}
