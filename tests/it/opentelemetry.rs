//! The example with OpenTelemetry: what is decided about a request is in the attributes of its exported span.

#[path = "../../examples/opentelemetry/src/app.rs"]
mod app;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use portcullis::Limiter;
use portcullis_servers::{RedisServer, within_a_minute};
use portcullis_tests::{get, set_global_subscriber};
use tokio::net::TcpListener;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::process::Process;

/// The attributes of a limit, without their prefix.
fn limits_of(span: &SpanData) -> BTreeMap<String, String> {
    let attributes = span.attributes.iter();
    let of_limits = attributes.filter_map(|attribute| {
        let name = attribute.key.as_str().strip_prefix("rate_limit.")?;
        Some((name.to_owned(), attribute.value.to_string()))
    });
    of_limits.collect()
}

fn attribute(span: &SpanData, name: &str) -> String {
    let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == name);
    found.unwrap_or_else(|| panic!("no {name}: {span:?}")).value.to_string()
}

/// Waits for the span of a request, which ends after its response.
async fn next_span(exporter: &InMemorySpanExporter) -> SpanData {
    let span = async {
        loop {
            if let Some(span) = exporter.get_finished_spans().unwrap().pop() {
                exporter.reset();
                return span;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within_a_minute("span", span).await
}

async fn the_limits_are_in_the_spans(limiter: Limiter) {
    set_global_subscriber();
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let spans = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    let log = tracing_subscriber::registry().with("info".parse::<Targets>().unwrap()).with(spans);
    let _guard = tracing::subscriber::set_default(log);

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let app = app::app(limiter).into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(axum::serve(listener, app).into_future());

    let admitted =
        |policy, remaining| vec![("outcome", "admitted"), ("policy", policy), ("remaining", remaining)];
    let rejected =
        vec![("outcome", "rejected"), ("policy", "search"), ("reason", "limited"), ("remaining", "0")];
    let would_reject =
        vec![("outcome", "would_reject"), ("policy", "trial"), ("remaining", "0"), ("would_reject", "trial")];
    for (path, status, expected) in [
        ("/search", 200, admitted("search", "2")),
        ("/search", 200, admitted("search", "1")),
        ("/search", 200, admitted("search", "0")),
        ("/search", 429, rejected),
        ("/trial", 200, admitted("trial", "0")),
        ("/trial", 200, would_reject),
    ] {
        assert_eq!(get(&format!("{url}{path}")).await.status(), status);
        let span = next_span(&exporter).await;
        assert_eq!(span.name, format!("GET {path}"));
        assert_eq!(attribute(&span, "http.response.status_code"), status.to_string());
        let limits = limits_of(&span);
        let limits: Vec<_> = limits.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(limits, expected, "{path}");
    }
}

#[tokio::test]
async fn limits_in_memory_are_in_the_spans() {
    the_limits_are_in_the_spans(Limiter::memory()).await;
}

#[tokio::test]
async fn limits_on_redis_are_in_the_spans() {
    let redis = RedisServer::start().unwrap();
    the_limits_are_in_the_spans(Limiter::redis(redis.url()).deadline(Duration::from_secs(5)).await.unwrap())
        .await;
}

#[tokio::test]
async fn the_example_exports_the_span_of_a_request() {
    let mut server = Process::opentelemetry().await;
    for expected in ["admitted", "admitted", "admitted", "rejected"] {
        server.get("/search").await;
        let outcome = server.line_with(" rate_limit.outcome: ").await;
        assert!(outcome.contains(&format!("{expected:?}")), "{outcome}");
        let outcome = server.line_with(" rate_limit.policy: ").await;
        assert!(outcome.contains("\"search\""), "{outcome}");
    }
}
