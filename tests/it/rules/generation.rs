//! One generation, wherever it is read: a header of a response, the metrics and the admin API.

use axum::http::request::Parts;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use portcullis::admin::{Actor, Refused, has_bearer_token};
use portcullis::metrics::Metrics;

use super::*;

const TOKEN: &str = "9f86d081884c7d65";

/// A server with metrics and the admin API.
struct Shown {
    url: String,
    exporter: PrometheusHandle,
    client: HttpClient,
}

impl Shown {
    async fn start(limiter: Limiter) -> Self {
        let recorder = PrometheusBuilder::new().build_recorder();
        let exporter = recorder.handle();
        let limiter = limiter.metrics_with(&Metrics::with_recorder(recorder));
        limiter.refresh_metrics();
        let admin = limiter.admin(|parts: &Parts| {
            let is_known = has_bearer_token(parts, TOKEN);
            if is_known { Ok(Actor::new("grace")) } else { Err(Refused::Unauthenticated) }
        });
        let app = Router::new()
            .route("/search", get(async || "found"))
            .layer(limiter.rules().unwrap().layer())
            .nest("/limits", admin.into_router());
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(axum::serve(listener, app).into_future());
        Self { url, exporter, client: HttpClient::http_1() }
    }

    /// The generation in a header, in the metrics and in the admin API.
    async fn generations(&self) -> [u64; 3] {
        let request = Request::get(format!("{}/search", self.url)).header("x-rules", "?");
        let response = self.client.send(request, ()).await;
        let header = response.headers()["x-rules"].to_str().unwrap().parse().unwrap();

        let metrics = self.exporter.render();
        let line = metrics.lines().find_map(|line| line.strip_prefix("portcullis_rules_generation "));
        let metric = line.unwrap().parse().unwrap();

        let request = Request::get(format!("{}/limits/v1/snapshot", self.url));
        let request = request.header("authorization", format!("Bearer {TOKEN}"));
        let response = self.client.send(request, ()).await;
        let snapshot: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
        [header, metric, snapshot["generation"].as_u64().unwrap()]
    }
}

async fn generations_are_shown(file: &Limits, limiter: Limiter) {
    let live = limiter.rules().unwrap().clone();
    let shown = Shown::start(limiter).await;
    assert_eq!(shown.generations().await, [1; 3]);

    file.write(&limits(20));
    live.reload().unwrap();
    assert_eq!(shown.generations().await, [2; 3]);

    // A file that is refused leaves it as it is.
    file.write(&limits(20).replace("20/w", "twenty"));
    live.reload().unwrap_err();
    assert_eq!(shown.generations().await, [2; 3]);

    file.write(&limits(30));
    live.swap(file.rules()).unwrap();
    assert_eq!(shown.generations().await, [3; 3]);
}

#[tokio::test]
async fn the_generation_is_the_same_everywhere_in_memory() {
    let file = Limits::new("generation-memory", &limits(10));
    generations_are_shown(&file, Limiter::memory().with_rules(file.rules()).unwrap()).await;
}

#[tokio::test]
async fn the_generation_is_the_same_everywhere_on_redis() {
    let (redis, file) = (RedisServer::start().unwrap(), Limits::new("generation-redis", &limits(10)));
    generations_are_shown(&file, on_redis(&redis, file.rules()).await).await;
}
