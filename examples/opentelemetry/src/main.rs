//! An Axum server whose limits are in the spans of its requests, exported by OpenTelemetry.
//!
//! ```text
//! cargo run -p opentelemetry-example      # prints the spans
//! OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4317 cargo run -p opentelemetry-example      # sends them to a collector, by OTLP over gRPC
//! curl http://127.0.0.1:3000/search       # the fourth is rejected
//! curl http://127.0.0.1:3000/trial        # the second would be rejected
//! ```
//!
//! `REDIS_URL` keeps the limits in Redis, and `PORT` chooses another port.

mod app;

use std::env::{self, VarError};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Context as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use portcullis::Limiter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let spans = exporter()?;
    // Logs are written to stderr, and to the spans as their events. Below `info` is what the exporter does itself.
    tracing_subscriber::registry()
        .with("info,fred=error".parse::<Targets>()?)
        .with(tracing_subscriber::fmt::layer().with_writer(io::stderr))
        .with(tracing_opentelemetry::layer().with_tracer(spans.tracer("opentelemetry-example")))
        .init();

    let limiter = match env::var("REDIS_URL") {
        Ok(url) => Limiter::redis(url).await.context("REDIS_URL")?,
        Err(VarError::NotPresent) => Limiter::memory(),
        Err(error) => return Err(error).context("REDIS_URL"),
    };
    let app = app::app(limiter).into_make_service_with_connect_info::<SocketAddr>();

    let port =
        env::var("PORT").map_or(Ok(3000), |port| port.parse()).context("PORT must be a port number")?;
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let listener = listener.await.with_context(|| format!("cannot listen on port {port}"))?;
    let address = listener.local_addr()?;
    println!("listening on http://{address}, try");
    println!("  curl http://{address}/search");
    println!("  curl http://{address}/trial");
    let stopped = async { tokio::signal::ctrl_c().await.unwrap_or_default() };
    axum::serve(listener, app).with_graceful_shutdown(stopped).await?;
    // Sends what is left.
    tokio::task::spawn_blocking(move || spans.shutdown()).await??;
    Ok(())
}

/// Sends spans to the collector that `OTEL_EXPORTER_OTLP_ENDPOINT` names, in batches; without one it prints each.
fn exporter() -> anyhow::Result<SdkTracerProvider> {
    let provider = match env::var("OTEL_EXPORTER_OTLP_ENDPOINT") {
        Ok(_) => {
            let collector = opentelemetry_otlp::SpanExporter::builder().with_tonic().build()?;
            SdkTracerProvider::builder().with_batch_exporter(collector)
        }
        Err(VarError::NotPresent) => {
            SdkTracerProvider::builder().with_simple_exporter(opentelemetry_stdout::SpanExporter::default())
        }
        Err(error) => return Err(error).context("OTEL_EXPORTER_OTLP_ENDPOINT"),
    };
    let service = Resource::builder().with_service_name("opentelemetry-example").build();
    Ok(provider.with_resource(service).build())
}
