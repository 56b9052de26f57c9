//! What happens in a layer.

use std::error::Error;
use std::time::Duration;

use portcullis_core::overrides::Block;
use portcullis_core::{Decision, PolicyName, Quota, StoreError};

use super::Class;
use super::Reason;
use super::{SettlementLoss, UsageLoss};
use crate::OnMissing;
use crate::QuotaRefusal;

/// What happened in a layer.
///
/// Each request ends with [`Admitted`](Self::Admitted) or [`Rejected`](Self::Rejected), unless its client disconnects before,
/// or the inner service fails before it is called. The other kinds are the causes and the corrections. A
/// `Check` of a handler and a message of a stream (`Charge::check`) emit what a request does, with their own
/// policies.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum EventKind<'a> {
    /// A request goes to the inner service, which is called next.
    Admitted {
        /// The decision of each enforced policy that counts the request, with its figures. Empty if none counts it. A policy
        /// that could not be checked has a [degraded](Decision::is_degraded) decision.
        decisions: &'a [Decision],
    },
    /// A request is rejected.
    Rejected {
        /// The reason.
        reason: Reason,
        /// The decision of each enforced policy if the request was limited; empty for any other reason.
        decisions: &'a [Decision],
    },
    /// A policy does not count a request: its extractor exempts the request, or the policy is
    /// [unlimited](portcullis_core::Policy::is_unlimited) for the caller.
    Exempt {
        /// The policy.
        policy: &'a PolicyName,
    },
    /// The layer does not limit a request, because its lists name it
    /// (`RateLimitLayer::except`) or do not name it (`RateLimitLayer::only`).
    Skipped,
    /// A request is treated as a preflight (`RateLimitLayer::limit_preflights`).
    Preflight {
        /// Whether a policy has found a key, so that it is charged.
        is_counted: bool,
    },
    /// A request has no identity for a policy.
    IdentityMissing {
        /// The policy.
        policy: &'a PolicyName,
        /// How the policy treats the request.
        on_missing: OnMissing,
    },
    /// A request has a malformed identity for a policy, or for a list that denies (`RateLimitLayer::deny`).
    IdentityMalformed {
        /// The policy; the first one of the layer for a list.
        policy: &'a PolicyName,
        /// The error of the extractor.
        error: &'a (dyn Error + 'static),
    },
    /// The server is not configured to determine the identity of a request, or the `Check` of a handler has policies that the
    /// limiter refuses.
    Misconfigured {
        /// The error of the extractor.
        error: &'a (dyn Error + 'static),
    },
    /// A look-up has failed because of the server, or took too long.
    LookupFailed {
        /// The policy.
        policy: &'a PolicyName,
        /// The error of the look-up.
        error: &'a (dyn Error + 'static),
    },
    /// A caller has a quota of its own, by `Limit::quota`, that a policy does not use. The policy's own quota applies.
    QuotaRefused {
        /// The policy. If the look-up names a policy whose key it does not find, the first policy of the look-up.
        policy: &'a PolicyName,
        /// The quota.
        quota: Quota,
        /// Why it is not used, and what to change.
        error: &'a QuotaRefusal,
    },
    /// A look-up of a quota alone (`Limit::quota_by_async`) has failed, or took too long. The policy's own quota
    /// applies.
    QuotaLookupFailed {
        /// The policy.
        policy: &'a PolicyName,
        /// The error of the look-up.
        error: &'a (dyn Error + 'static),
    },
    /// A request goes to the inner service, and at least the share of the limit is used at which its policy warns (`Limit::warn_at`).
    /// Emitted for each such request and policy.
    SoftLimitReached {
        /// The decision of the policy.
        decision: &'a Decision,
    },
    /// A request passes that a shadow policy (`Limit::shadow`) would have rejected. Or the policy is enforced for a
    /// [share](crate::Percent) of its keys, and the request's key is not among them.
    ShadowWouldReject {
        /// The decision of the shadow policy.
        decision: &'a Decision,
    },
    /// A shadow policy finds no key for a request, and would have rejected it.
    ShadowUnidentified {
        /// The policy.
        policy: &'a PolicyName,
        /// Why there is no key.
        error: &'a (dyn Error + 'static),
    },
    /// The store could not answer a call of the layer. A call that fails for a `Charge` is no event: its
    /// handler has the error.
    StoreFailed {
        /// The error of the store.
        error: &'a StoreError,
        /// Whether it begins an outage, for this layer.
        is_new: bool,
    },
    /// The store has failed for longer than a policy admits without it (`FailureMode::OpenFor`). Emitted once per outage.
    OpenForExpired {
        /// The policy.
        policy: &'a PolicyName,
    },
    /// The store answers again, and has not failed for a second. Emitted once per outage.
    StoreRecovered,
    /// The store was overloaded and has not answered a call of the layer. This is not an outage.
    StoreOverloaded {
        /// The error of the store.
        error: &'a StoreError,
    },
    /// A request would have to wait for a slot, a window, a look-up or the inner service, and as many wait
    /// as `Limiter::max_waiting_requests` allows.
    TooManyWaiting,
    /// A request has waited for its slot in a queue or for a window, and goes on: it is admitted next, unless something else rejects
    /// it. Emitted for each of these waits.
    Waited {
        /// The policy that made it wait.
        policy: &'a PolicyName,
        /// How long it has waited.
        waited: Duration,
    },
    /// A request has waited, and the inner service was not ready for it in time (`RateLimitLayer::ready_deadline`).
    NotReady,
    /// A policy has charged a request. Shadow policies count too. Each unit that is [refunded](Self::Refunded) was charged by this event
    /// or by [`ChargedMore`](Self::ChargedMore) before. A charge whose answer did not arrive, because the call failed or the client
    /// disconnected, is no event. Emitted only if an observer [asks](crate::Observer::wants_charges) for it.
    Charged {
        /// The decision of the policy.
        decision: &'a Decision,
        /// The units, 1 or more.
        units: u64,
    },
    /// A handler has charged more for a request, by its `Charge`, or the layer has charged a request after its response
    /// (`Limit::charge_after`).
    ChargedMore {
        /// The new decision of each policy that was charged.
        decisions: &'a [Decision],
        /// The units charged under each of them.
        units: u64,
    },
    /// A handler has tried to charge more for a request, and a policy has denied it.
    ChargeDenied {
        /// The decision of each policy. Nothing was charged.
        decisions: &'a [Decision],
        /// The units that were to be charged under each of them.
        units: u64,
    },
    /// A charge was refunded: by its handler, or by the layer, for a request that was not admitted or whose
    /// outcome (`Limit::charge_when`) is not charged.
    Refunded {
        /// The new decision of the policy.
        decision: &'a Decision,
        /// The units of the charge that were refunded. Units that time has already replenished are not freed twice.
        units: u64,
    },
    /// A request whose client has disconnected stays charged, because it cannot be refunded in the background.
    RefundDropped,
    /// A request under a policy that charges afterwards (`Limit::charge_after`) stays uncharged, because its client has disconnected
    /// outside of a runtime.
    ChargeDropped,
    /// A request is rejected, because too many requests with its key have no outcome yet (`Limit::charge_after`). Or a reservation of the
    /// rate limit service is rejected, because too many are open.
    TooManyUnsettled {
        /// The policy.
        policy: &'a PolicyName,
    },
    /// The closure of a policy that is charged by outcome (`Limit::charge_when`) has panicked. The request stays
    /// charged.
    OutcomePanicked {
        /// The policy.
        policy: &'a PolicyName,
    },
    /// A settlement has left units uncharged, because they exceed the debt that the policy allows.
    DebtExceeded {
        /// The policy.
        policy: &'a PolicyName,
        /// The units that stay uncharged.
        uncharged: u64,
    },
    /// The settlement of a reservation (`Limit::reserve`) is given up: the reservation stays charged or, if
    /// the cause is [unknown](SettlementLoss::Unknown), it may have been settled. Or the release of a permit of a request in flight
    /// (`RateLimitLayer::and`) is given up, and the permit lapses at the end of its lease.
    SettlementLost {
        /// The policy.
        policy: &'a PolicyName,
        /// The units that were charged before.
        reserved: u64,
        /// The units that were to be charged in the end.
        used: u64,
        /// Why it is given up.
        cause: SettlementLoss,
    },
    /// A response has ended, and its usage, which was to be read (`Limit::read_usage`), is not known or only in part. The reservation
    /// stays charged, or the known part if that is more.
    UsageLost {
        /// The policy.
        policy: &'a PolicyName,
        /// Why it is not known.
        cause: UsageLoss,
    },
    /// A request has a permit of a policy that limits requests in flight (`RateLimitLayer::and`). Emitted only if an
    /// observer [asks](crate::Observer::wants_charges) for it.
    PermitAcquired {
        /// The decision of the policy.
        decision: &'a Decision,
    },
    /// The permit of a request in flight (`RateLimitLayer::and`) is released: the store no longer counts the request.
    PermitReleased {
        /// The new decision of the policy.
        decision: &'a Decision,
    },
    /// The lease of a permit has lapsed, because the store could not be asked to renew it in time: the store no longer counts a request
    /// that is still in flight.
    PermitLapsed {
        /// The policy.
        policy: &'a PolicyName,
    },
    /// A connection was upgraded, for example to a WebSocket, and nothing keeps the permit of its request. The permit is released, and the
    /// connection is not counted. Keep a permit (`Charge::take_permit`) or the charge where the connection is used.
    UpgradeReleased {
        /// The policy.
        policy: &'a PolicyName,
    },
    /// A key is locked out, because it was denied too often (`Limit::lock_out`). Emitted once per block, by the process that counted the
    /// last denial. A block by hand (`Limiter::block`) is no event, but a line in the log.
    LockedOut {
        /// The policy.
        policy: &'a PolicyName,
        /// The block that begins.
        block: Block,
    },
    /// A request is charged twice, because two nested layers have the same policy.
    ChargedTwice {
        /// The policy.
        policy: &'a PolicyName,
    },
    /// New rules of a limiter apply to requests from now on. The event belongs to no layer, so it has no policies. One line is logged.
    RulesReloaded {
        /// The number of the rules, from 1. Each change adds one.
        generation: u64,
    },
    /// New rules of a limiter are refused, and the last good ones stay; or a signed document does not fit changed files, whose rules apply
    /// without it. The event belongs to no layer, so it has no policies. One line is logged, with the findings.
    RulesRejected {
        /// The number of the rules that apply.
        generation: u64,
        /// What is wrong with the new ones, a line for each finding.
        findings: &'a str,
    },
    /// An answer has closed the key of an outgoing request: the server wants no requests for a while. The event
    /// belongs to no layer, so it has no policies.
    OutgoingClosed {
        /// The policy.
        policy: &'a PolicyName,
        /// For how long the key is closed.
        length: Duration,
        /// Whether the answer has stated a longer time, which was cut.
        is_capped: bool,
    },
    /// An answer to an outgoing request has a header that states a time, with a value that cannot be used. It is
    /// ignored.
    OutgoingHintIgnored {
        /// The policy.
        policy: &'a PolicyName,
        /// The name of the header, in lower case.
        header: &'a str,
    },
    /// The key of an outgoing request is closed in this process alone. The store has no block of it, because the store fails
    /// or keeps no blocks, because too many such calls are in progress, or because there is no runtime.
    OutgoingNotShared {
        /// The policy.
        policy: &'a PolicyName,
    },
    /// A layer that sheds load has no room for a request, which is rejected next, unless the layer is in shadow mode. It
    /// belongs to no policy.
    Shed {
        /// The class of the request.
        class: Class,
        /// The limit on requests in flight.
        limit: u32,
        /// The requests in flight.
        in_flight: u32,
        /// Whether the layer is in shadow mode (`ShedLayer::shadow`): the request goes to the inner service.
        is_shadow: bool,
    },
}

impl EventKind<'_> {
    /// Whether the log may have a line about the event. Most requests end with one that it does not.
    #[inline]
    pub fn is_logged(&self) -> bool {
        match self {
            Self::Admitted { .. } => logs_decisions(),
            Self::Rejected { reason, .. } => *reason == Reason::Denied || logs_rejections(),
            _ => true,
        }
    }
}

/// Whether the log has a line about each rejection, up to a number of lines.
#[inline]
pub(crate) fn logs_rejections() -> bool {
    tracing::enabled!(target: LOG_TARGET, tracing::Level::DEBUG)
}

/// Whether the log has a line about each decision.
#[inline]
pub(crate) fn logs_decisions() -> bool {
    tracing::enabled!(target: LOG_TARGET, tracing::Level::TRACE)
}

/// The module that writes the lines, by which a subscriber may filter them.
pub(super) const LOG_TARGET: &str = "portcullis_engine::event::log";
