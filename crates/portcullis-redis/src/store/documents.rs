//! Documents that all instances read. They lie outside the namespace, so that the user of a limiter may only read them.

use bytes::Bytes;
use portcullis_core::store::{DocumentStore, StoreFuture};
use portcullis_core::{StoreError, StoreErrorKind};

use crate::protocol::scripts;
use crate::protocol::slot::slot_of;
use crate::protocol::value::Value;

use super::{Inner, RedisStore};

impl DocumentStore for RedisStore {
    /// One `GETRANGE`, for which permission to read the key is enough.
    fn read(&self, name: &str, length: usize) -> StoreFuture<Vec<u8>> {
        if let Some(error) = self.0.refused_name(name) {
            return StoreFuture::ready(Err(error));
        }
        let Some(last) = length.checked_sub(1) else { return StoreFuture::ready(Ok(Vec::new())) };
        let (store, name) = (self.clone(), name.to_owned());
        StoreFuture::boxed(async move {
            let slot = slot_of(name.as_bytes());
            // A missing permission for documents does not concern the decisions, so nothing is logged about it.
            match store.0.explained(slot, store.0.connection.read_range(&name, last).await)? {
                Value::Text(text) => Ok(text.into()),
                Value::Null => Ok(Vec::new()),
                other => Err(unexpected(&other)),
            }
        })
    }

    /// One script, which needs `+evalsha`, `+script|load`, `+get`, `+set` and permission to write the key.
    fn replace(&self, name: &str, expected: Vec<u8>, document: Vec<u8>) -> StoreFuture<bool> {
        if let Some(error) = self.0.refused_name(name) {
            return StoreFuture::ready(Err(error));
        }
        let (store, name) = (self.clone(), name.to_owned());
        StoreFuture::boxed(async move {
            let slot = slot_of(name.as_bytes());
            let args = vec![Bytes::from(expected), Bytes::from(document)];
            let reply = store.0.connection.call(&scripts::of_documents(), vec![name], args).await;
            match store.0.explained(slot, reply)? {
                Value::Integer(replaced) => Ok(replaced == 1),
                other => Err(unexpected(&other)),
            }
        })
    }
}

impl Inner {
    /// Why a document may not have this name, if so: every limiter may write the keys of the namespace.
    fn refused_name(&self, name: &str) -> Option<StoreError> {
        let namespace = self.layout.namespace();
        let is_inside = name.strip_prefix(namespace).is_some_and(|rest| rest.starts_with(':'));
        let message = if name.is_empty() || name.len() > MAX_NAME {
            format!("a document's name has 1 to {MAX_NAME} bytes, not {}", name.len())
        } else if is_inside {
            format!(
                "`{name}` is in the namespace `{namespace}`, which every limiter may write: name the document otherwise"
            )
        } else {
            return None;
        };
        Some(StoreError::new(StoreErrorKind::Unsupported, message))
    }
}

fn unexpected(reply: &Value) -> StoreError {
    StoreError::new(
        StoreErrorKind::Failed,
        format!("the server's reply is not that of a document: {reply:?}"),
    )
}

const MAX_NAME: usize = 255;
