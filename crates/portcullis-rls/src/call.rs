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
        let domain = request.domain.as_str();
        if domain.is_empty() {
            return Err(CallError::NoDomain);
        }
        if domain.len() > MAX_DOMAIN_BYTES {
            return Err(CallError::DomainTooLong { bytes: domain.len() });
        }
        match request.descriptors.len() {
            0 => return Err(CallError::NoDescriptors),
            1..=MAX_DESCRIPTORS => {}
            descriptors => return Err(CallError::TooManyDescriptors { descriptors }),
        }
        // In the request 0 is the default and means 1. A descriptor has a message of its own for the number, so 0 is a number there.
        let hits = u64::from(request.hits_addend.max(1));
        let descriptors = request.descriptors.iter().enumerate();
        let descriptors = descriptors.map(|(index, descriptor)| Descriptor::read(index, descriptor, hits));
        Ok(Self { domain, descriptors: descriptors.collect::<Result<_, _>>()? })
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
