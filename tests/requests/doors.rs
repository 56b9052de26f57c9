//! The doors: each opens with the rules of a file, and answers requests.

mod check;
mod code;
mod proxy;
mod rules;
mod serve;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::http::{HeaderMap, Response, StatusCode, Version};
use http_body_util::BodyExt as _;
use portcullis::Limiter;
use portcullis::rules::{Door, Format, Loader, Rules};
use std::net::SocketAddr;
use tower::ServiceExt as _;

use crate::program::{self, Service};
use crate::timeline::{File, Step};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DoorKind {
    Code,
    Rules,
    Check,
    Serve,
    Proxy,
}

/// An open door.
pub(crate) enum Opened {
    Code(Box<code::Code>),
    Rules(Router),
    Check(Router),
    Serve(serve::Serve),
    Proxy(proxy::Proxy),
}

/// The answer to a request. The body is read when the response ends.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Body,
}

impl DoorKind {
    /// The name of the door in the files.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Rules => "rules",
            Self::Check => "check",
            Self::Serve => "serve",
            Self::Proxy => "proxy",
        }
    }

    /// The place for which rules are checked.
    fn door(self) -> Door {
        match self {
            Self::Code | Self::Rules => Door::Code,
            Self::Check => Door::Check,
            Self::Serve => Door::Serve,
            Self::Proxy => Door::Proxy,
        }
    }

    /// The fields that the door refuses, in order.
    pub(crate) fn refusals(self, rules: &Rules) -> Vec<String> {
        let Err(findings) = rules.usable_by(self.door()) else { return Vec::new() };
        let errors = findings.iter().filter(|one| one.severity == portcullis::rules::Severity::Error);
        errors.map(|one| one.field.clone()).collect()
    }

    /// Opens the door. An error is the reason why it cannot be opened with these rules.
    pub(crate) async fn open(
        self,
        file: &File,
        limiter: Limiter,
        service: &Service,
    ) -> Result<Opened, String> {
        if self == Self::Code {
            return Ok(Opened::Code(Box::new(code::Code::new(&file.rules, limiter, service))));
        }
        let limiter = limiter.with_rules(load(file)).map_err(|error| error.to_string())?;
        Ok(match self {
            Self::Code | Self::Rules => Opened::Rules(rules::router(&limiter, service)),
            Self::Check => Opened::Check(check::router(&limiter)?),
            Self::Serve => Opened::Serve(serve::Serve::new(&limiter)?),
            Self::Proxy => Opened::Proxy(proxy::Proxy::start(&limiter, service).await?),
        })
    }
}

impl Opened {
    pub(crate) async fn send(&self, step: &Step) -> Answer {
        match self {
            Self::Code(code) => ask(code.router(step), request(step)).await,
            Self::Rules(router) => ask(router.clone(), request(step)).await,
            Self::Check(router) => ask(router.clone(), check::request(step)).await,
            Self::Serve(serve) => serve.ask(step).await,
            Self::Proxy(proxy) => proxy.ask(step).await,
        }
    }
}

/// The rules of a file, with what the program registers.
pub(crate) fn load(file: &File) -> Rules {
    let text = toml::to_string(&file.rules).expect("a table can be written");
    let loader = program::register(Loader::text("rules.toml", Format::Toml, text));
    Rules::load(&loader).unwrap_or_else(|findings| panic!("{}: {findings}", file.name))
}

async fn ask(router: Router, request: Request) -> Answer {
    let (head, body) = router.oneshot(request).await.expect("a router does not fail").into_parts();
    Answer { status: head.status, headers: head.headers, body }
}

/// The request as a layer in a program gets it.
fn request(step: &Step) -> Request {
    let version = if step.version == 2 { Version::HTTP_2 } else { Version::HTTP_11 };
    let mut request = Request::builder().method(step.method()).uri(step.path()).version(version);
    for (name, value) in step.header_lines() {
        request = request.header(name, value);
    }
    let mut request = request.body(Body::from(step.body.clone())).expect("the file has a valid request");
    request.extensions_mut().insert(ConnectInfo(SocketAddr::new(step.peer, 40_000)));
    program::authenticate(step, &mut request);
    request
}

/// An answer with a body that is known already.
fn answer(response: Response<impl Into<Body>>) -> Answer {
    let (head, body) = response.into_parts();
    Answer { status: head.status, headers: head.headers, body: body.into() }
}

impl Answer {
    /// Reads the body to its end.
    pub(crate) async fn text(self) -> String {
        let body = self.body.collect().await.expect("the body is complete").to_bytes();
        String::from_utf8_lossy(&body).into_owned()
    }
}
