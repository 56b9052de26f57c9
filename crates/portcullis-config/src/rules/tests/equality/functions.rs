//! What makes responses and matches requests, and has only a name in the file.

use bytes::Bytes;
use http::request::Parts;
use portcullis_tower::{PolicyExt as _, RateLimitLayer, Rejection};

use super::*;

fn page(rejection: &Rejection<'_>) -> Response<Bytes> {
    let text = format!("{:?} of {}", rejection.reason(), rejection.parts().uri);
    Response::builder().status(rejection.status().as_u16() + 50).body(text.into()).unwrap()
}

fn has_account(parts: &Parts) -> bool {
    parts.extensions.get::<Account>().is_some_and(|account| account.0 == 1)
}

async fn same(text: &str, make: impl FnOnce(Start) -> RateLimitLayer) {
    let loader = loader(text).rejection("page", page).matcher("account", has_account);
    let rules = Rules::load(&loader).unwrap_or_else(|findings| panic!("{text}\n{findings}"));
    let all: RuleSet = (0..rules.iter().len()).collect();
    let of_file = responses(|registry| rules.layer(&registry, &all).unwrap().unwrap()).await;
    let of_code = responses(make).await;
    assert_eq!(of_file, of_code, "{text}");
}

#[tokio::test(start_paused = true)]
async fn responses_are_those_of_the_builder() {
    let rejects = |registry: Start| peer(registry, gcra()).reject_with(page);
    let field = "reject_with = { function = \"page\" }";
    same(&text(field), rejects).await;
    same(&format!("[layer]\n{field}\n{}", text("")), rejects).await;
    // Requests without a key too, which no policy rejects.
    let key = "{ header = \"x-api-key\" }";
    for text in [keyed(&format!("{key}\n{field}")), format!("[layer]\n{field}\n{}", keyed(key))] {
        same(&text.replace("shared", "reject"), |registry| {
            let all = Policy::gcra("all", Quota::per_second(100_000).burst(100_000));
            let layer = RateLimitLayer::new(registry, gcra().by(Header::named("x-api-key")));
            layer.and(all.by(ClientIp::peer()).hide()).reject_with(page)
        })
        .await;
    }
    let in_flight = format!("{field}\nin_flight = {{ limit = 4 }}");
    same(&text(&in_flight), |registry| {
        peer(registry, gcra()).and(Concurrency::new("p.in_flight", 4)).reject_with(page)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn matchers_are_those_of_the_builder() {
    let named = "{ function = \"account\" }";
    let same_lists = async |lists: &str, layer: fn(RateLimitLayer) -> RateLimitLayer| {
        let text = format!("[layer]\n{lists}\n{}", text(""));
        same(&text, |registry| layer(peer(registry, gcra()))).await;
    };
    same_lists(&format!("except = {named}"), |layer| layer.except(has_account)).await;
    same_lists(&format!("deny = [{named}, {{ path = \"/health\" }}]"), |layer| {
        layer.deny(has_account).deny(RequestPath::exact("/health"))
    })
    .await;
    same_lists("only = { function = \"account\", path = \"/export\" }", |layer| {
        layer.only(RequestPath::exact("/export").and(has_account))
    })
    .await;
    same(&text(&format!("except = {named}")), |registry| {
        RateLimitLayer::new(
            registry,
            gcra()
                .by(|parts: &Parts, key: &mut portcullis_core::KeyWriter<'_>| {
                    if has_account(parts) {
                        return Ok(portcullis_tower::Identity::Exempt);
                    }
                    ClientIp::peer().extract(parts, key)
                })
                .count_rejections(),
        )
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn costs_by_method_are_those_of_a_function() {
    assert_same(&text("cost = { method = { GET = 3, POST = 2, DELETE = 0 } }"), |registry| {
        let cost = |parts: &Parts| match parts.method.as_str() {
            "GET" | "HEAD" => 3,
            "POST" => 2,
            "DELETE" => 0,
            _ => 1,
        };
        RateLimitLayer::new(registry, gcra().by(ClientIp::peer()).cost_by(cost))
    })
    .await;
}
