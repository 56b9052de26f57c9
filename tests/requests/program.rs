//! The program around the limits: what it registers by name, what it adds to requests, and the service behind the limits.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Body;
use axum::body::Bytes;
use axum::extract::Request;
use axum::http::Response;
use axum::http::request::Parts;
use axum::routing::any;
use axum::{Extension as Extract, Router};
use portcullis::charge::{ResponseOutcome, Usage};
use portcullis::key::{KeyError, KeyWriter, Lookup};
use portcullis::layer::QuotaLookup;
use portcullis::rules::{Loader, Tier};
use portcullis::{Quota, Rejection};
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;

use crate::timeline::{Handler, Step};

/// The account that authentication has found.
#[derive(Clone, Debug)]
pub(crate) struct Account(pub(crate) String);

/// The service, with the answers that it will give.
#[derive(Clone, Debug, Default)]
pub(crate) struct Service(Arc<Mutex<VecDeque<Planned>>>);

/// One answer. The body ends when its sender is dropped.
#[derive(Debug)]
struct Planned {
    handler: Handler,
    body: mpsc::Receiver<Bytes>,
}

impl Service {
    /// Plans the answer to the next request. Its body goes on until what is returned is dropped.
    pub(crate) fn plan(&self, handler: Handler) -> mpsc::Sender<Bytes> {
        let (body, receiver) = mpsc::channel(1);
        let mut planned = self.planned();
        // The answer to a request that was rejected.
        planned.clear();
        planned.push_back(Planned { handler, body: receiver });
        body
    }

    /// A router with one route that has a parameter, and everything else. Its handlers need the [`extension`](Self::extension).
    pub(crate) fn router() -> Router {
        let answer =
            any(|Extract(service): Extract<Self>, request: Request| async move { service.answer(&request) });
        Router::new()
            .route("/items/{id}", answer.clone())
            .route("/", answer.clone())
            .route("/{*rest}", answer)
    }

    /// Makes the service known to the handlers.
    pub(crate) fn extension(&self) -> Extract<Self> {
        Extract(self.clone())
    }

    fn answer(&self, request: &Request) -> Response<Body> {
        let Planned { handler, body } = self.planned().pop_front().expect("the runner plans each answer");
        if let (Some(units), Some(usage)) = (handler.uses, request.extensions().get::<Usage>()) {
            usage.add(units);
        }
        let bytes = ReceiverStream::new(body).map(Ok::<_, Infallible>);
        let mut response = Response::builder().status(handler.status);
        for (name, value) in &handler.headers {
            response = response.header(name, value);
        }
        response.body(Body::from_stream(bytes)).expect("the file has a valid answer")
    }

    fn planned(&self) -> MutexGuard<'_, VecDeque<Planned>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds to a request what authentication in front of the layer would add.
pub(crate) fn authenticate(step: &Step, request: &mut Request) {
    for (name, value) in &step.program {
        match name.as_str() {
            "account" => drop(request.extensions_mut().insert(Account(value.clone()))),
            "tier" => drop(request.extensions_mut().insert(Tier::new(value.clone()))),
            other => panic!("the program adds no {other}"),
        }
    }
}

/// Registers the names that the files use.
pub(crate) fn register(loader: Loader) -> Loader {
    loader
        .extension::<Account>("account", write_account)
        .lookup("owner", owner())
        .cost("items", items)
        .charge_when("failed", failed)
        .quota_lookup("contract", contract())
        .rejection("page", page)
        .matcher("internal", is_internal)
}

pub(crate) fn write_account(account: &Account, key: &mut KeyWriter<'_>) {
    key.part("account", account.0.as_bytes());
}

/// Looks up the account that owns an API key.
pub(crate) fn owner() -> impl Fn(&Parts) -> Looking<Lookup> {
    |parts| {
        let key = header(parts, "x-api-key");
        Box::pin(async move {
            match key.as_deref() {
                None | Some("unknown") => Ok(Lookup::missing()),
                Some("slow") => std::future::pending().await,
                Some(key) => Ok(Lookup::found("owner", key.split('-').next().unwrap_or_default())),
            }
        })
    }
}

type Looking<T> = std::pin::Pin<Box<dyn Future<Output = Result<T, KeyError>> + Send>>;

/// The quota that an account has by its contract.
pub(crate) fn contract() -> QuotaLookup {
    QuotaLookup::new(|parts: &Parts| {
        let account = header(parts, "x-account");
        async move { Ok((account.as_deref() == Some("large")).then(|| Quota::per_hour(4))) }
    })
}

/// The number of items that a request asks for.
pub(crate) fn items(parts: &Parts) -> u64 {
    header(parts, "x-items").and_then(|items| items.parse().ok()).unwrap_or(1)
}

/// Whether a response reports that it has failed.
pub(crate) fn failed(outcome: &ResponseOutcome<'_>) -> bool {
    outcome.headers().contains_key("x-failed")
}

/// A page for people.
pub(crate) fn page(rejection: &Rejection<'_>) -> Response<Bytes> {
    let response = Response::builder().status(rejection.status());
    response.body(format!("<p>{}</p>", rejection.status()).into()).expect("the response is valid")
}

/// Whether the request comes from the inside.
pub(crate) fn is_internal(parts: &Parts) -> bool {
    header(parts, "x-internal").as_deref() == Some("yes")
}

fn header(parts: &Parts, name: &str) -> Option<String> {
    Some(parts.headers.get(name)?.to_str().ok()?.to_owned())
}
