//! The end of reservations that are not committed.

use std::sync::{Arc, Weak};
use std::time::Duration;

use portcullis::store::RecordExchange;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::open::Open;
use super::record::{self, GRACE};
use super::registry::{Next, Registry};

/// Keeps an open reservation, also one that was claimed, and makes sure that a task ends it.
pub(super) fn keep(registry: &Arc<Registry>, id: u128, open: Open) {
    let ending = || end_all(Arc::downgrade(registry), Arc::clone(&registry.changed));
    registry.insert(id, open, || tokio::spawn(ending()));
}

/// Ends reservations as they are due, some at a time, until none is left or the service is gone.
async fn end_all(registry: Weak<Registry>, changed: Arc<Notify>) {
    let mut ending = JoinSet::new();
    loop {
        while ending.try_join_next().is_some() {}
        if ending.len() >= MOST_AT_A_TIME {
            ending.join_next().await;
        }
        let Some(present) = registry.upgrade() else { return };
        match present.next() {
            Next::Ended(id, open) => {
                ending.spawn(async move { end(&present, id, *open).await });
            }
            Next::At(at) => {
                drop(present);
                // Earlier if another one is due earlier.
                let _ = timeout_at(at, changed.notified()).await;
            }
            Next::Nothing => {
                ending.detach_all();
                return;
            }
        }
    }
}

/// Settles a reservation at its end. One that other instances see is claimed first: it may be committed there at the same time. If the store
/// does not answer, that is repeated for as long as the record is kept.
async fn end(registry: &Arc<Registry>, id: u128, mut open: Open) {
    let Open { reserved, limits, .. } = &open;
    // What stays charged needs no claim: its record ends by itself.
    if !reserved.is_released() {
        return;
    }
    let Some(record) = &open.record else { return reserved.release(limits) };
    let exchange = RecordExchange {
        id,
        expected: record.clone(),
        replacement: Some((record::expired(open.domain), GRACE)),
    };
    match limits.engine().store().exchange_record(exchange).await {
        Ok(None) => reserved.release(limits),
        Ok(Some(exchanged))
            if exchanged.is_replaced
                || exchanged.found == record::expired(open.domain)
                // By a commit whose answer was lost, and that was not repeated.
                || exchanged.found == record::claimed(open.domain, registry.token) =>
        {
            reserved.release(limits);
        }
        // Another instance has settled it.
        Ok(Some(exchanged)) if !exchanged.found.is_empty() => {}
        Ok(Some(_)) => reserved.keep(limits),
        Err(error) => {
            limits.emit_store_state(Some(&error));
            let now = Instant::now();
            if now < open.ends_at + GRACE {
                open.due = registry.due(now + RETRY);
                keep(registry, id, open);
            } else {
                reserved.keep(limits);
            }
        }
    }
}

/// The calls of the store for those that end together.
const MOST_AT_A_TIME: usize = 64;
/// When a claim is repeated that the store has not answered.
const RETRY: Duration = Duration::from_secs(1);
