//! Charged minus refunded units are what the store has counted, whatever corrects a charge.

use std::convert::Infallible;
use std::sync::Arc;

use http::{Request, Response};
use portcullis_core::store::Checks;
use portcullis_core::{Policy, PolicyName, Quota};
use portcullis_tower::{
    Charge, Global, Header, KeyError, KeyExtractor as _, Lookup, PolicyExt as _, RateLimitLayer, Registry,
    ResponseOutcome, Usage,
};
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::support::Recorded;

const LIMIT: u64 = 60;

fn policy(name: &'static str) -> Policy {
    Policy::fixed_window(name, Quota::per_week(LIMIT))
}

/// What the store has counted under a policy with one key.
async fn counted(registry: &Registry, policy: &Policy) -> u64 {
    let mut key = registry.secret().hasher();
    let (request, ()) = Request::new(()).into_parts();
    let _ = Global.extract(&request, &mut key.writer()).unwrap();
    let peek = Checks::one(policy.clone(), key.finish().unwrap(), 0);
    LIMIT - registry.store().check(peek).await.unwrap().decision().remaining()
}

/// Charges more, uses and settles, as the body of a request says, and answers with the status in it.
async fn service(request: Request<String>) -> Result<Response<String>, Infallible> {
    if let Some(usage) = request.extensions().get::<Usage>() {
        usage.add(3);
    }
    let status: u16 = request.body().parse().unwrap();
    // A layer with shadow policies alone leaves none.
    if let Some(charge) = request.extensions().get::<Charge>().filter(|_| status == 202) {
        let _ = charge.charge_more(2).await;
        let _ = charge.settle(1).await;
    }
    let mut response = Response::new(String::new());
    *response.status_mut() = status.try_into().unwrap();
    Ok(response)
}

async fn send(layer: &RateLimitLayer) {
    let service = layer.clone().with_charge().layer(service_fn(service));
    for number in 0..150_u32 {
        let status = [200, 202, 401, 500][number as usize % 4];
        let mut request = Request::new(status.to_string());
        if number % 3 == 0 {
            request.headers_mut().insert("x-user", "ada".parse().unwrap());
        }
        let response = service.clone().oneshot(request).await.unwrap();
        drop(response);
    }
}

fn is_refused(outcome: &ResponseOutcome<'_>) -> bool {
    outcome.status() == 401
}

#[tokio::test]
async fn charged_minus_refunded_is_what_the_store_has_counted() {
    let (registry, recorded) = Recorded::registry(100);
    let limit = |name| policy(name).by(Global);
    let layer = |limit| RateLimitLayer::new(Arc::clone(&registry), limit);
    let look_up = |parts: &http::request::Parts| {
        let is_known = parts.headers.contains_key("x-user");
        async move {
            if is_known {
                Ok(Lookup::found("user", "ada"))
            } else {
                Err(KeyError::server("the directory is down"))
            }
        }
    };
    let layers = [
        layer(limit("plain").cost(2)),
        layer(limit("with another")).and(policy("other")),
        layer(limit("refused").charge_when(is_refused)),
        layer(limit("charges afterwards").charge_when(is_refused).charge_after()),
        layer(limit("reserved").reserve(5)),
        layer(limit("shadow").shadow()),
        layer(limit("shadow refused").charge_when(is_refused).shadow()),
        layer(limit("before a look-up")).and(policy("by user").by_async(look_up)),
        layer(limit("before an identity")).and(policy("by header").by(Header::named("x-user"))),
    ];
    for layer in &layers {
        send(layer).await;
    }
    let _ = registry.drain(std::time::Duration::from_secs(60)).await;
    recorded.metrics.refresh(&registry);
    let series = recorded.series();
    let units = |kind: &str, policy: &PolicyName| {
        let name = format!("portcullis_{kind}_units_total{{policy=\"{policy}\"}}");
        format!("{}", series[&name]).parse::<u64>().unwrap()
    };
    let mut refunding = 0;
    let names = [
        "plain",
        "with another",
        "other",
        "refused",
        "charges afterwards",
        "reserved",
        "shadow",
        "shadow refused",
    ];
    for name in names.into_iter().chain(["before a look-up", "before an identity"]) {
        let policy = policy(name);
        let (charged, refunded) = (units("charged", policy.name()), units("refunded", policy.name()));
        assert_eq!(charged - refunded, counted(&registry, &policy).await, "{name}: {charged} - {refunded}");
        assert!(charged > 0, "{name}");
        refunding += u32::from(refunded > 0);
    }
    assert!(refunding >= 5, "{refunding}");
}
