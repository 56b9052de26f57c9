//! Receipts as bytes, for a charge that another process corrects.

use alloc::vec::Vec;

use super::Receipt;
use crate::charge::{Position, Run};
use crate::{Key, Policy, PolicyName, Quota, Strategy, Timestamp};

impl Receipt {
    /// The receipt as bytes, with the digest of its policy and the quota of its caller, and no identity but the fingerprint of the key.
    ///
    /// `None` for a charge that another process cannot correct: one of a fallback in this process, a permit of a request in flight, and one
    /// under the quota of a [grant](Policy::is_granted).
    ///
    /// ```
    /// use portcullis::{Policy, Quota, Receipt, Secret, Timestamp};
    ///
    /// let mut hasher = Secret::published().hasher();
    /// hasher.writer().part("user", b"ada");
    /// let hits = Policy::fixed_window("hits", Quota::per_minute(60));
    /// let receipt = Receipt::of_window(hits.clone(), hasher.finish()?, 5, Timestamp::EPOCH);
    /// let bytes = receipt.encode().ok_or("it is of the store")?;
    /// assert_eq!(Receipt::decode(&bytes, |name, _| (name == hits.name()).then(|| hits.clone())), Some(receipt));
    /// assert_eq!(Receipt::decode(&bytes, |_, limit| Some(Policy::gcra("hits", Quota::per_second(limit)))), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn encode(&self) -> Option<Vec<u8>> {
        let is_in_flight = matches!(self.policy.strategy(), Strategy::InFlight(_));
        if self.fallback_id.is_some() || is_in_flight || self.policy.is_granted() {
            return None;
        }
        let name = self.policy.name().as_str().as_bytes();
        let mut bytes = Vec::with_capacity(160);
        bytes.push(VERSION);
        bytes.push(u8::try_from(name.len()).ok()?);
        bytes.extend_from_slice(name);
        let own = self.policy.caller_quota();
        let quota = own.or(rate_of(&self.policy));
        bytes.push(u8::from(own.is_some()) | (u8::from(self.if_newest) << 1));
        bytes.push(self.key.own_parts());
        for number in [self.policy.digest(), self.key.fingerprint(), self.key.slot()] {
            bytes.extend(number.to_be_bytes());
        }
        let quota = quota.unwrap_or(Quota::UNLIMITED);
        let (limit, burst) = (self.policy.strategy().limit(), quota.explicit_burst().unwrap_or(0));
        let numbers = [limit, quota.limit(), quota.period_micros(), burst, self.units, self.at.as_micros()];
        let runs = self.runs.iter().flat_map(|run| [run.units, run.position.micros, run.position.remainder]);
        for number in numbers.into_iter().chain(runs) {
            bytes.extend(number.to_be_bytes());
        }
        Some(bytes)
    }

    /// Reads what [`encode`](Self::encode) has written. `policy` finds the policy of this name, which had this limit; `None` if there is
    /// none.
    ///
    /// `None` as well if the bytes are no receipt, or the policy has other states now.
    pub fn decode(bytes: &[u8], policy: impl FnOnce(&PolicyName, u64) -> Option<Policy>) -> Option<Self> {
        let (&[VERSION, length], rest) = bytes.split_first_chunk()? else { return None };
        let (name, rest) = rest.split_at_checked(length.into())?;
        let name = PolicyName::new(core::str::from_utf8(name).ok()?).ok()?;
        let (&[flags, own_parts], rest) = rest.split_first_chunk()?;
        let (wide, rest) = rest.split_at_checked(WIDE)?;
        let (wide, _) = wide.as_chunks::<16>();
        let &[digest, fingerprint, slot] = wide else { return None };
        let [digest, fingerprint, slot] = [digest, fingerprint, slot].map(u128::from_be_bytes);
        let (numbers, []) = rest.as_chunks::<8>() else { return None };
        let numbers: Vec<u64> = numbers.iter().map(|number| u64::from_be_bytes(*number)).collect();
        let (&[limit, quota, period, burst, units, at], runs) = numbers.split_first_chunk()?;
        let policy =
            policy(&name, limit).filter(|policy| policy.digest() == digest && *policy.name() == name)?;
        let is_rate = |rate: Quota| {
            rate.limit() == quota
                && rate.period_micros() == period
                && rate.explicit_burst().unwrap_or(0) == burst
        };
        let policy = if flags & 1 == 0 {
            // Units that come back at another rate would be refunded wrongly.
            Some(policy).filter(|policy| rate_of(policy).is_none_or(is_rate))?
        } else if quota == Quota::UNLIMITED.limit() {
            policy.with_quota(Quota::UNLIMITED).ok()?
        } else {
            let period = core::time::Duration::from_micros(period);
            policy.with_quota(Quota::new(quota, period, (burst > 0).then_some(burst)).ok()?).ok()?
        };
        let is_time = |micros: u64| micros <= Timestamp::MAX.as_micros();
        let (runs, []) = runs.as_chunks::<3>() else { return None };
        if flags > 3 || !is_time(at) || runs.len() > Self::MAX_RUNS {
            return None;
        }
        let key = Key::from_fingerprints(fingerprint, slot, own_parts);
        let mut receipt = Self::blank(policy, key, Timestamp::from_micros(at));
        for &[units, micros, remainder] in runs {
            if units == 0 || !is_time(micros) {
                return None;
            }
            receipt.add(Run { units, position: Position { micros, remainder } });
        }
        let held = receipt.runs.iter().fold(0_u64, |sum, run| sum.saturating_add(run.units));
        if held > units {
            return None;
        }
        Some(Self { units, if_newest: flags & 2 != 0, ..receipt })
    }
}

/// The rate at which units come back.
fn rate_of(policy: &Policy) -> Option<Quota> {
    policy.strategy().meter().and(policy.strategy().quota())
}

/// The bytes of three numbers of 128 bits.
const WIDE: usize = 48;

/// The first byte.
const VERSION: u8 = 0x31;

#[cfg(test)]
mod tests;
