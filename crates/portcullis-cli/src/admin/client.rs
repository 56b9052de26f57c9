//! One request to an admin API, within a deadline.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use serde_json::Value;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body};

use super::place::Place;
use super::text;
use super::token::Token;

/// Sends requests with a token to one place, and follows no redirects: another place would get the token.
pub(super) struct Client {
    agent: Agent,
    place: Place,
    authorization: HeaderValue,
}

/// What a server has answered, or why it does not do what it was asked for.
pub(super) type Reply = Result<Value, String>;

impl Client {
    pub(super) fn new(place: Place, token: &Token, plain_http: bool) -> anyhow::Result<Self> {
        ensure!(
            place.is_encrypted() || place.is_loopback() || plain_http,
            "{place} is another machine, and http is not encrypted: use https, or --plain-http in a network that you trust"
        );
        let mut config = Agent::config_builder()
            .timeout_global(Some(DEADLINE))
            .http_status_as_error(false)
            .max_redirects(0)
            // A proxy that the environment names would get the token as well.
            .proxy(None)
            .user_agent(concat!("portcullis/", env!("CARGO_PKG_VERSION")));
        if place.is_encrypted() {
            config = config.tls_config(tls()?);
        }
        Ok(Self { agent: config.build().into(), place, authorization: token.authorization() })
    }

    pub(super) fn get(&self, path: &str) -> anyhow::Result<Reply> {
        let url = self.place.join(path);
        let request = self.agent.get(&url).header(header::AUTHORIZATION, self.authorization.clone());
        Self::reply(&url, request.header(header::ACCEPT, JSON).call())
    }

    pub(super) fn post(&self, path: &str, body: &impl Serialize) -> anyhow::Result<Reply> {
        let url = self.place.join(path);
        let request = self.agent.post(&url).header(header::AUTHORIZATION, self.authorization.clone());
        let request = request.header(header::ACCEPT, JSON).header(header::CONTENT_TYPE, JSON);
        Self::reply(&url, request.send(serde_json::to_string(body)?))
    }

    fn reply(url: &str, result: Result<http::Response<Body>, ureq::Error>) -> anyhow::Result<Reply> {
        let mut response = result.map_err(|error| explained(url, &error))?;
        let status = response.status();
        if status.is_redirection() {
            let target = response.headers().get(header::LOCATION).and_then(|target| target.to_str().ok());
            let target = text::printable(target.unwrap_or("nowhere"));
            bail!(
                "{url} redirects to {target} ({status}), where the token is not sent: give that URL if it is the admin API"
            );
        }
        let body = response.body_mut().with_config().limit(MAX_ANSWER).read_to_vec();
        let body = body.map_err(|error| explained(url, &error))?;
        if !status.is_success() {
            return Ok(Err(refusal(url, status, &body)));
        }
        if body.is_empty() {
            return Ok(Ok(Value::Null));
        }
        let answer = serde_json::from_slice(&body);
        let answer =
            answer.with_context(|| format!("{url} answered {status} without JSON: is it the admin API?"))?;
        Ok(Ok(answer))
    }
}

fn tls() -> anyhow::Result<TlsConfig> {
    let native = rustls_native_certs::load_native_certs();
    let certificates: Vec<_> =
        native.certs.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect();
    ensure!(!certificates.is_empty(), "no certificates are trusted here: set SSL_CERT_FILE");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&certificates))
        .unversioned_rustls_crypto_provider(provider)
        .build())
}

/// An error that names the URL, and what to do.
fn explained(url: &str, error: &ureq::Error) -> anyhow::Error {
    let fix = match error {
        ureq::Error::Timeout(_) => format!("no answer within {} s", DEADLINE.as_secs()),
        ureq::Error::BodyExceedsLimit(_) => {
            format!("an answer of more than {} MiB: is it the admin API?", MAX_ANSWER >> 20)
        }
        ureq::Error::Io(io) if io.kind() == std::io::ErrorKind::TimedOut => {
            format!("no answer within {} s", DEADLINE.as_secs())
        }
        ureq::Error::Rustls(_) | ureq::Error::Tls(_) => UNTRUSTED.to_owned(),
        // So a handshake fails.
        ureq::Error::Io(io) if io.kind() == std::io::ErrorKind::InvalidData && url.starts_with("https:") => {
            UNTRUSTED.to_owned()
        }
        ureq::Error::Io(_) | ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => {
            "no connection, or it broke: is the service running, and is this the address of its admin API?"
                .to_owned()
        }
        _ => "no valid answer: is it the admin API?".to_owned(),
    };
    let cause = text::printable(&error.to_string());
    anyhow::anyhow!("{url}: {fix} ({cause})")
}

/// Why a server refuses, and what to do.
fn refusal(url: &str, status: StatusCode, body: &[u8]) -> String {
    let mut text = format!("{url} answered {status}");
    let detail = text::detail(body);
    if !detail.is_empty() {
        text = format!("{text}: {detail}");
    }
    let fix = match status.as_u16() {
        401 => "set PORTCULLIS_ADMIN_TOKEN, or give --token-file FILE, with a token that the service accepts",
        403 | 421 => "use a token that may do this, and a host of the URL that the admin router allows",
        404 | 405 => "check that the admin router is at this URL, and the name of the policy with `policies`",
        429 | 503 => "try again later",
        _ => return text,
    };
    format!("{text}\n  {fix}")
}

const UNTRUSTED: &str = "no encrypted connection: SSL_CERT_FILE names the certificates that are trusted";

const JSON: &str = "application/json";

/// From the look-up of the host to the end of the answer.
const DEADLINE: Duration = Duration::from_secs(10);

/// The largest answer in bytes.
const MAX_ANSWER: u64 = 16 << 20;
