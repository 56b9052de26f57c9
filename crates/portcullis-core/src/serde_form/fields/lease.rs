//! The field `lease`: units that a policy leases, or the time for which a permit is held.

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::time::Duration;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, Unexpected, Visitor};

use super::Fields;
use crate::quota::duration;
use crate::serde_form::kind::Kind;
use crate::{InFlight, Strategy};

/// What `lease` means depends on the strategy.
#[derive(Clone, Copy)]
pub(super) enum Lease {
    /// The units of a [lease](crate::Policy::lease).
    Units(u64),
    /// The [lease](InFlight::lease) of a permit.
    Time(Duration),
}

pub(super) struct LeaseVisitor;

impl<'de> DeserializeSeed<'de> for LeaseVisitor {
    type Value = Lease;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Lease, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for LeaseVisitor {
    type Value = Lease;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`lease`, a whole number of units or, for in_flight, a duration such as \"30s\"")
    }

    fn visit_u64<E: Error>(self, units: u64) -> Result<Lease, E> {
        Ok(Lease::Units(units))
    }

    fn visit_i64<E: Error>(self, units: i64) -> Result<Lease, E> {
        match u64::try_from(units) {
            Ok(units) => Ok(Lease::Units(units)),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(units), &self)),
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Lease, E> {
        duration(text).map(Lease::Time).map_err(|error| E::custom(format_args!("`lease`: {error}")))
    }
}

impl Fields {
    /// A permit comes back when it is released, so that the strategy has a limit and no quota.
    pub(in crate::serde_form) fn in_flight(&self) -> Result<Strategy, String> {
        let kind = Kind::InFlight;
        let period = [("quota", self.quota.is_some()), ("period", self.period.is_some())];
        if let Some((field, _)) = period.into_iter().find(|(_, given)| *given) {
            return Err(format!(
                "unknown field `{field}` of {}: write `limit`, the requests in flight, and `lease`",
                kind.name()
            ));
        }
        let limit = self.limit(kind)?.ok_or("missing field `limit`, the requests in flight")?;
        let limit = InFlight::new(limit).map_err(|error| self.invalid(kind, error))?;
        let lease = match self.lease {
            None => return Ok(Strategy::InFlight(limit)),
            Some(Lease::Time(lease)) => lease,
            Some(Lease::Units(units)) => {
                return Err(format!("`lease` of {}: write a duration such as \"{units}s\"", kind.name()));
            }
        };
        limit.with_lease(lease).map(Strategy::InFlight).map_err(|error| self.invalid(kind, error))
    }

    /// Rejects a lease where only the strategy is given, except for requests in flight: any other lease belongs to the policy.
    pub(in crate::serde_form) fn reject_lease_of_policy(&self, strategy: &Strategy) -> Result<(), String> {
        match (self.lease, strategy) {
            (None, _) | (_, Strategy::InFlight(_)) => Ok(()),
            (Some(_), strategy) => Err(format!(
                "unknown field `lease` of {}: it is a field of policies, and of the strategy in_flight",
                strategy.tag()
            )),
        }
    }

    /// The units of a lease, which belong to the policy.
    pub(in crate::serde_form) fn leased_units(&self, strategy: &Strategy) -> Result<Option<u64>, String> {
        match (self.lease, strategy) {
            (None, _) | (_, Strategy::InFlight(_)) => Ok(None),
            (Some(Lease::Units(units)), _) => Ok(Some(units)),
            (Some(Lease::Time(_)), strategy) => {
                Err(format!("`lease` of {} is a whole number of units, without quotes", strategy.tag()))
            }
        }
    }
}
