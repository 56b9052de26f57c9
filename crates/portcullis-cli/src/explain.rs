//! `portcullis explain`: which rules match a request, and what they decide.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use http::{HeaderName, HeaderValue, Method, Request, Response, Uri};
use portcullis_config::Rules;
use portcullis_core::{Secret, Strategy};
use portcullis_memory::MemoryStore;
use portcullis_tower::{Charge, Registry};
use serde_json::json;
use tower_layer::Layer as _;
use tower_service::Service as _;

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

    /// Prints a JSON object.
    #[arg(long)]
    json: bool,
}

impl Explain {
    /// Prints the explanation. Returns whether the rules could be read.
    pub(crate) fn run(self) -> anyhow::Result<bool> {
        let rules = match Rules::load(&self.load.loader(&self.file)) {
            Ok(rules) => {
                findings::print_beside_output(rules.warnings())?;
                rules
            }
            Err(findings) => {
                findings::print(&findings, OutputFormat::Text)?;
                return Ok(false);
            }
        };
        let (parts, ()) = self.parts().into_parts();
        let matches: Vec<_> = rules
            .explain(&parts)
            .into_iter()
            .map(|one| Explained {
                name: one.rule().name().to_string(),
                strategy: described(one.rule().policy().strategy()),
                key: one.rule().key().to_string(),
                mode: one.rule().mode().to_string(),
                missed: one.mismatch().map(ToOwned::to_owned),
            })
            .collect();
        let response = self.respond(&rules)?;
        if self.json {
            println!("{}", as_json(&matches, &response));
        } else {
            print!("{}", as_text(&matches, &response));
        }
        Ok(true)
    }

    fn parts(&self) -> Request<()> {
        let (method, uri) = self.request.clone();
        let mut request = Request::new(());
        (*request.method_mut(), *request.uri_mut()) = (method, uri);
        for (name, value) in &self.headers {
            request.headers_mut().append(name, value.clone());
        }
        request.extensions_mut().insert(SocketAddr::new(self.peer, 0));
        request
    }

    /// The response of an inner service that always answers 200.
    fn respond(&self, rules: &Rules) -> anyhow::Result<Answer> {
        let store = Arc::new(MemoryStore::new());
        let registry = Arc::new(Registry::new(store, Secret::published()));
        let request = self.parts().map(|()| String::new());
        let (parts, body) = request.into_parts();
        let matching = rules.matching(&parts);
        let Some(layer) = rules.layer(&registry, &matching)? else { return Ok(Answer::unlimited()) };
        let mut service = layer.layer(Inner);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let response = runtime.block_on(service.call(Request::from_parts(parts, body)))?;
        let headers = response.headers().iter();
        let headers = headers
            .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()));
        Ok(Answer {
            status: response.status().as_u16(),
            headers: headers.collect(),
            decisive: response.extensions().get::<Decisive>().map(|decisive| decisive.0.clone()),
        })
    }
}

/// A rule, and whether it matches.
struct Explained {
    name: String,
    strategy: String,
    key: String,
    mode: String,
    missed: Option<String>,
}

struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    decisive: Option<String>,
}

impl Answer {
    fn unlimited() -> Self {
        Self { status: 200, headers: Vec::new(), decisive: None }
    }
}

/// What the decisive policy has left, as text.
#[derive(Clone)]
struct Decisive(String);

/// A service that answers every request with 200.
#[derive(Clone)]
struct Inner;

impl tower_service::Service<Request<String>> for Inner {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Response<String>, Infallible>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<String>) -> Self::Future {
        let mut response = Response::new(String::new());
        if let Some(charge) = request.extensions().get::<Charge>() {
            let decision = charge.decision();
            let left =
                format!("{} of {} left under {}", decision.remaining(), decision.limit(), decision.policy());
            response.extensions_mut().insert(Decisive(left));
        }
        std::future::ready(Ok(response))
    }
}

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

fn as_text(matches: &[Explained], answer: &Answer) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    for Explained { name, strategy, key, mode, missed } in matches {
        let _ = match missed {
            None => writeln!(text, "{name}: matches\n  {strategy}\n  charged to {key}\n  mode {mode}"),
            Some(condition) => writeln!(text, "{name}: does not match {condition}"),
        };
    }
    if matches.iter().all(|one| one.missed.is_some()) {
        text.push_str("no rule matches: the request is not limited\n");
        return text;
    }
    let _ = writeln!(text, "the first such request gets {}", answer.status);
    if let Some(left) = &answer.decisive {
        let _ = writeln!(text, "  {left}");
    }
    for (name, value) in &answer.headers {
        let _ = writeln!(text, "  {name}: {value}");
    }
    text
}

fn as_json(matches: &[Explained], answer: &Answer) -> serde_json::Value {
    let rules: Vec<_> = matches
        .iter()
        .map(|one| {
            json!({
                "rule": one.name,
                "matches": one.missed.is_none(),
                "does_not_match": one.missed,
                "strategy": one.strategy,
                "key": one.key,
                "mode": one.mode,
            })
        })
        .collect();
    let headers: serde_json::Map<_, _> =
        answer.headers.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
    json!({ "rules": rules, "response": { "status": answer.status, "left": answer.decisive, "headers": headers } })
}
