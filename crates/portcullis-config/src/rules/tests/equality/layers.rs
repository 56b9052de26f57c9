//! Options of the layer, and look-ups.

use portcullis_tower::{GrpcCode, RejectionFormat};

use super::*;

#[tokio::test(start_paused = true)]
async fn options_of_the_layer_are_those_of_the_builders() {
    let same = async |options: &str, layer: fn(RateLimitLayer) -> RateLimitLayer| {
        let text = format!("[layer]\n{options}\n{}", text(""));
        assert_same(&text, |registry| layer(peer(registry, gcra()))).await;
    };
    same("headers = \"none\"", |layer| layer.headers(RateLimitHeaders::NONE)).await;
    same("headers = [\"x-ratelimit-unix-time\", \"ietf\"]", |layer| {
        layer.headers(RateLimitHeaders::X_RATELIMIT.reset_as_unix_time() | RateLimitHeaders::IETF)
    })
    .await;
    same("headers = \"ietf-draft-6\"", |layer| layer.headers(RateLimitHeaders::IETF_DRAFT_6)).await;
    same("spread_retries = \"2s\"", |layer| layer.spread_retries(Duration::from_secs(2))).await;
    same("limit_preflights = true", RateLimitLayer::limit_preflights).await;
    same("lookup_deadline = \"1s\"\nready_deadline = \"5s\"", |layer| layer).await;
    same("discard_bodies = 1_000", |layer| layer.discard_bodies(1_000)).await;
    same("decision_in_response = true", RateLimitLayer::decision_in_response).await;
    same("reject_as = \"problem\"", |layer| layer.reject_as(RejectionFormat::Problem)).await;
    same("reject_as = \"json\"", |layer| layer.reject_as(RejectionFormat::Json)).await;
    same("with_charge = true", RateLimitLayer::with_charge).await;
    same("except = [{ path = \"/health\" }, { prefix = \"/static\" }]", |layer| {
        layer.except(RequestPath::exact("/health")).except(RequestPath::prefix("/static"))
    })
    .await;
    same("deny = [{ network = \"10.0.0.0/8\" }, { grpc = \"a.B\", method = \"GET\" }]", |layer| {
        layer
            .deny(Network::of(&ClientIp::peer(), ["10.0.0.0/8"]))
            .deny(GrpcMethod::service("a.B").and(Method::GET))
    })
    .await;
    same("only = [{ path = \"/export\" }, { method = \"POST\" }]", |layer| {
        layer.only(RequestPath::exact("/export")).only(Method::POST)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn grpc_status_is_that_of_limited_calls() {
    let statuses = async |text: &str| {
        let (registry, _) = registry();
        let service = layer_of(text, &registry)
            .layer(service_fn(async |_: Request<String>| Ok::<_, Infallible>(Response::new(String::new()))));
        let mut statuses = Vec::new();
        for key in ["a", "a", "a", ""] {
            let call = Request::post("/a.B/C")
                .header("content-type", "application/grpc")
                .header("x-user", key)
                .extension(SocketAddr::from(([192, 0, 2, 1], 1)));
            let response = service.clone().oneshot(call.body(String::new()).unwrap()).await.unwrap();
            let status =
                response.headers().get("grpc-status").map(|status| status.to_str().unwrap().to_owned());
            statuses.push(status.unwrap_or_default());
        }
        statuses
    };
    let text = keyed("{ header = \"x-user\" }").replace("shared", "reject").replace("burst 3", "burst 2");
    assert_eq!(statuses(&text).await, ["", "", "8", "3"]);
    let text = format!("[layer]\ngrpc_status = {}\n{text}", GrpcCode::Unavailable as u8);
    assert_eq!(statuses(&text).await, ["", "", "14", "3"]);
}

#[tokio::test(start_paused = true)]
async fn a_look_up_is_that_of_the_program() {
    let look_up = |parts: &http::request::Parts| {
        let key = parts.headers.get("x-api-key").map(|key| key.as_bytes().to_vec());
        async move {
            Ok(key.map_or_else(portcullis_tower::Lookup::missing, |key| {
                portcullis_tower::Lookup::found("user", key)
            }))
        }
    };
    let text = text("").replace("\"client_ip\"", "{ lookup = \"user\" }");
    let rules = Rules::load(&loader(&text).lookup("user", look_up)).unwrap();
    let set = rules.named("p").unwrap();
    let of_file = responses(|registry| rules.layer(&registry, &set).unwrap().unwrap()).await;
    let of_code = responses(|registry| RateLimitLayer::new(registry, gcra().by_async(look_up))).await;
    assert_eq!(of_file, of_code);
}
