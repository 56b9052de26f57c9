//! The endpoint.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::routing::any;
use http::{Request, Response, StatusCode};
use ipnet::IpNet;
use portcullis::Limiter;
use portcullis::rules::{Door, LiveRules, RulesRequirement, RulesService};
use portcullis_log::{LogThrottle, codes};
use tower::{Layer as _, Service, ServiceExt as _};

use super::answer::{self, Admitted};
use super::client_request::client_request;
use super::dialect::Dialect;
use super::error::CheckEndpointError;
use super::trusted::TrustedPeers;

/// Answers proxies that ask over HTTP whether a request may pass, by the [rules](Limiter::with_rules) of a limiter.
///
/// Each kind of proxy has a path of its own, which determines in which headers it forwards the head of the client's request. Headers of
/// other kinds are not looked at.
///
/// | path | method, URI, host | address | a rejection is |
/// |---|---|---|---|
/// | `/check/nginx` | `X-Original-Method`, `X-Original-URI`, `X-Original-Host` | `X-Original-Address` | 401 or 403, with the client's status in `X-Check-Status` |
/// | `/check/haproxy` | the same | the same | the client's status, such as 429 |
/// | `/check/caddy`, `/check/traefik` | `X-Forwarded-Method`, `X-Forwarded-Uri`, `X-Forwarded-Host` | the last of `X-Forwarded-For` | the client's status |
///
/// All other headers are those of the client. The request that the rules see has the forwarded address as its peer, so that `[client_ip]`
/// in the rules names proxies in front of the one that asks, and not that one.
///
/// Only peers in [named networks](Self::trust) are believed. Another peer gets 403, and a request whose forwarded values are missing,
/// repeated or malformed 400; neither is charged to any key. A request that may pass is answered 200 without a body.
///
/// A check sees the head of a request alone. So rules that need the response, the end of the request, or what a program adds to it
/// [are refused](CheckEndpointError::Rules), also when the rules are reloaded: limits on requests in flight, `charge_when`, `reserve`,
/// `refund_unanswered`, keys by route or extension, and `tiers` without a header. A rule with `wait` lets the proxy wait.
///
/// ```
/// use std::net::SocketAddr;
///
/// use axum::body::Body;
/// use axum::extract::ConnectInfo;
/// use http::Request;
/// use portcullis::Limiter;
/// use portcullis::rules::{Format, Loader, Rules};
/// use portcullis_server::CheckEndpoint;
/// use tower::ServiceExt as _;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let limits = Loader::text("limits.toml", Format::Toml, r#"
///     [policy.search]
///     strategy = "fixed_window"
///     quota = "1/day"
///     key = "client_ip"
///     match = { path = "/search" }
/// "#);
/// let limiter = Limiter::memory().with_rules(Rules::load(&limits)?)?;
/// let router = CheckEndpoint::new(&limiter)?.trust(["10.0.0.0/8".parse::<ipnet::IpNet>()?]).router();
///
/// let check = || {
///     Request::get("/check/caddy")
///         .extension(ConnectInfo(SocketAddr::from(([10, 0, 0, 9], 41_000)))) // a server adds it
///         .header("X-Forwarded-Method", "GET")
///         .header("X-Forwarded-Uri", "/search?q=portcullis")
///         .header("X-Forwarded-Host", "example.com")
///         .header("X-Forwarded-For", "192.0.2.1")
///         .body(Body::empty())
/// };
/// let response = router.clone().oneshot(check()?).await?;
/// assert_eq!(response.status(), 200);
/// assert_eq!(response.headers()["x-ratelimit-remaining"], "0");
/// let response = router.oneshot(check()?).await?;
/// assert_eq!(response.status(), 429);
/// assert!(response.headers().contains_key("retry-after"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "an endpoint answers nothing until its router is served"]
pub struct CheckEndpoint {
    rules: LiveRules,
    requirement: RulesRequirement,
    trusted: TrustedPeers,
}

impl CheckEndpoint {
    /// Makes an endpoint of the rules of a limiter, as they are now and after each reload. It believes peers on the loopback.
    ///
    /// As long as the endpoint or a router of it exists, rules that a check cannot apply are refused.
    ///
    /// # Errors
    ///
    /// If the limiter has no rules, or one of them needs more than the head of a request.
    pub fn new(limiter: &Limiter) -> Result<Self, CheckEndpointError> {
        let rules = limiter.rules()?;
        let requirement = rules.require_usable_by(Door::Check)?;
        Ok(Self { rules: rules.clone(), requirement, trusted: TrustedPeers::loopback() })
    }

    /// Believes the peers in these networks, and no others: the loopback only if it is among them.
    ///
    /// Whoever can connect from these networks can have requests charged to any address and key.
    pub fn trust(mut self, networks: impl IntoIterator<Item = IpNet>) -> Self {
        self.trusted = TrustedPeers::networks(networks);
        self
    }

    /// Returns the routes `/check/nginx`, `/check/haproxy`, `/check/caddy` and `/check/traefik`.
    ///
    /// Serve them with the addresses of peers, by
    /// [`into_make_service_with_connect_info`](Router::into_make_service_with_connect_info) in Axum; otherwise each answer is 500.
    pub fn router(self) -> Router {
        let checks = Arc::new(Checks {
            service: self.rules.layer().layer(Admit),
            trusted: self.trusted,
            _requirement: self.requirement,
            untrusted: LogThrottle::per_minute(),
            malformed: LogThrottle::per_minute(),
        });
        Dialect::ALL.into_iter().fold(Router::new(), |router, dialect| {
            let checks = Arc::clone(&checks);
            let answer = move |request| {
                let checks = Arc::clone(&checks);
                async move { checks.answer(dialect, request).await }
            };
            router.route(dialect.path(), any(answer))
        })
    }
}

/// What the routes share.
struct Checks {
    service: RulesService<Admit>,
    trusted: TrustedPeers,
    _requirement: RulesRequirement,
    untrusted: LogThrottle,
    malformed: LogThrottle,
}

impl Checks {
    async fn answer(&self, dialect: Dialect, check: Request<Body>) -> Response<Body> {
        // A body is not forwarded by any of the proxies, and not read here.
        let (parts, _) = check.into_parts();
        let Some(ConnectInfo(peer)) = parts.extensions.get::<ConnectInfo<SocketAddr>>() else {
            tracing::error!(
                code = %codes::CHECK_WITHOUT_PEER,
                "the check endpoint finds no address of its peer: serve it with `into_make_service_with_connect_info`"
            );
            return answer::text(StatusCode::INTERNAL_SERVER_ERROR, "the server is misconfigured");
        };
        if !self.trusted.contains(peer.ip()) {
            self.untrusted.count(0, None, || {
                |counted| {
                    let times = counted.events;
                    tracing::warn!(code = %codes::CHECK_UNTRUSTED, times, "a peer that is not trusted asked for a check, and got 403: name the networks of your proxies by --trust, in code by `CheckEndpoint::trust`");
                }
            });
            return answer::text(StatusCode::FORBIDDEN, "this address may not ask for checks");
        }
        let request = match client_request(dialect, parts.headers) {
            Ok(request) => request,
            Err(malformed) => {
                let text = malformed.to_string();
                if !malformed.is_of_client() {
                    self.malformed.count(0, None, || {
                        let text = text.clone();
                        move |counted| {
                            let (times, path) = (counted.events, dialect.path());
                            tracing::warn!(code = %codes::CHECK_MALFORMED, times, path, "a proxy sends malformed checks: {text}");
                        }
                    });
                }
                return answer::malformed(dialect, malformed.is_of_client(), &text);
            }
        };
        let Ok(response) = self.service.clone().oneshot(request).await;
        answer::verdict(dialect, response.map(Body::new))
    }
}

/// Stands for the service that the proxy forwards requests to.
#[derive(Clone, Copy, Debug)]
struct Admit;

impl Service<Request<Body>> for Admit {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        let mut response = Response::new(Body::empty());
        response.extensions_mut().insert(Admitted);
        ready(Ok(response))
    }
}
