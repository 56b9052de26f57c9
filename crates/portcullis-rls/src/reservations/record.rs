//! Reservations as records that instances share. A reader trusts none of the bytes.

use std::time::Duration;

use portcullis::store::Receipt;
use portcullis::{Policy, PolicyName};
use portcullis_engine::OnAbort;
use portcullis_tower::joint::HeldUnits;

/// A record as it was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Record<'b> {
    /// What [`Reserved::decode`] reads.
    Open(&'b [u8]),
    /// An instance settles it.
    Claimed,
    /// It was committed.
    Committed,
}

/// What an open record has.
#[derive(Debug)]
pub(super) struct Reserved {
    pub(super) amount: u64,
    pub(super) ttl: Duration,
    pub(super) held: Vec<HeldUnits>,
}

impl<'b> Record<'b> {
    /// Reads the record of a reservation of the domain with this fingerprint. `None` if it is of another domain, has ended, or is none.
    pub(super) fn read(bytes: &'b [u8], domain: u128) -> Option<Self> {
        let (&[VERSION, state], rest) = bytes.split_first_chunk()? else { return None };
        let (of, rest) = rest.split_first_chunk()?;
        if u128::from_be_bytes(*of) != domain {
            return None;
        }
        match state {
            OPEN => Some(Self::Open(rest)),
            CLAIMED => Some(Self::Claimed),
            COMMITTED => Some(Self::Committed),
            _ => None,
        }
    }
}

/// The record of a reservation that an instance settles. `token` tells its claim from those of others.
pub(super) fn claimed(domain: u128, token: u64) -> Vec<u8> {
    [&head(CLAIMED, domain)[..], &token.to_be_bytes()].concat()
}

pub(super) fn committed(domain: u128) -> Vec<u8> {
    head(COMMITTED, domain)
}

/// The record of a reservation that has ended without being committed.
pub(super) fn expired(domain: u128) -> Vec<u8> {
    head(EXPIRED, domain)
}

fn head(state: u8, domain: u128) -> Vec<u8> {
    [&[VERSION, state][..], &domain.to_be_bytes()].concat()
}

impl Reserved {
    /// The open record. `None` if a charge is one that no other instance can correct.
    pub(super) fn encode(&self, domain: u128) -> Option<Vec<u8>> {
        let mut bytes = head(OPEN, domain);
        bytes.extend(u32::try_from(self.ttl.as_millis()).ok()?.to_be_bytes());
        bytes.extend(self.amount.to_be_bytes());
        bytes.extend(u16::try_from(self.held.len()).ok()?.to_be_bytes());
        for HeldUnits { receipt, weight, on_abort } in &self.held {
            let receipt = receipt.encode()?;
            bytes.push(u8::from(*on_abort == OnAbort::Nothing));
            bytes.push(u8::try_from(*weight).ok()?);
            bytes.extend(u16::try_from(receipt.len()).ok()?.to_be_bytes());
            bytes.extend(receipt);
        }
        Some(bytes)
    }

    /// Reads what [`encode`](Self::encode) has written. `policy` finds a policy by its name and its limit.
    pub(super) fn decode(bytes: &[u8], policy: impl Fn(&PolicyName, u64) -> Option<Policy>) -> Option<Self> {
        let (ttl, bytes) = bytes.split_first_chunk()?;
        let (amount, bytes) = bytes.split_first_chunk()?;
        let (&[high, low], mut bytes) = bytes.split_first_chunk()?;
        let number = usize::from(u16::from_be_bytes([high, low]));
        let ttl = Duration::from_millis(u32::from_be_bytes(*ttl).into());
        let amount = u64::from_be_bytes(*amount);
        let mut held = Vec::new();
        while let Some((&[is_released, weight, high, low], rest)) = bytes.split_first_chunk() {
            let length = u16::from_be_bytes([high, low]);
            let (receipt, rest) = rest.split_at_checked(length.into())?;
            let receipt = Receipt::decode(receipt, &policy)?;
            let on_abort = if is_released == 0 { OnAbort::Reservation } else { OnAbort::Nothing };
            held.push(HeldUnits { receipt, weight: weight.into(), on_abort });
            bytes = rest;
        }
        (bytes.is_empty() && held.len() == number).then_some(Self { amount, ttl, held })
    }
}

/// For how long after its end the record of a reservation is kept of which something is given back.
pub(super) const GRACE: Duration = Duration::from_secs(60);

const VERSION: u8 = 1;
const OPEN: u8 = b'O';
const CLAIMED: u8 = b'C';
const COMMITTED: u8 = b'E';
const EXPIRED: u8 = b'X';
