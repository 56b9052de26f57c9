//! Documents that all instances read, such as signed rules.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::StoreFuture;

/// Keeps documents by name, for rules that all instances of a fleet read.
///
/// A document is bytes that the store does not interpret. Its readers verify who wrote it, and its beginning identifies it, so that
/// they fetch it only after a change.
pub trait DocumentStore: fmt::Debug + Send + Sync + 'static {
    /// Reads the first `length` bytes of a document, or all of a shorter one. Empty if there is none.
    fn read(&self, name: &str, length: usize) -> StoreFuture<Vec<u8>>;

    /// Replaces a document if it begins with `expected`, or, where that is empty, if there is none. Returns whether it was replaced.
    ///
    /// Comparing and replacing are one step: if two writers expect one beginning, one of them is refused.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the document may or may not have been replaced.
    fn replace(&self, name: &str, expected: Vec<u8>, document: Vec<u8>) -> StoreFuture<bool>;
}

impl<S: DocumentStore + ?Sized> DocumentStore for Arc<S> {
    fn read(&self, name: &str, length: usize) -> StoreFuture<Vec<u8>> {
        (**self).read(name, length)
    }

    fn replace(&self, name: &str, expected: Vec<u8>, document: Vec<u8>) -> StoreFuture<bool> {
        (**self).replace(name, expected, document)
    }
}
