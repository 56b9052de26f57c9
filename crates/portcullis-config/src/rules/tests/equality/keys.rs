//! Keys.

use portcullis_tower::{Bearer, Cookie, Global, Header, Host, PathKey, Query, Route};

use super::*;

#[tokio::test(start_paused = true)]
async fn keys_are_those_of_the_builders() {
    let same = async |key: &str, limit: fn(Policy) -> Limit| {
        assert_same(&keyed(key), |registry| beside(registry, limit(gcra()))).await;
    };
    same("{ header = \"x-api-key\" }", |policy| policy.by(Header::named("x-api-key"))).await;
    same("{ cookie = \"session\" }", |policy| policy.by(Cookie::named("session"))).await;
    same("{ query = \"user\" }", |policy| policy.by(Query::named("user"))).await;
    same("\"bearer\"", |policy| policy.by(Bearer)).await;
    same("\"path\"", |policy| policy.by(PathKey::whole())).await;
    same("{ path = \"/static/{name}\" }", |policy| policy.by(PathKey::of("/static/{name}"))).await;
    same("{ path = \"/{service}/{method}\", segment = \"method\" }", |policy| {
        policy.by(PathKey::of("/{service}/{method}").segment("method"))
    })
    .await;
    same("\"host\"", |policy| policy.by(Host)).await;
    same("\"global\"", |policy| policy.by(Global)).await;
    same("\"peer\"", |policy| policy.by(ClientIp::peer())).await;
    same("\"method\"", |policy| policy.by(Route::http_method())).await;
    same("\"grpc_service\"", |policy| policy.by(Route::grpc_service())).await;
    same("\"grpc_method\"", |policy| policy.by(Route::grpc_method())).await;
    same("[{ header = \"x-api-key\" }, \"client_ip\"]", |policy| {
        policy.by(Header::named("x-api-key").or(ClientIp::peer()))
    })
    .await;
    same("{ all = [\"client_ip\", { query = \"user\" }] }", |policy| {
        policy.by(ClientIp::peer().and(Query::named("user")))
    })
    .await;
    same("{ extension = \"account\" }", |policy| {
        policy.by(portcullis_tower::Extension::with(|account: &Account, key| {
            key.part("account", &account.0.to_be_bytes());
        }))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn challenge_is_that_of_a_credential() {
    let text = keyed("{ header = \"x-api-key\", challenge = \"ApiKey\" }").replace("shared", "reject");
    let key = || Header::named("x-api-key");
    let credential = key().credential("ApiKey");
    assert_same(&text, |registry| rejecting(registry, gcra().by(credential))).await;
    let text = keyed("{ header = \"x-api-key\" }").replace("\"shared\"", "\"reject\"\nhide_key = true");
    assert_same(&text, |registry| rejecting(registry, gcra().by(key()).hide_key())).await;
}
