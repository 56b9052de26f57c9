//! Mistakes, each behind the texts that its error has to contain. `cargo xtask test compile-errors` checks them.

use http::Response;
use http::request::Parts;
use portcullis::key::{Extension, Trust};
use portcullis::{ClientIp, Limit, Limiter, Policy, PolicyExt as _, Quota, RateLimitLayer};

const SEARCH: Policy = Policy::gcra("search", Quota::per_second(10));

struct User {
    name: String,
}

//~ `ProxiesWithoutHeader` is not a key that requests can be charged to
//~ `.x_forwarded_for()`
pub fn proxies_without_header_as_a_key() -> Limit {
    SEARCH.by(ClientIp::behind(Trust::hops(1)))
}

//~ expected `ClientIp`, found `ProxiesWithoutHeader`
pub fn proxies_without_header_as_clients() -> ClientIp {
    ClientIp::behind(Trust::hops(1))
}

//~ no method named `ipv6_prefix` found for struct `ProxiesWithoutHeader`
pub fn proxies_without_header_with_an_option() -> ClientIp {
    ClientIp::behind(Trust::hops(1)).ipv6_prefix(56)
}

//~ `&str` is not a key that requests can be charged to
//~ `Header::named("x-api-key")`
pub fn text_as_a_key() -> Limit {
    SEARCH.by("x-api-key")
}

//~ `Policy` has no key that requests are charged to
//~ write `.by(..)` behind it
//~ `policy.by(ClientIp::peer())`
pub fn policy_without_a_key(limiter: &Limiter) -> RateLimitLayer {
    limiter.layer(SEARCH)
}

//~ expected `&str`, found `String`
//~ no literal: `try_new`
pub fn string_as_the_name_of_a_policy(name: String) -> Policy {
    Policy::token_bucket(name, Quota::per_second(10))
}

//~ expected `&str`, found `String`
//~ no literal: `new`
pub fn string_as_a_name(name: String) -> portcullis::PolicyName {
    portcullis::PolicyName::literal(name)
}

//~ expected `&str`, found `String`
//~ no literal: `Policy::try_new`
pub fn string_as_the_name_of_a_limit_in_flight(name: String) -> portcullis::layer::Concurrency {
    portcullis::layer::Concurrency::new(name, 4)
}

//~ `User` has no bytes that a key could be made of
//~ `Extension::<User>::with(|value, key| key.part("user", value.name.as_bytes()))`
pub fn extension_without_bytes() -> Extension<User> {
    Extension::new()
}

//~ `Response<String>` is not the response to a rejection
//~ `rejection.response()`, changed where needed, or `Response::new(text.into())`
pub fn rejection_with_a_string(limiter: Limiter) -> Limiter {
    limiter.reject_with(|rejection| Response::new(rejection.message().into_owned()))
}

//~ is not the response to a rejection
//~ the closure is not awaited
pub fn rejection_that_waits(layer: RateLimitLayer) -> RateLimitLayer {
    layer.reject_with(|rejection| async { rejection.response() })
}

//~ is not the response to a rejection
//~ `rejection.response()`, changed where needed
pub fn rejection_with_a_status(layer: RateLimitLayer) -> RateLimitLayer {
    layer.reject_with(|rejection| rejection.status())
}

//~ is not a look-up of a key
//~ goes to `by`
pub fn key_as_a_look_up() -> Limit {
    SEARCH.by_async(ClientIp::peer())
}

//~ is not the cost of a request
//~ `.cost(5)` for a fixed one
pub fn number_as_a_cost_by_the_request() -> Limit {
    SEARCH.by(ClientIp::peer()).cost_by(2)
}

// No mistakes: options before the key, a body that becomes `Bytes`, and a closure that does not return.
pub fn without_mistakes(limiter: Limiter) -> (Limit, Limiter) {
    let limit = SEARCH.shadow().cost(2).by(Extension::<User>::with(|user, key| {
        key.part("user", user.name.as_bytes());
    }));
    let limiter = limiter.reject_with(|_| unreachable!("calls of gRPC have a response of their own"));
    (limit, limiter.reject_with(|_| Response::new("slow down".into())))
}
