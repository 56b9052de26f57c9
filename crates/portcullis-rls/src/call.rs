//! A call as it is validated.

use std::time::Duration;

use portcullis::rules::envoy::Unit;

use super::messages::{RateLimitDescriptor, RateLimitRequest, RateLimitUnit};
use super::{CallError, MAX_DESCRIPTORS, MAX_DOMAIN_BYTES, MAX_ENTRIES};

/// A call whose sizes are bounded.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) domain: &'a str,
    pub(super) descriptors: Vec<Descriptor<'a>>,
}

/// A descriptor of a call.
#[derive(Debug)]
pub(super) struct Descriptor<'a> {
    pub(super) entries: Vec<(&'a str, &'a str)>,
    pub(super) hits: u64,
    /// Whether the hits are refunded rather than charged.
    pub(super) is_refund: bool,
    pub(super) limit: Option<LimitOverride>,
}

/// A limit that takes the place of the one in the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LimitOverride {
    pub(super) requests_per_unit: u32,
    pub(super) unit: Unit,
}

impl<'a> Call<'a> {
    pub(super) fn read(request: &'a RateLimitRequest) -> Result<Self, CallError> {
        // In the request 0 is the default and means 1. A descriptor has a message of its own for the number, so 0 is a number there.
        let hits = u64::from(request.hits_addend.max(1));
        Self::of(&request.domain, &request.descriptors, hits)
    }

    /// A call with an amount, which takes the place of the hits of each descriptor.
    pub(super) fn of_amount(
        domain: &'a str,
        descriptors: &'a [RateLimitDescriptor],
        amount: u64,
    ) -> Result<Self, CallError> {
        let has_hits = |descriptor: &RateLimitDescriptor| {
            descriptor.hits_addend.is_some() || descriptor.is_negative_hits
        };
        match descriptors.iter().position(has_hits) {
            Some(descriptor) => Err(CallError::HitsBesideAmount { descriptor }),
            None => Self::of(domain, descriptors, amount),
        }
    }

    fn of(domain: &'a str, descriptors: &'a [RateLimitDescriptor], hits: u64) -> Result<Self, CallError> {
        check_domain(domain)?;
        match descriptors.len() {
            0 => return Err(CallError::NoDescriptors),
            1..=MAX_DESCRIPTORS => {}
            descriptors => return Err(CallError::TooManyDescriptors { descriptors }),
        }
        let descriptors = descriptors.iter().enumerate();
        let descriptors = descriptors.map(|(index, descriptor)| Descriptor::read(index, descriptor, hits));
        Ok(Self { domain, descriptors: descriptors.collect::<Result<_, _>>()? })
    }
}

pub(super) fn check_domain(domain: &str) -> Result<(), CallError> {
    match domain.len() {
        0 => Err(CallError::NoDomain),
        1..=MAX_DOMAIN_BYTES => Ok(()),
        bytes => Err(CallError::DomainTooLong { bytes }),
    }
}

impl Call<'_> {
    /// Whether it reports usage: it has more than one hit.
    pub(super) fn is_report(&self) -> bool {
        self.descriptors.iter().any(|descriptor| descriptor.hits > 1 && !descriptor.is_refund)
    }
}

impl<'a> Descriptor<'a> {
    fn read(index: usize, descriptor: &'a RateLimitDescriptor, hits: u64) -> Result<Self, CallError> {
        let entries = descriptor.entries.len();
        if entries > MAX_ENTRIES {
            return Err(CallError::TooManyEntries { descriptor: index, entries });
        }
        let limit = descriptor.limit.as_ref().map(|limit| {
            let unit = unit(limit.unit);
            let unit = unit.ok_or(CallError::UnknownUnit { descriptor: index, unit: limit.unit })?;
            Ok::<_, CallError>(LimitOverride { requests_per_unit: limit.requests_per_unit, unit })
        });
        Ok(Self {
            entries: descriptor.entries.iter().map(|entry| (&*entry.key, &*entry.value)).collect(),
            hits: descriptor.hits_addend.unwrap_or(hits),
            is_refund: descriptor.is_negative_hits,
            limit: limit.transpose()?,
        })
    }
}

/// The unit of a limit override.
fn unit(number: i32) -> Option<Unit> {
    Some(match RateLimitUnit::try_from(number).ok()? {
        RateLimitUnit::Unknown => return None,
        RateLimitUnit::Second => Unit::Second,
        RateLimitUnit::Minute => Unit::Minute,
        RateLimitUnit::Hour => Unit::Hour,
        RateLimitUnit::Day => Unit::Day,
        RateLimitUnit::Month => Unit::Month,
        RateLimitUnit::Year => Unit::Year,
    })
}

/// The unit with this length.
pub(super) fn unit_of_length(length: Duration) -> Option<Unit> {
    Unit::ALL.into_iter().find(|unit| unit.duration() == length)
}
