//! Records of a caller, which the store does not interpret.

use portcullis_core::store::{ExchangedRecord, RecordExchange, StoreFuture};
use tokio::time::Instant;

use super::records::expiry_of;
use crate::protocol::override_record::replace_request;
use crate::store::RedisStore;
use crate::transport::Transport as _;

impl RedisStore {
    /// One call, by the script of the records of overrides.
    pub(in crate::store) fn start_exchange(
        &self,
        exchange: RecordExchange,
    ) -> StoreFuture<Option<ExchangedRecord>> {
        let store = self.clone();
        StoreFuture::boxed(async move {
            let RecordExchange { id, expected, replacement } = exchange;
            let name = store.0.layout.name_of_record(id);
            let request = match replacement {
                None => replace_request(0, &[], &[]),
                Some((record, kept_for)) => replace_request(expiry_of(kept_for), &expected, &record),
            };
            let end = Instant::now() + store.0.connection.deadline();
            let found = store.0.call_record(&name, None, request, end).await?;
            Ok(Some(ExchangedRecord { found: found.record.into(), is_replaced: found.is_replaced }))
        })
    }
}
