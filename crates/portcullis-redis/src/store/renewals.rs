//! Renewals of permits under limits on requests in flight, by as few calls as possible: one for each slot, or several if a call would
//! [block the server](first_renewals) for longer than the largest decision. The caller repeats them.

use portcullis_core::store::{Renewal, Renewed};
use portcullis_core::{StoreError, StoreErrorKind, Strategy};
use tokio::task::JoinSet;

use super::{Inner, RedisStore};
use crate::protocol::keys;
use crate::protocol::wire::{CallWords, PermitRun, RenewalCall, first_renewals};
use crate::transport::{Call, Transport as _};

/// A run of a renewal.
#[derive(Clone, Copy, Debug)]
struct RunId {
    slot: u16,
    /// The index of the renewal.
    renewal: usize,
    /// The index of the run in it.
    run: usize,
}

impl RedisStore {
    /// Renews permits, all of them within one deadline unless there are more than [`MAX_AT_ONCE`] calls.
    pub(super) async fn renew_permits(self, renewals: Vec<Renewal>) -> Result<Vec<Renewed>, StoreError> {
        let ids = self.0.runs_by_slot(&renewals);
        let mut rest = &ids[..];
        let mut held = vec![0_u64; renewals.len()];
        let (mut calls, mut failure) = (JoinSet::new(), None);
        loop {
            while calls.len() < MAX_AT_ONCE && !rest.is_empty() {
                let (chunk, later) = next_call(&renewals, rest);
                rest = later;
                let (store, slot) = (self.clone(), chunk[0].slot);
                let permits: Vec<_> = chunk.iter().map(|id| permits(&renewals, *id)).collect();
                let now = self.0.scenario.as_ref().map(|clock| clock.now());
                let call = RenewalCall::new(&self.0.layout, now, &permits);
                let chunk = chunk.to_vec();
                calls.spawn(async move { Ok((chunk, store.0.run_renewals(slot, call).await?)) });
            }
            let Some(answer) = calls.join_next().await else { break };
            match answer {
                Ok(Ok((chunk, renewed))) => {
                    for (id, count) in chunk.into_iter().zip(renewed) {
                        held[id.renewal] = held[id.renewal].saturating_add(count);
                    }
                }
                Ok(Err(error)) => failure = Some(error),
                Err(_) => failure = Some(StoreError::new(StoreErrorKind::TimedOut, "the call was cancelled")),
            }
        }
        match failure {
            Some(error) => Err(error),
            None => Ok(renewals.iter().zip(held).map(|(renewal, held)| renewal.found(held)).collect()),
        }
    }
}

impl Inner {
    /// The runs of permits that this store has charged, those of a slot in sequence.
    fn runs_by_slot(&self, renewals: &[Renewal]) -> Vec<RunId> {
        let is_cluster = self.connection.is_cluster();
        let mut ids = Vec::new();
        for (index, renewal) in renewals.iter().enumerate() {
            let has_permits = matches!(renewal.policy().strategy(), Strategy::InFlight(_));
            if has_permits && renewal.fallback_id().is_none() {
                let slot = if is_cluster { keys::slot(renewal.key()) } else { 0 };
                ids.extend((0..renewal.runs().len()).map(|run| RunId { slot, renewal: index, run }));
            }
        }
        let order = |id: &RunId| {
            let renewal = &renewals[id.renewal];
            (id.slot, renewal.key().fingerprint(), renewal.policy().digest())
        };
        ids.sort_by_key(order);
        ids
    }

    /// Returns the number of permits of each run that are held.
    async fn run_renewals(&self, slot: u16, call: RenewalCall) -> Result<Vec<u64>, StoreError> {
        let RenewalCall { keys, args, sizes } = call;
        let call = Call::new(&self.script, Some(slot), CallWords::new(keys, args));
        let reply = self.received(slot, self.connection.run(call).await)?;
        RenewalCall::read(&sizes, reply)
    }
}

fn permits(renewals: &[Renewal], id: RunId) -> PermitRun<'_> {
    let renewal = &renewals[id.renewal];
    PermitRun { policy: renewal.policy(), key: renewal.key(), run: renewal.runs()[id.run] }
}

/// Divides the runs into those of the next call and the others.
fn next_call<'i>(renewals: &[Renewal], ids: &'i [RunId]) -> (&'i [RunId], &'i [RunId]) {
    let of_slot = ids.iter().take_while(|id| id.slot == ids[0].slot);
    ids.split_at(first_renewals(of_slot.map(|id| permits(renewals, *id))))
}

/// The most calls at a time.
const MAX_AT_ONCE: usize = 16;
