//! `tiers` and `caller_quotas`: quotas of single callers.

use std::collections::HashMap;
use std::time::Duration;

use http::request::Parts;
use http::{HeaderName, HeaderValue};
use portcullis_core::{CallerQuotasError, Policy, PolicyError, PolicySettings, Quota, Strategy};
use portcullis_tower::{ClientIp, Limit, QuotaLookup};
use serde::Deserialize as _;

use super::super::Tier;
use super::super::explain::TierNames;
use super::{Reader, chosen_by_client};
use crate::fields::{Fields, decode, entries, join};
use crate::source::Span;
use crate::tree::Value;

/// Adds what finds the quota of a caller.
type AddQuota = Box<dyn FnOnce(Limit) -> Limit>;

/// A limit, and a burst where the strategy has one.
type Size = (u64, Option<u64>);

/// Where the tier of a request is, and the peers of which it is believed: all, if `None`.
struct TierHeader {
    header: HeaderName,
    proxies: Option<ClientIp>,
}

/// A tier of a file.
struct Quotas {
    name: String,
    quota: Quota,
    path: String,
    span: Span,
}

impl Reader<'_> {
    /// The policy with the range of its quotas, and what finds that of a caller. `kind` is the name of the strategy.
    pub(super) fn tiers(
        &self,
        fields: &Fields<'_>,
        policy: Policy,
        kind: &str,
    ) -> (Policy, Option<AddQuota>) {
        let look_up = self.quota_look_up(fields);
        let look_up = look_up.map(|look_up| -> AddQuota { Box::new(|limit| limit.quota_by_async(look_up)) });
        let tiers = self.quotas(fields);
        let header = self.tier_header(fields);
        let own = own_quota(fields);
        let declared = self.caller_quotas(fields);
        let range = match declared {
            Some(range) => Some((range, "caller_quotas")),
            None if tiers.is_empty() || fields.has("caller_quotas") => None,
            None => self.range(&tiers, &policy, own, kind).map(|range| (range, "tiers")),
        };
        let Some(((smallest, largest), field)) = range else { return (policy, look_up) };
        let settings = PolicySettings { caller_quotas: Some((smallest, largest)), ..policy.settings() };
        let policy = match Policy::try_new(policy.name().as_str(), Ok(*policy.strategy()), settings) {
            Ok(policy) => policy,
            Err(errors) => {
                // The other parts of the policy are right.
                for error in errors {
                    if let PolicyError::Part { error, .. } = error {
                        fields.error(field, error.to_string());
                    }
                }
                return (policy, None);
            }
        };
        for tier in &tiers {
            if let Err(error) = policy.with_quota(tier.quota) {
                self.findings.error(&*tier.path, tier.span, error.to_string());
            }
        }
        if tiers.is_empty() {
            return (policy, look_up);
        }
        // With the burst that it has where none is written.
        let size = |quota: Quota| -> Size { (quota.limit(), strategy(kind, quota).as_ref().and_then(burst)) };
        let own_size = own.map(size);
        let sized = |tier: Quotas| (tier.name, (tier.quota, size(tier.quota)));
        let by_name: HashMap<String, _> = tiers.into_iter().map(sized).collect();
        let Some(TierHeader { header, proxies }) = header else {
            let quota = move |parts: &Parts| {
                by_name.get(parts.extensions.get::<Tier>()?.name()).map(|(quota, _)| *quota)
            };
            return (policy, Some(Box::new(|limit| limit.quota(quota))));
        };
        let quota = move |parts: &Parts| {
            if proxies.as_ref().is_some_and(|proxies| !proxies.trusts_peer(parts)) {
                return None;
            }
            let named = |value: &HeaderValue| by_name.get(value.to_str().ok()?.trim()).copied();
            let quotas = || parts.headers.get_all(&header).iter().map(named);
            let size = |named: Option<(Quota, Size)>| named.map_or(own_size, |(_, size)| Some(size));
            // A client may have written one of several lines, so the smallest limit and the smallest burst count.
            let smallest = quotas().min_by_key(|named| size(*named))?;
            let least = quotas().filter_map(|named| size(named)?.1).min();
            match least.filter(|_| least != size(smallest).and_then(|(_, burst)| burst)) {
                Some(burst) => {
                    let quota = smallest.map(|(quota, _)| quota).or(own)?;
                    Quota::new(quota.limit(), quota.period(), Some(burst)).ok()
                }
                None => smallest.map(|(quota, _)| quota),
            }
        };
        (policy, Some(Box::new(|limit| limit.quota(quota))))
    }

    /// Like [`tiers`](Self::tiers), but for a policy whose own quota is wrong, so that no other can be compared with it.
    pub(super) fn tiers_alone(&self, fields: &Fields<'_>) {
        self.quota_look_up(fields);
        self.quotas(fields);
        self.tier_header(fields);
        self.caller_quotas(fields);
    }

    /// The smallest and the largest quota. Both are read, so that all mistakes are found.
    fn caller_quotas(&self, fields: &Fields<'_>) -> Option<(Quota, Quota)> {
        let node = fields.node("caller_quotas")?;
        let path = fields.path("caller_quotas");
        let [smallest, largest] = node.each() else { return decode(node, &path, self.findings) };
        let smallest = decode(smallest, &format!("{path}[0]"), self.findings);
        let largest = decode(largest, &format!("{path}[1]"), self.findings);
        smallest.zip(largest)
    }

    fn quota_look_up(&self, fields: &Fields<'_>) -> Option<QuotaLookup> {
        let name: String = fields.read("quota_lookup")?;
        if fields.has("tiers") {
            fields
                .error("quota_lookup", "`tiers` and `quota_lookup` are both given")
                .help("write one of the two: a caller has one quota");
            return None;
        }
        match self.hooks.quota_lookups.get(&name) {
            Some(look_up) => Some(look_up.clone()),
            None if self.hooks.any_name => Some(QuotaLookup::new(|_: &Parts| async { Ok(None) })),
            None => {
                let what = ["quota_lookup", "look-up of quotas", "quota_lookup"];
                self.unregistered(&self.hooks.quota_lookups, fields, what, &name);
                None
            }
        }
    }

    fn quotas(&self, fields: &Fields<'_>) -> Vec<Quotas> {
        let Some(tiers) = fields.node("tiers") else { return Vec::new() };
        let mut quotas = Vec::new();
        let own_path = fields.path("tiers");
        for entry in entries(tiers, &own_path, self.findings).unwrap_or_default() {
            let path = join(&own_path, &entry.name);
            if let Some(quota) = decode(&entry.node, &path, self.findings) {
                quotas.push(Quotas { name: entry.name.clone(), quota, path, span: entry.node.span });
            }
        }
        quotas
    }

    fn tier_header(&self, fields: &Fields<'_>) -> Option<TierHeader> {
        let tier = fields.table("tier")?;
        let header: Option<HeaderName> = tier.parse("header");
        let is_trusted = self.trusted(&tier, header.as_ref());
        if let Some(header) = header.as_ref().filter(|_| !is_trusted) {
            self.findings
                .warning(tier.path("header"), tier.node.span, chosen_by_client(header))
                .help("name the networks of that proxy in [client_ip], and write trusted = true");
        }
        if !fields.has("tiers") {
            fields.missing_at(&["tiers"], tier.path, tier.node.span, "there are no `tiers` to choose from");
        }
        header.map(|header| TierHeader { header, proxies: is_trusted.then(|| self.clients.clone()) })
    }

    /// The tiers by header, for explanations. [`tiers`](Self::tiers) finds what is wrong with them.
    pub(super) fn tier_names(&self, fields: &Fields<'_>) -> Option<TierNames> {
        let (tier, Value::Map(tiers)) = (fields.node("tier")?, &fields.node("tiers")?.value) else {
            return None;
        };
        let text = |name| tier.get(name).and_then(|entry| entry.node.text());
        let is_trusted = tier.get("trusted").is_some_and(|entry| entry.node.value == Value::Bool(true));
        Some(TierNames {
            header: text("header")?.parse().ok()?,
            proxies: is_trusted.then(|| self.clients.clone()),
            names: tiers.iter().map(|entry| entry.name.clone()).collect(),
        })
    }

    /// From the smallest limit and burst to the largest, the policy's own among them.
    fn range(
        &self,
        tiers: &[Quotas],
        policy: &Policy,
        own: Option<Quota>,
        kind: &str,
    ) -> Option<(Quota, Quota)> {
        // Each caller may have no unit or no limit, so neither is in the range.
        let is_finite = |quota: &Quota| !quota.is_zero() && !quota.is_unlimited();
        let tiers = || tiers.iter().filter(|tier| is_finite(&tier.quota));
        let first = tiers().next().map(|tier| tier.quota);
        let period = own.filter(|own| !own.is_unlimited()).or(first).or(own)?.period();
        let mut is_valid = true;
        for tier in tiers().filter(|tier| tier.quota.period() != period) {
            let error = CallerQuotasError::OtherPeriod { quota: tier.quota, period };
            self.findings.error(&*tier.path, tier.span, error.to_string());
            is_valid = false;
        }
        let of_policy = Some(policy.strategy()).filter(|own| own.limit() > 0 && !own.is_unlimited());
        let own_limit = of_policy.map(|of_policy| own.map_or_else(|| of_policy.limit(), Quota::limit));
        let limits = || tiers().map(|tier| tier.quota.limit()).chain(own_limit);
        let of = |tier: &Quotas| strategy(kind, tier.quota).as_ref().and_then(burst);
        let bursts: Option<Vec<u64>> = tiers().map(of).chain(of_policy.map(burst)).collect();
        let bounds =
            |limit: Option<u64>, burst: Option<u64>| Quota::new(limit.unwrap_or(1), period, burst).ok();
        let smallest =
            bounds(limits().min(), bursts.as_ref().and_then(|bursts| bursts.iter().copied().min()));
        let largest = bounds(limits().max(), bursts.as_ref().and_then(|bursts| bursts.iter().copied().max()));
        smallest.zip(largest).filter(|_| is_valid)
    }
}

/// The policy's own quota, which the strategy has been made of.
fn own_quota(fields: &Fields<'_>) -> Option<Quota> {
    if let Some(node) = fields.node("quota") {
        return Quota::deserialize(node).ok();
    }
    let limit = u64::deserialize(fields.node("limit")?).ok()?;
    let period: Duration = humantime_serde::deserialize(fields.node("period")?).ok()?;
    let burst = fields.node("burst").and_then(|node| u64::deserialize(node).ok());
    Quota::new(limit, period, burst).ok()
}

/// The strategy of this name with another quota.
fn strategy(kind: &str, quota: Quota) -> Option<Strategy> {
    serde_json::from_value(serde_json::json!({ "strategy": kind, "quota": quota })).ok()
}

/// `None` for windows, logs and requests in flight.
fn burst(strategy: &Strategy) -> Option<u64> {
    match strategy {
        Strategy::TokenBucket(bucket) => Some(bucket.meter().burst()),
        Strategy::Gcra(gcra) => Some(gcra.meter().burst()),
        Strategy::LeakyBucket(bucket) => Some(bucket.meter().burst()),
        _ => None,
    }
}
