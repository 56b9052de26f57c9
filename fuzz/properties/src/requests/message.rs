//! One request, as a client may write it, and what the server knows about it.

use std::net::{Ipv4Addr, SocketAddr};

use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Version};

use super::body::AnyBody;
use super::setup::{Monitoring, User};
use super::store::Mode;
use crate::bytes::Bytes;

#[derive(Debug)]
pub(super) struct Message {
    pub(super) method: Method,
    version: Version,
    pub(super) target: &'static str,
    pub(super) headers: HeaderMap,
    pub(super) body: AnyBody,
    pub(super) peer: Option<u8>,
    pub(super) user: Option<u8>,
    pub(super) is_monitoring: bool,
    pub(super) mode: Mode,
}

impl Message {
    pub(super) fn read(bytes: &mut Bytes<'_>) -> Self {
        let start = bytes.byte();
        let known = bytes.byte();
        let mut headers = HeaderMap::new();
        if start & 0x80 == 0 {
            headers.insert("origin", HeaderValue::from_static("https://a.example"));
            headers.insert("access-control-request-method", HeaderValue::from_static("POST"));
        }
        for _ in 0..(known >> 4) % 6 {
            let name = HeaderName::from_static(NAMES[usize::from(bytes.byte()) % NAMES.len()]);
            headers.append(name, value(bytes));
        }
        let target = usize::from(bytes.byte());
        Self {
            method: method(start & 0x0f),
            version: VERSIONS[usize::from(start >> 4) % VERSIONS.len()],
            target: TARGETS[target % TARGETS.len()],
            headers,
            body: AnyBody::read(bytes),
            // Few clients, so that they recur.
            peer: (known & 3 != 3).then_some(known & 1),
            user: (known & 4 == 0).then_some(known & 1),
            is_monitoring: known & 15 == 15,
            mode: Mode::of(target / TARGETS.len()),
        }
    }

    /// Returns the request, with its body wrapped by `wrap`.
    pub(super) fn request<B>(&self, wrap: impl FnOnce(AnyBody) -> B) -> Request<B> {
        let mut request = Request::new(wrap(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.version_mut() = self.version;
        *request.uri_mut() = self.target.parse().expect("the targets are those of requests");
        *request.headers_mut() = self.headers.clone();
        let extensions = request.extensions_mut();
        if let Some(peer) = self.peer {
            extensions.insert(SocketAddr::from((Ipv4Addr::new(192, 0, 2, peer), 1024)));
        }
        if let Some(user) = self.user {
            extensions.insert(User(user));
        }
        if self.is_monitoring {
            extensions.insert(Monitoring);
        }
        request
    }
}

fn method(kind: u8) -> Method {
    match kind {
        0..8 => Method::OPTIONS,
        8 | 9 => Method::GET,
        10 => Method::POST,
        11 => Method::HEAD,
        12 => Method::CONNECT,
        13 => Method::PUT,
        // Methods are case-sensitive: this is a different one.
        14 => Method::from_bytes(b"options").expect("a method is a token"),
        _ => Method::from_bytes(b"QUERY").expect("a method is a token"),
    }
}

/// A known value, or a few arbitrary bytes.
fn value(bytes: &mut Bytes<'_>) -> HeaderValue {
    let kind = usize::from(bytes.byte());
    if let Some(value) = VALUES.get(kind) {
        return HeaderValue::from_static(value);
    }
    let raw: Vec<u8> = (0..kind % 5).map(|_| bytes.byte()).collect();
    HeaderValue::from_bytes(&raw).unwrap_or(HeaderValue::from_static("?"))
}

const VERSIONS: [Version; 5] =
    [Version::HTTP_11, Version::HTTP_2, Version::HTTP_10, Version::HTTP_3, Version::HTTP_09];

const TARGETS: [&str; 8] = ["/", "/export", "/free", "/?key=a", "/?key=%61", "/?key=", "/?key=a&key=b", "*"];

const NAMES: [&str; 16] = [
    "authorization",
    "cookie",
    "proxy-authorization",
    "x-api-key",
    "origin",
    "access-control-request-method",
    "access-control-request-headers",
    "content-type",
    "content-length",
    "transfer-encoding",
    "host",
    "x-forwarded-for",
    "upgrade",
    "expect",
    "x-grpc-web",
    "te",
];

const VALUES: [&str; 40] = [
    "",
    " ",
    "\t",
    "https://b.example",
    "POST",
    "0",
    "00",
    "5",
    "0, 0",
    " 0",
    "chunked",
    "application/grpc",
    "application/grpc-web",
    "Bearer a",
    "bearer  a ",
    "Bearer\ta",
    "\tBearer a",
    "Bearer a=",
    "Bearer a=b",
    "Bearer ",
    "Bearer",
    "Basic YTpi",
    "Digest a",
    "sid=1",
    " sid = 1 ",
    "sid=1; sid=2",
    "a=b; sid=2",
    "sid=",
    "sid",
    "a=b",
    "k1",
    "k1 ",
    "\tk1",
    "k2",
    "k7",
    "k8",
    "k9",
    "hang",
    "192.0.2.1",
    "trailers",
];
