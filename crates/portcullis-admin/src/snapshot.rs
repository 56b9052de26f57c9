//! What the API shows: the forms of its answers.

mod build;

use serde::Serialize;
use utoipa::ToSchema;

use crate::recorder::Counts;

pub(crate) use build::{layers_in_use, policies_in_use, shown_text, snapshot};

/// Everything at one instant. All counters are totals since this process has made the API. Times are milliseconds since the epoch.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Snapshot {
    /// When the snapshot was taken.
    pub(crate) time: u64,
    /// The number of the rules in use, from 1; `null` without rules in files.
    pub(crate) generation: Option<u64>,
    /// All registered policies, those without a layer too, by name, at most 1 000.
    pub(crate) policies: Vec<PolicyFigures>,
    /// The store.
    pub(crate) store: StoreFigures,
    /// Why callers have no fingerprints; left out if they have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fingerprints_withheld: Option<&'static str>,
    /// At most 100 keys, by the number of requests that are certainly theirs (`requests` less `error`).
    pub(crate) top: Vec<TopKey>,
    /// The keys that are over a limit or locked out, those with a lock-out first, at most 100.
    pub(crate) limited_now: Vec<LimitedKey>,
    /// The clients that are blocked under all policies, at most 256, as this process knows them.
    pub(crate) blocked_everywhere: Vec<BlockedCaller>,
    /// The last rejections over HTTP and gRPC, the newest first, at most 200, and at most 64 of one client.
    pub(crate) recent: Vec<RecentRejection>,
    /// The requests that wait for a slot, a window, a look-up or the inner service.
    pub(crate) waiting: u64,
    /// The permits of limits on requests in flight that this process holds.
    pub(crate) in_flight: u64,
}

/// A policy and its counters.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PolicyFigures {
    /// The policy.
    #[serde(flatten)]
    pub(crate) policy: PolicyInUse,
    #[serde(flatten)]
    #[schema(inline)]
    pub(crate) counts: Counts,
}

/// A policy in use.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct PolicyInUse {
    /// Its name.
    pub(crate) name: String,
    /// Algorithm and quota, such as `token_bucket 10/s burst 20`.
    pub(crate) strategy: String,
    /// `enforce`, `shadow`, `off` or a share such as `10 %`; if layers differ, four of them with commas.
    pub(crate) mode: String,
    /// The names of its layers' routes, at most 100, and 5 000 in an answer; each cut after 200 characters.
    pub(crate) routes: Vec<String>,
    /// What finds the key in a request, such as `client_ip`; if layers differ, four of them with commas.
    pub(crate) key: String,
    /// What else is set, each in some words, such as `costs 5` or `waits for at most 1s`: costs, reservations, charges by the outcome, quotas
    /// of callers, lock-outs, waits and others; at most 32, those of all layers together.
    pub(crate) options: Vec<String>,
    /// What happens to a request while the store cannot answer, such as `closed`.
    pub(crate) failure_mode: String,
    /// Whether it reads grants and blocks.
    pub(crate) allows_overrides: bool,
    /// How many layers and rules of files limit by it. Layers that were never applied to a service do not count, nor do checks in
    /// handlers.
    pub(crate) layers: u64,
    /// Since when it is registered in this process. `null` if it has just been removed.
    pub(crate) registered_since: Option<u64>,
    /// Since when it is in shadow or enforced for a share of its keys: since that mode was set, or since it is registered if its layers have
    /// modes of their own. `null` if it is not tried out.
    pub(crate) tried_out_since: Option<u64>,
    /// Whether a request had a key under it, since this process has made the API. Exempt requests have none.
    pub(crate) counted: bool,
}

/// A layer.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct LayerInUse {
    /// The name that its route was given.
    pub(crate) route: Option<String>,
    /// Its policies, in their order.
    pub(crate) policies: Vec<LayerPolicy>,
}

/// A policy in a layer.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct LayerPolicy {
    /// Its name.
    pub(crate) name: String,
    /// Its mode in this layer.
    pub(crate) mode: String,
    /// What finds the key in a request.
    pub(crate) key: String,
}

/// The answer of `/v1/policies`.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Policies {
    /// All registered policies, those without a layer too, by name, at most 1 000.
    pub(crate) policies: Vec<PolicyInUse>,
}

/// The answer of `/v1/layers`.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Layers {
    /// The layers that exist, at most 1 000.
    pub(crate) layers: Vec<LayerInUse>,
}

/// The store and what it reports.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StoreFigures {
    /// Where the states are: `memory`, `redis` or another word that the service has set.
    pub(crate) kind: String,
    /// Whether no call has failed in the last ten seconds, and no connection to a server is given up.
    pub(crate) healthy: bool,
    /// What the store reports about itself.
    pub(crate) figures: Vec<StoreFigure>,
}

/// A number that the store reports.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct StoreFigure {
    /// Its name.
    pub(crate) name: String,
    /// The policy that it is about; `null` for the whole store.
    pub(crate) policy: Option<String>,
    /// The number.
    pub(crate) value: u64,
    /// `count`, `bytes` or `microseconds`.
    pub(crate) unit: String,
    /// `counter` if it only grows, else `gauge`.
    pub(crate) kind: String,
}

/// A key with many requests under a policy.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TopKey {
    /// The policy.
    pub(crate) policy: String,
    /// The fingerprint of the key; `null` while the published secret is in use.
    pub(crate) fingerprint: Option<String>,
    /// Its name, if the service finds one; else left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// Its requests, of which `error` may belong to other keys.
    pub(crate) requests: u64,
    /// The requests that the policy has rejected since the key is listed.
    pub(crate) rejected: u64,
    /// By how many `requests` may be too high.
    pub(crate) error: u64,
}

/// A key that is over a limit or locked out.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LimitedKey {
    /// The policy.
    pub(crate) policy: String,
    /// The fingerprint of the key; `null` while the published secret is in use.
    pub(crate) fingerprint: Option<String>,
    /// Its name, if the service finds one; else left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// When the last denied request fits, or the lock-out ends.
    pub(crate) until: u64,
    /// Whether it is locked out or blocked.
    pub(crate) locked_out: bool,
}

/// A client that is blocked under all policies.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BlockedCaller {
    /// The fingerprint of its key; `null` while the published secret is in use.
    pub(crate) fingerprint: Option<String>,
    /// Its name, if the service finds one; else left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// When the block ends.
    pub(crate) until: u64,
}

/// A rejected request.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RecentRejection {
    /// When it was rejected.
    pub(crate) time: u64,
    /// The policy that denied it; the first one of the layer if none has decided, `null` if that is not known.
    pub(crate) policy: Option<String>,
    /// The fingerprint of the key; `null` if there is none, and while the published secret is in use.
    pub(crate) fingerprint: Option<String>,
    /// The name of the caller, if the service finds one; else left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// Why, such as `limited`, `blocked` or `bad_identity`.
    pub(crate) reason: String,
    /// The route of the layer, if the policy has one route only.
    pub(crate) route: Option<String>,
}
