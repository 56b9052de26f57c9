//! Envoy's rate limit service, version 3: <https://www.envoyproxy.io/docs/envoy/latest/api-v3/service/ratelimit/v3/rls.proto>.
//!
//! [`RateLimitService`] answers calls with the limits of Envoy's descriptor files, or with native rules. It is a gRPC service and, as in
//! <https://github.com/envoyproxy/ratelimit>, an endpoint for JSON.
//!
//! ```
//! use portcullis::Limiter;
//! use portcullis::rules::envoy::Descriptors;
//! use portcullis_rls::RateLimitService;
//! use portcullis_rls::messages::rate_limit_descriptor::Entry;
//! use portcullis_rls::messages::{RateLimitDescriptor, RateLimitRequest, rate_limit_response::Code};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let descriptors = Descriptors::parse(&[("shop.yaml", "
//! domain: shop
//! descriptors:
//!   - key: user
//!     rate_limit: { unit: day, requests_per_unit: 1 }
//! ")])?;
//! let service = RateLimitService::envoy(Limiter::memory(), descriptors);
//! let entry = Entry { key: "user".into(), value: "ada".into() };
//! let descriptor = RateLimitDescriptor { entries: vec![entry], ..Default::default() };
//! let request = RateLimitRequest { domain: "shop".into(), descriptors: vec![descriptor], hits_addend: 0 };
//! assert_eq!(service.decide(&request).await?.overall_code(), Code::Ok);
//! assert_eq!(service.decide(&request).await?.overall_code(), Code::OverLimit);
//! // For Tonic: `Server::builder().add_service(service.grpc())`.
//! # Ok(())
//! # }
//! ```
//!
//! # Decisions
//!
//! The descriptors of a call are decided together, in one call of the store: all limits are charged, or none. This and the following
//! differ from Envoy's service, which counts each limit by itself, also what it denies.
//!
//! - A call of one hit that is denied charges nothing. A call of more reports usage, which has happened: if it is denied, each of its limits
//!   is charged what is left, at most its hits; see [`charge_denied_hits`](RateLimitService::charge_denied_hits).
//! - `hits_addend: 0` in a descriptor charges nothing, and is over the limit if nothing remains.
//! - Descriptors that are equal are one, with the sum of their hits.
//! - A limit with `shadow_mode` is charged by itself, if the call is admitted, and never denies. Its status is `OK`.
//! - Limits with `quota_mode` deny a call only if all of those that apply to it are exceeded. If several apply, each is charged by
//!   itself: one that is exceeded has the status `OVER_LIMIT`, also if the call is admitted. What was charged before that is refunded if they
//!   deny.
//! - `is_negative_hits` refunds hits of the current window, at most what it was charged, if the call is admitted. It calls the store twice. Other
//!   instances may deny the key for up to 1 s longer, as after any refund.
//! - A limit override applies in each domain that there is, instead of a limit of the file. Its units are counted by the unit of time and
//!   the descriptor, apart from those of the file.
//! - The statuses of a denied call have the code `OK` for limits that did not deny it. A denial that the store remembers is of one limit:
//!   the store is asked what remains of the others.
//!
//! # If the store fails
//!
//! [`on_store_failure`](RateLimitService::on_store_failure) is the failure mode of all limits of Envoy's files. By default each instance
//! enforces the whole limit on its own. Where the mode does not decide, and if the store is overloaded, the call fails with `UNAVAILABLE`, and
//! `failure_mode_deny` of Envoy's filter decides.
//!
//! # Native rules
//!
//! Each descriptor becomes a request, and all rules that match it decide it as they do in a layer:
//!
//! | key of an entry | part of the request |
//! |---|---|
//! | `:method`, `method` | the method; `GET` without one |
//! | `:path`, `path` | path and query; `/` without one |
//! | `:authority`, `authority`, `host` | the header `host` |
//! | `remote_address`, `masked_remote_address` | the address of the peer; of a network, its first address |
//! | any other | a header of this name; the domain is the header `x-envoy-domain` |
//!
//! Keys have no case. Rules see one descriptor at a time, so put all entries that they need into one: a descriptor without an address, which a rule
//! that matches it needs, is `INVALID_ARGUMENT`. All descriptors are decided together: their rules are charged, or none is; descriptors with
//! one key under a rule are charged the sum of their hits. Those whose rules do not fit into
//! [one decision](portcullis::store::Checks) are decided in several, and what was charged before a denial is refunded, as it is where a rule
//! looks up. A descriptor of several hits is charged them in place of one, and of `hits_addend: 0` nothing: it is over the limit if
//! nothing remains. Limit overrides and negative hits are `INVALID_ARGUMENT`. A delay of a
//! [queue](portcullis::Policy::leaky_bucket) delays the answer, for which Envoy waits for 20 ms by default.
//!
//! # Reservations
//!
//! [`reserve`](RateLimitService::reserve) charges all limits of a call an amount, or none, and [`commit`](RateLimitService::commit) settles
//! that at what was used. Over gRPC they are `kuadrant.service.ratelimit.v1.RateLimitService`
//! ([`grpc_reservations`](RateLimitService::grpc_reservations)).
//!
//! - The amount takes the place of the hits of each descriptor, from 0, which asks, to the smallest limit. What is held is charged, so
//!   other calls see it. A call without limits is admitted without an id, and settles nothing.
//! - A commit is of at most the amount and the debt that each policy [allows](portcullis::Policy::allow_debt). Repeated, it has the same
//!   answer for the ttl. Without an id it is a [`report`](RateLimitService::report).
//! - A reservation that is not committed ends after its ttl, of 1 s to 1 h. Envoy's files keep what it holds, and rules what
//!   [`reserve_or`](portcullis::Limit::reserve_or) says; where nothing is counted, `OnAbort::Used` is the reservation. Policies that are
//!   tried out keep it.
//! - An instance has at most [`MAX_RESERVATIONS`] open at a time, and one key a sixteenth. Beyond that a reservation is denied.
//! - Instances with a store that keeps records, as Redis, commit each other's, and only one settles each. The instance that has made a
//!   reservation ends it. If it dies, what it holds stays charged. In a store that keeps none, reservations are those of the process.
//!
//! # Bounds
//!
//! [`MAX_DESCRIPTORS`], [`MAX_ENTRIES`], [`MAX_DOMAIN_BYTES`] and [`MAX_MESSAGE_BYTES`] bound a call; one beyond them is `INVALID_ARGUMENT`, or
//! `OUT_OF_RANGE` for the size of the message. Values have no other bound, because a client chooses them, and Envoy admits calls that
//! fail by default. They have to be UTF-8, as for Envoy's service: others are `INVALID_ARGUMENT`.

mod call;
mod error;
mod limits;
pub mod messages;
mod reservations;
mod transport;
mod verdict;

#[cfg(test)]
mod tests;

use std::sync::{Arc, Weak};

use portcullis::rules::LiveRules;
use portcullis::rules::envoy::Descriptors;
use portcullis::{FailureMode, LayerError, Limiter, Policy, PolicySettings, StoreError};
use portcullis_log::LogThrottle;

use call::Call;
use limits::{Limits, LimitsInUse};
use messages::{RateLimitRequest, RateLimitResponse};
use reservations::Reservations;

pub use error::CallError;
pub use limits::SharedDescriptors;
pub use messages::PROTO_FILES;
pub use portcullis_tower::joint::ChargeDenied as ChargeDeniedHits;
pub use reservations::MAX_RESERVATIONS;
pub use transport::{
    HEALTH_NAMES, RateLimitServer, ReservationServer, SERVICE_NAME, reflection, reflection_v1alpha,
};
pub use verdict::ResponseHeaders;

/// The highest number of descriptors in a call.
pub const MAX_DESCRIPTORS: usize = portcullis::store::Checks::MAX;

/// The highest number of entries in a descriptor.
pub const MAX_ENTRIES: usize = 64;

/// The highest number of bytes in a domain.
pub const MAX_DOMAIN_BYTES: usize = 1_024;

/// The highest number of bytes in a call, 1 MiB: 16 descriptors with all headers that Envoy accepts by default.
pub const MAX_MESSAGE_BYTES: usize = 1 << 20;

/// Envoy's rate limit service: a limiter, and the limits that it applies to descriptors. Clones share everything.
///
/// See the [crate](self) for what it decides.
#[derive(Clone, Debug)]
pub struct RateLimitService {
    limiter: Limiter,
    limits: Limits,
    failure_mode: FailureMode,
    headers: ResponseHeaders,
    shadow: bool,
    /// The limits of a call to which its own are added: all calls log together.
    no_limits: Arc<portcullis_engine::Limits>,
    in_use: Arc<LimitsInUse>,
    charge_denied_hits: ChargeDeniedHits,
    reservations: Reservations,
    /// Calls with a domain that no file has.
    unknown_domains: Arc<LogThrottle>,
}

impl RateLimitService {
    /// Answers with the limits of Envoy's files. Call [`register`](Self::register) before the first call if the store is in memory.
    pub fn envoy(limiter: Limiter, descriptors: impl Into<SharedDescriptors>) -> Self {
        Self::new(limiter, Limits::Envoy(descriptors.into()))
    }

    /// Answers with native rules, such as [those of the limiter](Limiter::rules).
    ///
    /// ```
    /// use portcullis::Limiter;
    /// use portcullis::rules::{Format, Loader, Rules};
    /// use portcullis_rls::RateLimitService;
    ///
    /// let limits = Loader::text("limits.toml", Format::Toml, r#"
    ///     [policy.search]
    ///     strategy = "token_bucket"
    ///     quota = "10/s burst 20"
    ///     key = "client_ip"
    ///     match = { path = "/search" }
    /// "#);
    /// let limiter = Limiter::memory().with_rules(Rules::load(&limits)?)?;
    /// let rules = limiter.rules()?.clone();
    /// let service = RateLimitService::native(limiter, rules)?;
    /// # let _ = service;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If rules need more than descriptors, such as the response to a request. Such rules are refused by a reload as well, as long as the
    /// service exists.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a handle, which callers give away as they do the limiter"
    )]
    pub fn native(limiter: Limiter, rules: LiveRules) -> Result<Self, LayerError> {
        let native = Limits::native(&limiter, &rules)?;
        Ok(Self::new(limiter, native))
    }

    fn new(limiter: Limiter, limits: Limits) -> Self {
        let no_limits = portcullis_engine::Limits::new(Arc::clone(limiter.engine()), Vec::new());
        let in_use = Arc::<LimitsInUse>::default();
        let named: Weak<LimitsInUse> = Arc::downgrade(&in_use);
        limiter.engine().name_in_outages(named);
        Self {
            limiter,
            limits,
            failure_mode: FailureMode::local(1),
            headers: ResponseHeaders::None,
            shadow: false,
            no_limits: Arc::new(no_limits),
            in_use,
            charge_denied_hits: ChargeDeniedHits::default(),
            reservations: Reservations::default(),
            unknown_domains: Arc::new(LogThrottle::per_minute()),
        }
    }

    /// Sets what happens to calls while the store cannot answer, for all limits of Envoy's files; by default each instance enforces the
    /// whole limit. With [`FailureMode::Closed`] the call fails, and `failure_mode_deny` of Envoy decides. Native rules have their own.
    #[must_use]
    pub fn on_store_failure(self, mode: FailureMode) -> Self {
        Self { failure_mode: mode, ..self }
    }

    /// Sets the headers that Envoy adds to the response to the client, none by default. Envoy can also make its own of the
    /// statuses: `enable_x_ratelimit_headers` of its filter.
    #[must_use]
    pub fn response_headers(self, headers: ResponseHeaders) -> Self {
        Self { headers, ..self }
    }

    /// Answers every call with `OK`, where limits are decided and charged as otherwise, and the statuses show what they decided. In Envoy's
    /// service this is `SHADOW_MODE`.
    #[must_use]
    pub fn shadow(self) -> Self {
        Self { shadow: true, no_limits: Arc::new(self.no_limits.in_trial()), ..self }
    }

    /// Sets which calls that are denied charge each of their limits what is left, at most their hits; by default those that
    /// [report](ChargeDeniedHits::Reports) usage.
    ///
    /// Gateways report usage after the response, such as tokens (`apply_on_stream_done` of Envoy), and cannot act on the answer. If hits that
    /// do not fit were not charged, a budget would never end. No limit is charged more than it has left, so nothing is owed in the next
    /// window. Limits of 0, and requests in flight, are charged nothing.
    ///
    /// ```
    /// use portcullis::Limiter;
    /// use portcullis::rules::envoy::Descriptors;
    /// use portcullis_rls::messages::rate_limit_descriptor::Entry;
    /// use portcullis_rls::messages::{RateLimitDescriptor, RateLimitRequest, rate_limit_response::Code};
    /// use portcullis_rls::{ChargeDeniedHits, RateLimitService};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let text = "{domain: llm, descriptors: [{key: tokens, rate_limit: {unit: hour, requests_per_unit: 1000}}]}";
    /// let of = |hits| {
    ///     let entry = Entry { key: "tokens".into(), value: "ada".into() };
    ///     let descriptor = RateLimitDescriptor { entries: vec![entry], ..Default::default() };
    ///     RateLimitRequest { domain: "llm".into(), descriptors: vec![descriptor], hits_addend: hits }
    /// };
    /// for (setting, last) in [(ChargeDeniedHits::Reports, Code::OverLimit), (ChargeDeniedHits::Never, Code::Ok)] {
    ///     let descriptors = Descriptors::parse(&[("llm.yaml", text)])?;
    ///     let service = RateLimitService::envoy(Limiter::memory(), descriptors).charge_denied_hits(setting);
    ///     for (hits, code) in [(910, Code::Ok), (400, Code::OverLimit), (1, last)] {
    ///         assert_eq!(service.decide(&of(hits)).await?.overall_code(), code);
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn charge_denied_hits(self, setting: ChargeDeniedHits) -> Self {
        Self { charge_denied_hits: setting, ..self }
    }

    /// Registers all limits of Envoy's files with the store, and logs each of them in one line, at most 100. Native rules are registered
    /// and logged already.
    ///
    /// # Errors
    ///
    /// If the store has no room for all of them: a store in memory keeps 64 policies with its default
    /// [capacity](portcullis::store::MemoryStoreBuilder::capacity).
    pub fn register(&self) -> Result<(), StoreError> {
        match &self.limits {
            Limits::Envoy(descriptors) => self.register_all(&descriptors.load()),
            Limits::Native(_) => Ok(()),
        }
    }

    /// Replaces the limits of Envoy's files, from the next call on. Has no effect on native rules, which are
    /// [reloaded](LiveRules::reload) by themselves.
    ///
    /// # Errors
    ///
    /// If the store has no room for all of them; the former limits stay.
    pub fn replace(&self, descriptors: Descriptors) -> Result<(), StoreError> {
        if let Limits::Envoy(shared) = &self.limits {
            self.register_all(&descriptors)?;
            shared.replace(descriptors);
        }
        Ok(())
    }

    fn register_all(&self, descriptors: &Descriptors) -> Result<(), StoreError> {
        let mut policies = descriptors.limits().iter().filter_map(|limit| limit.policy().ok());
        policies.try_for_each(|policy| self.limiter.store().register(&self.with_mode(policy)))?;
        self.in_use.replace(descriptors.limits(), self.shadow, |policy| self.with_mode(policy));
        Ok(())
    }

    /// Decides a call, whatever it arrived by.
    ///
    /// # Errors
    ///
    /// If the call exceeds a [bound](self#bounds), or the store cannot answer and the failure mode does not decide.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the hits may stay charged.
    pub async fn decide(&self, request: &RateLimitRequest) -> Result<RateLimitResponse, CallError> {
        self.answer(&Call::read(request)?, self.charge_denied_hits).await
    }

    /// The policy with the failure mode of the service. If the policy cannot have it, calls fail while the store does.
    fn with_mode(&self, policy: &Policy) -> Policy {
        let settings = PolicySettings { failure_mode: self.failure_mode, ..policy.settings() };
        let changed = Policy::try_new(policy.name().as_str(), Ok(*policy.strategy()), settings);
        changed.unwrap_or_else(|_| policy.clone().on_store_failure(FailureMode::Closed))
    }
}
