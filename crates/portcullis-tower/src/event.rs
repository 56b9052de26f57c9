//! Events: everything that happens to requests, charges and the store.
//!
//! A layer emits each event once, to its log and to the observers of its [`Registry`](crate::Registry).

mod log;
mod observers;
mod outage;
mod quota_log;
mod settlement;

use std::fmt;

use portcullis_core::overrides::Block;
use portcullis_core::{Decision, PolicyName, Quota, StoreError};

use crate::policy::LayerPolicy;
use crate::quota::QuotaRefusal;
use crate::{KeyError, Mode, OnMissing, Reason};

pub(crate) use log::EventLog;
pub(crate) use observers::Observers;
pub(crate) use outage::Outage;
pub use settlement::SettlementLoss;

/// Observes what the layers of a [`Registry`](crate::Registry) do, for metrics and diagnostics.
///
/// Closures implement it. The log of a layer is an observer as well, which is always present; an observer that is
/// [added](crate::Registry::add_observer) does not replace it.
///
/// An observer is called inline, by the task that handles the request, so it must not block: it should count, or hand over
/// what it needs, and return. It cannot change what happens to the request. If it panics, the panic propagates to the caller
/// of the service, as a panic of the service itself does, and charges of the request may stay; while the service panics, it is
/// discarded. Without an observer, an event costs no allocation and no reading of a clock.
///
/// No event contains an identity: no key, no address and no value of a header.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use http::{Request, Response};
/// use portcullis_core::{ManualClock, Policy, Quota, Secret};
/// use portcullis_memory::MemoryStore;
/// use portcullis_tower::{Event, EventKind, Global, LayerBuilder, Registry};
/// use tower::{Layer as _, ServiceExt as _, service_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = MemoryStore::builder().clock(ManualClock::default()).build();
/// let registry = Arc::new(Registry::new(Arc::new(store), Secret::published()));
/// let rejected = Arc::new(AtomicU64::new(0));
/// let counter = Arc::clone(&rejected);
/// registry.add_observer(Arc::new(move |event: &Event<'_>| {
///     if let EventKind::Rejected { .. } = event.kind {
///         counter.fetch_add(1, Ordering::Relaxed);
///     }
/// }));
/// let service = LayerBuilder::new(registry, Policy::gcra("all", Quota::per_minute(1))).by(Global).layer(service_fn(
///     async |_: Request<String>| Ok::<_, std::convert::Infallible>(Response::new(String::new())),
/// ));
/// for status in [200, 429, 429] {
///     assert_eq!(service.clone().oneshot(Request::new(String::new())).await?.status(), status);
/// }
/// assert_eq!(rejected.load(Ordering::Relaxed), 2);
/// # Ok(())
/// # }
/// ```
pub trait Observer: Send + Sync + 'static {
    /// Called once for each event, when it happens.
    fn on_event(&self, event: &Event<'_>);
}

impl<F: Fn(&Event<'_>) + Send + Sync + 'static> Observer for F {
    fn on_event(&self, event: &Event<'_>) {
        self(event);
    }
}

/// Something that happened in a layer.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Event<'a> {
    /// The policies of the layer, except for those that are [off](crate::Mode::Off).
    pub policies: LayerPolicies<'a>,
    /// What happened.
    pub kind: EventKind<'a>,
}

/// What happened in a layer.
///
/// Each request ends with [`Admitted`](Self::Admitted) or [`Rejected`](Self::Rejected), unless its client disconnects before,
/// or the inner service fails before it is called. The other kinds are the causes and the corrections. A
/// [check](crate::Check) of a handler and a [message](crate::Charge::check) of a stream emit what a request does, with their own
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
    /// A policy does not count a request, because its extractor has found that it is exempt.
    Exempt {
        /// The policy.
        policy: &'a PolicyName,
    },
    /// The layer does not limit a request, because its lists name it
    /// ([`except`](crate::RateLimitLayer::except)) or do not name it ([`only`](crate::RateLimitLayer::only)).
    Skipped,
    /// A request is treated as a [preflight](crate::RateLimitLayer::limit_preflights).
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
    /// A request has a malformed identity for a policy, or for a list that [denies](crate::RateLimitLayer::deny).
    IdentityMalformed {
        /// The policy; the first one of the layer for a list.
        policy: &'a PolicyName,
        /// The error of the extractor.
        error: &'a KeyError,
    },
    /// The server is not configured to determine the identity of a request, or a handler [checks](crate::Check) policies that the
    /// limiter refuses.
    Misconfigured {
        /// The error of the extractor.
        error: &'a KeyError,
    },
    /// A look-up has failed because of the server, or took too long.
    LookupFailed {
        /// The policy.
        policy: &'a PolicyName,
        /// The error of the look-up.
        error: &'a KeyError,
    },
    /// A caller has a [quota of its own](crate::RateLimitLayer::quota) that a policy does not use. The policy's own quota applies.
    QuotaRefused {
        /// The policy; the first one of the look-up if the look-up has named one that it does not find the key of.
        policy: &'a PolicyName,
        /// The quota.
        quota: Quota,
        /// Why it is not used, and what to change.
        error: &'a QuotaRefusal,
    },
    /// A look-up of a [quota](crate::RateLimitLayer::quota_by_async) alone has failed, or took too long. The policy's own quota
    /// applies.
    QuotaLookupFailed {
        /// The policy.
        policy: &'a PolicyName,
        /// The error of the look-up.
        error: &'a KeyError,
    },
    /// A request goes to the inner service, and has used at least the part of a limit at which its policy
    /// [warns](crate::RateLimitLayer::warn_at). Emitted for each such request and policy.
    SoftLimitReached {
        /// The decision of the policy.
        decision: &'a Decision,
    },
    /// A request passes that a [shadow](crate::RateLimitLayer::shadow) policy would have rejected, or one that is enforced for a
    /// [share](crate::Percent) of its keys without that of the request.
    ShadowWouldReject {
        /// The decision of the shadow policy.
        decision: &'a Decision,
    },
    /// A shadow policy finds no key for a request, and would have rejected it.
    ShadowUnidentified {
        /// The policy.
        policy: &'a PolicyName,
        /// Why there is no key.
        error: &'a KeyError,
    },
    /// The store could not answer a call of the layer. A call that fails for a [`Charge`](crate::Charge) is no event: its
    /// handler has the error.
    StoreFailed {
        /// The error of the store.
        error: &'a StoreError,
        /// Whether an outage begins with it, for this layer.
        is_new: bool,
    },
    /// The store has not answered for longer than a policy is open. Emitted once per outage.
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
    /// A request would have to wait for a slot, a window, a look-up or the inner service, and
    /// [too many](crate::Registry::set_max_waiting_requests) wait already.
    TooManyWaiting,
    /// A request has waited, and the inner service was not [ready](crate::RateLimitLayer::ready_deadline) for it in time.
    NotReady,
    /// A handler has charged more for a request, by its [`Charge`](crate::Charge), or the layer has charged one that had
    /// [looked first](crate::RateLimitLayer::look_first).
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
    /// [outcome](crate::RateLimitLayer::charge_when) is not charged.
    Refunded {
        /// The new decision of the policy.
        decision: &'a Decision,
        /// The units of the charge that were refunded. Units that were replenished by time before are not available twice.
        units: u64,
    },
    /// A request whose client has disconnected stays charged, because it cannot be refunded in the background.
    RefundDropped,
    /// A request stays uncharged whose policy [looks first](crate::RateLimitLayer::look_first), because its client has
    /// disconnected outside of a runtime.
    ChargeDropped,
    /// A request is rejected, because too many with its key are unsettled under a policy that
    /// [looks first](crate::RateLimitLayer::look_first).
    TooManyUnsettled {
        /// The policy.
        policy: &'a PolicyName,
    },
    /// The closure of a policy that is charged [by outcome](crate::RateLimitLayer::charge_when) has panicked. The request stays
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
    /// The settlement of a [reservation](crate::RateLimitLayer::reserve) is given up: the reservation stays charged or, if
    /// the cause is [unknown](SettlementLoss::Unknown), it may have been settled. Or the release of a permit of a request
    /// [in flight](crate::RateLimitLayer::and_in_flight), which then lapses at the end of its lease.
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
    /// The permit of a request [in flight](crate::RateLimitLayer::and_in_flight) is released: the store counts the request no longer.
    PermitReleased {
        /// The new decision of the policy.
        decision: &'a Decision,
    },
    /// The lease of a permit has lapsed, because the store could not be asked to renew it in time: the store counts a request no
    /// longer that is still in flight.
    PermitLapsed {
        /// The policy.
        policy: &'a PolicyName,
    },
    /// A connection was upgraded, as to a WebSocket, and nothing keeps the permit of its request: it is released, and the
    /// connection is not counted. Keep a [permit](crate::Charge::take_permit) or the charge where the connection is used.
    UpgradeReleased {
        /// The policy.
        policy: &'a PolicyName,
    },
    /// A key is locked out, because it was denied [too often](crate::RateLimitLayer::lock_out). Emitted by the process whose report
    /// reached the number, once per block. A block [by hand](crate::Registry::block) is no event, but a line in the log.
    LockedOut {
        /// The policy.
        policy: &'a PolicyName,
        /// The block that begins.
        block: Block,
    },
    /// A request is charged twice, because two nested layers have one policy.
    ChargedTwice {
        /// The policy.
        policy: &'a PolicyName,
    },
    /// New rules of a limiter apply to requests from now on. It belongs to no layer, so it has no policies. One line is logged.
    RulesReloaded {
        /// The number of the rules, from 1: each change counts one up.
        generation: u64,
    },
    /// New rules of a limiter are refused, and the last good ones stay. It belongs to no layer, so it has no policies. One line is
    /// logged, with the findings.
    RulesRejected {
        /// The number of the rules that stay.
        generation: u64,
        /// What is wrong with the new ones, a line for each finding.
        findings: &'a str,
    },
}

/// The policies of a layer, in the order in which they were added. Displayed with their failure modes.
#[derive(Clone, Copy)]
pub struct LayerPolicies<'a>(&'a [LayerPolicy]);

impl<'a> LayerPolicies<'a> {
    /// Returns the names of the policies, shadow policies included.
    pub fn names(self) -> impl Iterator<Item = &'a PolicyName> {
        self.0.iter().map(|layer_policy| layer_policy.policy.name())
    }
}

impl<'a> Event<'a> {
    pub(crate) fn new(policies: &'a [LayerPolicy], kind: EventKind<'a>) -> Self {
        Self { policies: LayerPolicies(policies), kind }
    }
}

impl fmt::Display for LayerPolicies<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, LayerPolicy { policy, mode, .. }) in self.0.iter().enumerate() {
            let separator = if index > 0 { ", " } else { "" };
            write!(f, "{separator}{}: {}", policy.name(), policy.failure_mode())?;
            if *mode != Mode::Enforce {
                write!(f, " ({mode})")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for LayerPolicies<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}
