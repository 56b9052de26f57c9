//! Headers of a layer of this workspace, which shows each policy by its own.

use portcullis_tower::{Global, PolicyExt as _, RateLimitHeaders, RateLimitLayer};

use super::*;

#[tokio::test(start_paused = true)]
async fn headers_by_policy_are_read() {
    let (peer, [registry, servers]) = (Peer::new(), processes());
    let tokens = Policy::token_bucket("tokens", Quota::per_minute(10).burst(15));
    let layer = RateLimitLayer::new(servers, tokens.by(Global).cost(15)).headers(RateLimitHeaders::BY_POLICY);
    let server = layer.layer(service_fn(async |_: Request<String>| Ok::<_, Infallible>(Response::new(()))));
    let answer = server.oneshot(Request::new(String::new())).await.unwrap();
    assert_eq!(answer.headers()["x-ratelimit-reset-tokens"], "1m30s");
    let headers = answer.headers().iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap()));
    peer.will_answer(200, &headers.collect::<Vec<_>>());

    let names = ["x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"];
    let hints = RemainingHeaders::named(names[0], names[1], ResetFormat::Seconds);
    let layer = OutgoingLayer::new(registry, ten_per_second()).remaining_headers(hints).close_at_zero();
    let client = peer.client(&layer.closed_at_most(Duration::from_secs(600)));
    assert_eq!(send(&client).await.unwrap(), 200);
    assert_eq!(not_sent(send(&client).await), (90_000, true));
}
