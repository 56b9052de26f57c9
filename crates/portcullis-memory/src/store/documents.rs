//! Documents in memory.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use portcullis_core::store::{DocumentStore, StoreFuture};
use portcullis_core::{StoreError, StoreErrorKind};

/// Keeps documents in this process, for tests. At most 1 024 names; a document under another name is refused.
///
/// ```
/// use portcullis::store::{DocumentStore as _, MemoryDocuments};
///
/// let documents = MemoryDocuments::new();
/// let replace = |text: &[u8]| documents.replace("rules", Vec::new(), text.to_vec()).into_ready();
/// assert_eq!(replace(b"1 first").ok(), Some(Ok(true)));
/// assert_eq!(replace(b"1 other").ok(), Some(Ok(false)));
/// assert_eq!(documents.read("rules", 1).into_ready().ok(), Some(Ok(b"1".to_vec())));
/// ```
#[derive(Debug, Default)]
pub struct MemoryDocuments(Mutex<HashMap<String, Vec<u8>>>);

impl MemoryDocuments {
    /// Makes an empty store.
    pub fn new() -> Self {
        Self::default()
    }
}

impl DocumentStore for MemoryDocuments {
    fn read(&self, name: &str, length: usize) -> StoreFuture<Vec<u8>> {
        let documents = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let document = documents.get(name).map(Vec::as_slice).unwrap_or_default();
        StoreFuture::ready(Ok(document[..length.min(document.len())].to_vec()))
    }

    fn replace(&self, name: &str, expected: Vec<u8>, document: Vec<u8>) -> StoreFuture<bool> {
        let mut documents = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = documents.get(name).map(Vec::as_slice).unwrap_or_default();
        if !now.starts_with(&expected) || (expected.is_empty() && !now.is_empty()) {
            return StoreFuture::ready(Ok(false));
        }
        if documents.len() >= MAX_NAMES && !documents.contains_key(name) {
            let message = format!("there are {MAX_NAMES} documents, which is the maximum");
            return StoreFuture::ready(Err(StoreError::new(StoreErrorKind::Failed, message)));
        }
        documents.insert(name.to_owned(), document);
        StoreFuture::ready(Ok(true))
    }
}

const MAX_NAMES: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_names_is_bounded() {
        let documents = MemoryDocuments::new();
        let put = |name: usize, expected: &[u8]| {
            documents.replace(&name.to_string(), expected.to_vec(), vec![1]).into_ready().unwrap()
        };
        for name in 0..MAX_NAMES {
            assert_eq!(put(name, b""), Ok(true));
        }
        assert!(put(MAX_NAMES, b"").is_err());
        assert_eq!((put(0, &[1]), put(0, &[2]), put(0, b"")), (Ok(true), Ok(false), Ok(false)));
    }
}
