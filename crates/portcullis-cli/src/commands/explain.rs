//! `portcullis explain`: which rules match a request, and what they decide.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::future::ready;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use clap::Args;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};
use portcullis_config::{Match, Rule, Rules};
use portcullis_core::{Decision, Secret, Strategy};
use portcullis_memory::MemoryStore;
use portcullis_tower::{ClientIp, Mode, Registry};
use serde_json::{Map, Value, json};
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::findings::{self, OutputFormat};
use crate::load::LoadArguments;
use crate::request::{parse_header, parse_peer, parse_request};

/// Prints which rules match a request and why, by which key it is charged, and the response to the first such request.
///
/// It runs the code of the layer, with a store in memory that is empty.
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// The rules.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    load: LoadArguments,

    /// The method and the path, or a whole URL, as in `'GET /search?q=x'`.
    #[arg(long, value_name = "METHOD PATH", value_parser = parse_request)]
    request: (Method, Uri),

    /// A header of the request, as in `'x-api-key: k'`. May be given several times.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = parse_header)]
    headers: Vec<(HeaderName, HeaderValue)>,

    /// The address at the other end of the connection.
    #[arg(long, value_name = "ADDR", default_value = "192.0.2.1", value_parser = parse_peer)]
    peer: IpAddr,

    /// The status of the response of the service, which decides under rules that charge by the outcome.
    #[arg(long, value_name = "STATUS", default_value = "200")]
    status: StatusCode,

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

impl Explain {
    /// Prints the explanation. Returns whether the rules could be read.
    pub(crate) fn run(self) -> anyhow::Result<bool> {
        let rules = match Rules::load(&self.load.loader(&self.file)) {
            Ok(rules) => rules,
            Err(findings) => {
                findings::print(&findings, OutputFormat::Text)?;
                return Ok(false);
            }
        };
        // `check` shows the notes, to the author of the file.
        findings::print_beside_output(&rules.warnings().without_notes())?;
        let request = self.request().into_parts().0;
        let explained = Explained {
            matches: rules.explain(&request),
            listed: rules.explain_lists(&request),
            client: self.client(rules.client_ip()),
            response: respond(&rules, self.request(), self.status)?,
        };
        if self.json {
            println!("{}", explained.as_json());
        } else {
            print!("{}", explained.as_text());
        }
        Ok(true)
    }

    /// The address that `client_ip` is, and where it is from, or why there is none.
    fn client(&self, clients: &ClientIp) -> Result<String, String> {
        let request = self.request();
        let address = clients.find(self.peer, request.headers()).map_err(|error| error.to_string())?;
        let network = clients.prefix(address).to_string();
        let is_charged_by_network =
            network.rsplit_once('/').is_some_and(|(_, length)| !["32", "128"].contains(&length));
        let network = if is_charged_by_network { format!(", charged by {network}") } else { String::new() };
        let from = match clients.header() {
            Some(header) if clients.trusts(self.peer) && request.headers().contains_key(header) => {
                format!("from {header}")
            }
            Some(header) if request.headers().contains_key(header) => {
                format!("the peer, which is no trusted proxy, so that {header} is ignored")
            }
            _ => "the peer".to_owned(),
        };
        Ok(format!("{address}, {from}{network}"))
    }

    fn request(&self) -> Request<String> {
        let (method, uri) = self.request.clone();
        let mut request = Request::new(String::new());
        (*request.method_mut(), *request.uri_mut()) = (method, uri);
        for (name, value) in &self.headers {
            request.headers_mut().append(name, value.clone());
        }
        request.extensions_mut().insert(SocketAddr::new(self.peer, 0));
        request
    }
}

/// The response of an inner service that answers every request with 200.
fn respond(rules: &Rules, request: Request<String>, status: StatusCode) -> anyhow::Result<Response<String>> {
    let (parts, body) = request.into_parts();
    let store = Arc::new(MemoryStore::new());
    let registry = Arc::new(Registry::new(store, Secret::published()));
    let layer = rules.layer(&registry, &rules.matching(&parts))?;
    let layer = layer.unwrap_or_else(|| rules.denials(&registry));
    let service = layer.decision_in_response().layer(service_fn(|_: Request<String>| {
        let mut response = Response::new(String::new());
        *response.status_mut() = status;
        response.extensions_mut().insert(Left::default());
        ready(Ok::<_, Infallible>(response))
    }));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let (parts, body) = runtime.block_on(service.oneshot(Request::from_parts(parts, body)))?.into_parts();
    let body = runtime.block_on(to_bytes(Body::new(body), MAX_BODY))?;
    let mut response = Response::from_parts(parts, String::from_utf8_lossy(&body).into_owned());
    // As the response leaves, in which an outcome that is not charged is refunded.
    if let Some(decision) = response.extensions().get::<Decision>() {
        let (limit, policy) = (decision.limit(), decision.policy());
        let left = format!("{} of {limit} left under {policy}", decision.remaining());
        if let Some(Left(shown)) = response.extensions_mut().get_mut() {
            *shown = Some(left);
        }
    }
    Ok(response)
}

/// What the decisive policy has left, as text.
#[derive(Clone, Default)]
struct Left(Option<String>);

/// A strategy as a file states it: `token_bucket, quota 10/s burst 20`.
fn described(strategy: &Strategy) -> String {
    let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(strategy) else {
        return strategy.tag().to_owned();
    };
    let fields = fields.iter().filter(|(name, _)| *name != "strategy");
    let fields = fields.map(|(name, value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
        format!(", {name} {text}")
    });
    std::iter::once(strategy.tag().to_owned()).chain(fields).collect()
}

/// The mode as people read it.
fn mode_of(rule: &Rule) -> String {
    match rule.mode() {
        Mode::Percent(share) => format!("enforced for {share} of the keys, in shadow for the others"),
        Mode::ShadowPercent(share) => format!("in shadow for {share} of the keys, off for the others"),
        mode => format!("mode {mode}"),
    }
}

/// What is printed.
struct Explained<'r> {
    matches: Vec<Match<'r>>,
    /// What the lists of the layer make of the request.
    listed: Option<String>,
    client: Result<String, String>,
    response: Response<String>,
}

impl Explained<'_> {
    fn as_text(&self) -> String {
        let Self { matches, listed, client, response } = self;
        let mut text = String::new();
        for one in matches {
            let rule = one.rule();
            let name = rule.name();
            let _ = match one.mismatch() {
                None => {
                    let strategy = described(rule.policy().strategy());
                    let (key, mode) = (rule.key(), mode_of(rule));
                    let failure = rule.policy().failure_mode();
                    let _ = writeln!(text, "{name}: matches\n  {strategy}\n  charged to {key}\n  {mode}");
                    if let Some(entry) = one.exempted_by() {
                        let _ = writeln!(text, "  exempt by {entry}");
                    }
                    if let Some(tier) = one.tier() {
                        let _ = writeln!(text, "  tier: {tier}");
                    }
                    for option in rule.options() {
                        let _ = writeln!(text, "  {option}");
                    }
                    writeln!(text, "  if the store fails: {failure}")
                }
                Some(condition) => writeln!(text, "{name}: does not match {condition}"),
            };
        }
        if let Some(listed) = listed {
            let _ = writeln!(text, "{listed}");
        }
        if !matches.iter().any(Match::matches) && response.status() == StatusCode::OK {
            text.push_str("no rule matches: the request is not limited\n");
            return text;
        }
        let _ = match client {
            Ok(client) => writeln!(text, "client_ip = {client}"),
            Err(error) => writeln!(text, "no client_ip: {error}"),
        };
        let _ = writeln!(text, "the first such request gets {}", response.status().as_u16());
        if let Some(Left(Some(left))) = response.extensions().get() {
            let _ = writeln!(text, "  {left}");
        }
        for (name, value) in response.headers() {
            let _ = writeln!(text, "  {name}: {}", String::from_utf8_lossy(value.as_bytes()));
        }
        for line in response.body().lines() {
            let _ = writeln!(text, "  {}", line.replace(char::is_control, ""));
        }
        text
    }

    fn as_json(&self) -> Value {
        let Self { matches, listed, client, response } = self;
        let rules = matches.iter().map(|one| {
            let rule = one.rule();
            json!({
                "rule": rule.name().to_string(),
                "matches": one.matches(),
                "does_not_match": one.mismatch(),
                "strategy": described(rule.policy().strategy()),
                "key": rule.key().to_string(),
                "mode": rule.mode().to_string(),
                "exempted_by": one.exempted_by(),
                "tier": one.tier(),
                "options": rule.options(),
                "if_store_fails": rule.policy().failure_mode().to_string(),
            })
        });
        let headers = response.headers().iter();
        let headers =
            headers.map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into()));
        json!({
            "rules": rules.collect::<Vec<_>>(),
            "lists": listed,
            "client_ip": client.as_ref().ok(),
            "response": {
                "status": response.status().as_u16(),
                "left": response.extensions().get().and_then(|Left(left)| left.as_ref()),
                "headers": headers.collect::<Map<_, Value>>(),
                "body": response.body(),
            },
        })
    }
}

/// More than the body of a rejection has.
const MAX_BODY: usize = 1 << 20;
