//! The renewals of permits: several keys, and several charges of one key, in one call.

use std::collections::HashMap;

use bytes::Bytes;
use portcullis_core::store::Run;
use portcullis_core::{Key, Policy, StoreError, Timestamp};

use super::{
    DOUBLE, HEAD, LAST, MAX_LOAD, Operation, RECORD, RUN, Records, Reply, Words, byte, double, load_of,
    number_of, record, run_bytes, with_instant,
};
use crate::protocol::keys::Layout;
use crate::protocol::value::Value;

/// The permits of one charge under a policy that limits requests in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PermitRun<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) key: Key,
    pub(crate) run: Run,
}

/// A call that renews permits, before it is sent.
#[derive(Debug)]
pub(crate) struct RenewalCall {
    pub(crate) keys: Words,
    pub(crate) args: Words,
    /// The number of runs of each check, which [`read`](Self::read) needs.
    pub(crate) sizes: Vec<usize>,
}

/// The most runs of a call.
pub(crate) const MAX_RENEWALS: usize = 128;

/// How many of the first runs one call renews, for the work of the largest decision, at least one. Runs of a key are in sequence.
pub(crate) fn first_renewals<'a>(runs: impl Iterator<Item = PermitRun<'a>>) -> usize {
    let (mut load, mut last) = (0_u64, None);
    let fits = runs.take(MAX_RENEWALS).take_while(|permits| {
        if last.replace(id(permits)) != Some(id(permits)) {
            // A state is read and written once.
            load += load_of(std::iter::once(permits.policy.strategy())).map_or(0, u64::from);
        }
        load = load.saturating_add(permits.run.units.max(1));
        load <= u64::from(MAX_LOAD)
    });
    fits.count().max(1)
}

fn id(permits: &PermitRun<'_>) -> (u128, u128) {
    (permits.key.fingerprint(), permits.policy.digest())
}

impl RenewalCall {
    /// Renews at most [`MAX_RENEWALS`] runs. Runs of a key are one check if they are in sequence, and a key is sent once.
    ///
    /// Mirrors: the comment of `lua/driver.lua`.
    pub(crate) fn new(layout: &Layout, now: Option<Timestamp>, permits: &[PermitRun<'_>]) -> Self {
        let (mut keys, mut numbers) = (Words::new(), HashMap::<Bytes, u8>::new());
        let (mut records, mut sizes) = (Records::new(), Vec::new());
        let mut checks: Vec<[u8; 2]> = Vec::new();
        let mut runs = Vec::with_capacity(RUN * permits.len());
        for PermitRun { policy, key, run } in permits {
            let record = record(Operation::Renew, policy.strategy(), 0, Timestamp::EPOCH);
            let number = number_of(&mut records, record);
            let mut name = Vec::with_capacity(layout.longest_name(policy));
            layout.write_name(&mut name, policy, *key);
            let name = Bytes::from(name);
            let key = *numbers.entry(name.clone()).or_insert_with(|| {
                keys.push(name);
                byte(keys.len())
            });
            let check = [number | LAST, key];
            if checks.last() != Some(&check) {
                checks.push(check);
                sizes.push(0);
            }
            if let Some(size) = sizes.last_mut() {
                *size += 1;
            }
            let mut bytes = run_bytes(policy.strategy(), *run);
            bytes[DOUBLE..2 * DOUBLE].copy_from_slice(&double(checks.len() as u64));
            runs.extend(bytes);
        }
        let mut request = Vec::with_capacity(HEAD + 2 * checks.len() + RECORD * records.len() + runs.len());
        request.extend([Operation::Renew.code(), byte(checks.len()), byte(records.len())]);
        request.extend(checks.iter().flatten());
        request.extend(records.iter().flat_map(|record| &record[..RECORD]));
        request.extend(runs);
        Self { keys, args: with_instant(Bytes::from(request), now), sizes }
    }

    /// Reads the number of permits of each run that were renewed.
    pub(crate) fn read(sizes: &[usize], reply: Value) -> Result<Vec<u64>, StoreError> {
        let mut reply = Reply::new(reply)?;
        reply.at()?;
        let mut renewed = Vec::new();
        for size in sizes {
            reply.done()?;
            for _ in 0..*size {
                renewed.push(reply.number()?);
            }
        }
        Ok(renewed)
    }
}

const _: () = assert!(MAX_RENEWALS <= LAST as usize, "the number of a record has seven bits");

#[cfg(test)]
mod tests;
