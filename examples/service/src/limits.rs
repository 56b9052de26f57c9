//! Who is limited by what.

use std::path::Path;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Response};
use portcullis::charge::ResponseOutcome;
use portcullis::headers::{X_RATELIMIT_LIMIT, X_RATELIMIT_REMAINING, X_RATELIMIT_RESET};
use portcullis::key::{Extension, Header, KeyError, KeyExtractor as _, Route, Trust};
use portcullis::layer::{Concurrency, Network, Percent, QuotaLookup, RequestPath};
use portcullis::rules::{Loader, Rules};
use portcullis::{
    ClientIp, FailureMode, Limiter, Policy, PolicyExt as _, Quota, RateLimitLayer, Reason, Rejection,
};

/// The network of nginx, which appends to `X-Forwarded-For`.
const PROXIES: [&str; 1] = ["10.0.0.0/8"];
const OFFICE: [&str; 1] = ["203.0.113.0/24"];

const ADDRESS: Policy = Policy::gcra("address", Quota::per_minute(600).burst(100));
const PRODUCTS: Policy =
    Policy::token_bucket("products", Quota::per_second(10).burst(20)).on_store_failure(FailureMode::Open);
const LOG_IN_ADDRESS: Policy = Policy::sliding_window("log-in address", Quota::per_hour(20));
/// Log-ins that are running or have failed, by account and client.
pub static LOG_IN_ACCOUNT: Policy =
    Policy::sliding_window("log-in account", Quota::per(5, Duration::from_secs(15 * 60)));
const FREE: Quota = Quota::per_hour(100);
const PRO: Quota = Quota::per_hour(1_000);
const DAILY: Policy = Policy::fixed_window("daily", Quota::per_day(200));
/// Tokens cost money, so nobody gets any that are not counted.
const TOKENS: Policy =
    Policy::token_bucket("tokens", Quota::per_day(1_000)).on_store_failure(FailureMode::Closed);
/// Exports of all users at the same time. Others wait, in the order in which they came.
pub static EXPORTS: Concurrency = Concurrency::new("exports", 4).wait_at_most(Duration::from_secs(2));
const STRICT: Policy = Policy::sliding_window("strict", Quota::per_minute(20));
const CALLS: Policy = Policy::gcra("calls", Quota::per_second(5).burst(5));

/// Whom authentication has found.
#[derive(Clone, Debug)]
pub struct User(pub String);

/// The layers of the service.
#[derive(Debug)]
pub struct Limits {
    limiter: Limiter,
}

impl Limits {
    /// Sets what all limits have in common, and adds the rules of a file.
    ///
    /// # Errors
    ///
    /// If the rules have a mistake, or one of them has the name of another policy.
    pub fn new(limiter: Limiter, rules: &Path) -> anyhow::Result<Self> {
        let limiter = limiter
            .reject_with(company_error)
            .rename_header(&X_RATELIMIT_LIMIT, HeaderName::from_static("acme-limit"))?
            .rename_header(&X_RATELIMIT_REMAINING, HeaderName::from_static("acme-remaining"))?
            .rename_header(&X_RATELIMIT_RESET, HeaderName::from_static("acme-reset"))?;
        // Handlers check these, so that no layer makes them known.
        limiter.register(&LOG_IN_ACCOUNT)?;
        limiter.register(&EXPORTS)?;
        let rules = Rules::load(&Loader::file(rules).client_ip(clients()))?;
        Ok(Self { limiter: limiter.with_rules(rules)? })
    }

    /// The limiter, with its rules.
    pub fn limiter(&self) -> &Limiter {
        &self.limiter
    }

    /// Protects the service as a whole, whatever the route.
    pub fn everything(&self) -> RateLimitLayer {
        self.by_address(ADDRESS).except(RequestPath::exact("/health"))
    }

    /// A page that many look at.
    pub fn products(&self) -> RateLimitLayer {
        self.by_address(PRODUCTS)
    }

    fn by_address(&self, policy: Policy) -> RateLimitLayer {
        self.limiter.layer(policy.by(clients())).except(Network::of(&clients(), OFFICE))
    }

    /// Counts failures alone. The accounts are in the bodies, which the handler reads.
    pub fn log_ins(&self) -> RateLimitLayer {
        let is_failure = |outcome: &ResponseOutcome<'_>| outcome.status() == 401;
        self.limiter.layer(LOG_IN_ADDRESS.by(clients()).charge_when(is_failure))
    }

    /// Gives each user the quota of the plan, for a minute from its look-up on.
    pub fn users(&self) -> RateLimitLayer {
        let quotas = QuotaLookup::new(|parts: &Parts| {
            let user = parts.extensions.get::<User>().cloned();
            async move {
                let Some(User(name)) = user else { return Ok(None) };
                quota_in_database(&name).await.map_err(|_| KeyError::server("the database does not answer"))
            }
        });
        let requests = Policy::fixed_window("requests", FREE).allow_overrides().caller_quotas(FREE, PRO);
        self.limiter.layer(requests.by(user()).quota_by_async(quotas))
    }

    /// One budget for several routes.
    pub fn daily(&self, cost: u64) -> RateLimitLayer {
        self.limiter.layer(DAILY.by(user()).cost(cost))
    }

    /// Reserves what an answer usually takes, and settles it at what it took.
    pub fn tokens(&self) -> RateLimitLayer {
        self.limiter.layer(TOKENS.by(user()).reserve(100))
    }

    /// Tried out on a tenth of the users: it counts what it would reject.
    pub fn trial(&self) -> RateLimitLayer {
        self.limiter.layer(STRICT.by(user()).shadow_for(Percent::new(10)))
    }

    /// Calls of gRPC, by API key and method.
    pub fn calls(&self) -> RateLimitLayer {
        let api_key = Header::named("x-api-key").credential("ApiKey");
        self.limiter.layer(CALLS.by(api_key.and(Route::grpc_method())))
    }
}

/// The address of a client behind the proxies of the shop.
pub fn clients() -> ClientIp {
    ClientIp::behind(Trust::networks(PROXIES)).x_forwarded_for()
}

/// Operators name a user as in `--part user=ada`.
fn user() -> Extension<User> {
    Extension::<User>::with(|user, key| key.part("user", user.0.as_bytes()))
}

/// In place of a query.
async fn quota_in_database(user: &str) -> Result<Option<Quota>, std::io::Error> {
    tokio::task::yield_now().await;
    Ok(user.starts_with("pro-").then_some(PRO))
}

fn company_error(rejection: &Rejection<'_>) -> Response<Bytes> {
    let code = match rejection.reason() {
        Reason::Limited => "too_many_requests",
        Reason::Blocked => "blocked",
        _ => "rejected",
    };
    let error = serde_json::json!({
        "error": { "code": code, "message": rejection.message(), "retry_after": rejection.retry_after_seconds() },
    });
    let mut response = Response::new(error.to_string().into());
    *response.status_mut() = rejection.status();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
