//! Reads and changes of the records of overrides.
//!
//! A change is made in core, between a call that reads the record and one that replaces it if it is still the same. So the script knows
//! nothing of lock-outs, and denials of all processes are counted.

use std::time::Duration;

use bytes::Bytes;
use portcullis_core::overrides::{Block, BlockedClients, LockOut, Override, OverrideError, validate_policy};
use portcullis_core::store::StoreFuture;
use portcullis_core::{Key, Policy, StoreError, StoreErrorKind, Timestamp};
use smallvec::smallvec;
use tokio::time::Instant;

use crate::protocol::override_record::{FoundRecord, replace_request};
use crate::protocol::slot::slot_of;
use crate::protocol::wire::{CallWords, with_instant};
use crate::store::{Inner, RedisStore};
use crate::transport::{Call, QueueKey, Transport as _};

impl RedisStore {
    pub(in crate::store) fn start_denials(
        &self,
        policy: &Policy,
        key: Key,
        denials: u32,
        lock_out: LockOut,
    ) -> StoreFuture<Option<Block>> {
        self.start(validate_policy(policy), policy, |store, policy| async move {
            let count = |record: &mut Override, now| record.record_denials(now, denials, &lock_out);
            let begun = store.0.replace_override(&policy, key, count).await?;
            // A denial that is remembered would be made again, but does not show the block.
            if begun.is_some() {
                store.0.denials.correct(&policy, key).answered();
            }
            Ok(begun)
        })
    }

    pub(in crate::store) fn start_read(&self, policy: &Policy, key: Key) -> StoreFuture<Override> {
        self.start(validate_policy(policy), policy, |store, policy| async move {
            store.0.replace_override(&policy, key, |record, _| *record).await
        })
    }

    /// Changes the record of a key. Removes its remembered denial, as a [correction](Inner::change) does, unless it is certain that nothing was
    /// changed: a block that fails in an outage must not let its key pass.
    pub(in crate::store) fn start_change(
        &self,
        valid: Result<(), OverrideError>,
        policy: &Policy,
        key: Key,
        change: impl Fn(&mut Override, Timestamp) + Send + Sync + 'static,
    ) -> StoreFuture<()> {
        self.start(valid, policy, |store, policy| async move {
            let correction = store.0.denials.correct(&policy, key);
            let changed = store.0.replace_override(&policy, key, change).await;
            match &changed {
                Ok(()) => correction.answered(),
                Err(error) if error.kind().is_fate_unknown() => drop(correction),
                Err(_) => correction.not_made(),
            }
            changed
        })
    }

    fn start<T, F: Future<Output = Result<T, StoreError>> + Send + 'static>(
        &self,
        valid: Result<(), OverrideError>,
        policy: &Policy,
        run: impl FnOnce(Self, Policy) -> F,
    ) -> StoreFuture<T> {
        match valid {
            Ok(()) => StoreFuture::boxed(run(self.clone(), policy.clone())),
            Err(error) => StoreFuture::ready(Err(error.into())),
        }
    }
}

impl Inner {
    /// Changes the record of a key.
    async fn replace_override<T>(
        &self,
        policy: &Policy,
        key: Key,
        change: impl Fn(&mut Override, Timestamp) -> T,
    ) -> Result<T, StoreError> {
        let mut name = Vec::new();
        self.layout.write_override_name(&mut name, policy, key);
        let owner = (!key.is_shared()).then(|| key.fingerprint());
        self.replace_record(&name, owner, change).await
    }

    /// Changes a record. The change is repeated, within one deadline, while others replace the record in between.
    pub(in crate::store) async fn replace_record<R: Record, T>(
        &self,
        name: &[u8],
        owner: Option<u128>,
        change: impl Fn(&mut R, Timestamp) -> T,
    ) -> Result<T, StoreError> {
        let end = Instant::now() + self.connection.deadline();
        let mut found = self.call_record(name, owner, replace_request(0, &[], &[]), end).await?;
        for _ in 0..MAX_ATTEMPTS {
            let before = R::decoded(&found.record);
            let mut record = before.clone();
            let answer = change(&mut record, found.at);
            if record == before {
                return Ok(answer);
            }
            let request = match record.encoded() {
                // Deleting is an expiry: it takes no other right.
                None => replace_request(1, &found.record, &[]),
                Some((encoded, expires_at)) => {
                    let left = expires_at.saturating_since(found.at);
                    replace_request(expiry_of(left), &found.record, &encoded)
                }
            };
            found = self.call_record(name, owner, request, end).await?;
            if found.is_replaced {
                return Ok(answer);
            }
        }
        Err(StoreError::new(StoreErrorKind::Overloaded, CHANGING))
    }

    pub(super) async fn call_record(
        &self,
        name: &[u8],
        owner: Option<u128>,
        request: Bytes,
        end: Instant,
    ) -> Result<FoundRecord, StoreError> {
        let slot = slot_of(name);
        let instant = self.scenario.as_ref().map(|clock| clock.now());
        let words = CallWords::new(smallvec![Bytes::copy_from_slice(name)], with_instant(request, instant));
        let call = Call {
            queue: QueueKey::new(owner, &|| false),
            end: Some(end),
            ..Call::new(&self.override_script, Some(slot), words)
        };
        FoundRecord::new(&self.received(slot, self.connection.run(call).await)?)
    }
}

/// What a record has. One that is none of core decides like none, as it does in the script.
pub(in crate::store) trait Record: Clone + PartialEq {
    fn decoded(bytes: &[u8]) -> Self;

    /// The bytes and when they expire; `None` for an empty record.
    fn encoded(&self) -> Option<(Vec<u8>, Timestamp)>;
}

impl Record for Override {
    fn decoded(bytes: &[u8]) -> Self {
        Self::decode(bytes).unwrap_or(Self::NONE)
    }

    fn encoded(&self) -> Option<(Vec<u8>, Timestamp)> {
        (!self.is_empty()).then(|| (self.encode(), self.expires_at()))
    }
}

impl Record for BlockedClients {
    fn decoded(bytes: &[u8]) -> Self {
        Self::decode(bytes).unwrap_or_default()
    }

    fn encoded(&self) -> Option<(Vec<u8>, Timestamp)> {
        (!self.is_empty()).then(|| (self.encode(), self.expires_at()))
    }
}

/// The milliseconds after which a record with so much time left is gone: not before its end, and more than 1, which deletes it.
pub(super) fn expiry_of(left: Duration) -> u64 {
    u64::try_from(left.as_millis()).unwrap_or(u64::MAX).saturating_add(2)
}

/// How often a record is read that others replace at the same time.
const MAX_ATTEMPTS: u32 = 16;
const CHANGING: &str = "others changed an override again and again at the same time";
