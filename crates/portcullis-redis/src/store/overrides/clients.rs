//! The clients that are blocked under all policies, in one record.

use portcullis_core::overrides::{BlockedClients, ClientChange};
use portcullis_core::store::StoreFuture;
use portcullis_core::{StoreError, StoreErrorKind, Timestamp};

use crate::store::RedisStore;

impl RedisStore {
    pub(in crate::store) fn start_clients(
        &self,
        change: Option<ClientChange>,
    ) -> StoreFuture<Option<(Timestamp, BlockedClients)>> {
        let store = self.clone();
        StoreFuture::boxed(async move {
            let name = store.0.layout.name_of_blocked_clients();
            let changed = |record: &mut BlockedClients, now| {
                let has_room = change.is_none_or(|change| record.change(change, now));
                if has_room { Ok(Some((now, record.clone()))) } else { Err(full()) }
            };
            store.0.replace_record(&name, None, changed).await?
        })
    }
}

fn full() -> StoreError {
    let message = format!(
        "{} clients are blocked under all policies, which is the most: unblock one",
        BlockedClients::MAX
    );
    StoreError::new(StoreErrorKind::Overloaded, message)
}
