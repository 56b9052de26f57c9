//! Writes a document to its store.

use portcullis_core::StoreError;
use portcullis_core::store::DocumentStore;

use crate::signed::{Document, DocumentError, HEADER, SigningKey};

/// Signs rules under the next number, and writes them in place of the present document. Returns what was written.
///
/// The number is one more than that of the present document, and at least `at_least`: after the store has lost its document, give
/// a number above the last one, because instances that run refuse lower ones. If several write at the same time, one succeeds.
///
/// # Errors
///
/// [`PushError::Conflict`] if another writer was faster; [`PushError::Foreign`] if the present document was not signed by this key;
/// [`PushError::Store`] if the store does not answer, in which case the document may have been written.
///
/// ```
/// use portcullis::rules::remote::{SigningKey, push};
/// use portcullis::store::MemoryDocuments;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), portcullis::rules::remote::PushError> {
/// let (store, key) = (MemoryDocuments::new(), SigningKey::from_seed([7; 32]));
/// let first = push(&store, "shop", &key, r#"{"policy":{"search":{"limit":50}}}"#, 0).await?;
/// let next = push(&store, "shop", &key, r#"{"policy":{"search":{"limit":60}}}"#, 0).await?;
/// assert_eq!((first.number(), next.number()), (1, 2));
/// # Ok(())
/// # }
/// ```
pub async fn push<S: DocumentStore + ?Sized>(
    store: &S,
    name: &str,
    key: &SigningKey,
    text: &str,
    at_least: u64,
) -> Result<Document, PushError> {
    let present = store.read(name, HEADER + Document::MAX + 1).await?;
    let next = if present.is_empty() {
        1
    } else {
        let present = Document::verify(&present, name, &key.verifying_key()).map_err(PushError::Foreign)?;
        present.number().checked_add(1).ok_or(PushError::LastNumber)?
    };
    let document = Document::sign(key, name, next.max(at_least), text).map_err(PushError::Document)?;
    let expected = present.get(..HEADER).unwrap_or_default().to_vec();
    if store.replace(name, expected, document.to_bytes()).await? {
        Ok(document)
    } else {
        Err(PushError::Conflict { number: document.number() })
    }
}

/// Why a document was not written.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PushError {
    /// Another writer replaced the document meanwhile.
    #[error(
        "another document was pushed meanwhile, so that number {number} is taken: look at it, and push again"
    )]
    Conflict {
        /// The number that this document would have had.
        number: u64,
    },
    /// What is there is not a document of this key.
    #[error("what is there is not a document of this key: {0}; delete it to replace it")]
    Foreign(DocumentError),
    /// The rules are too large.
    #[error(transparent)]
    Document(DocumentError),
    /// There is no higher number.
    #[error("the present document has the highest number that there is: delete it to begin again")]
    LastNumber,
    /// The store does not answer, or refuses.
    #[error("the store of the rules: {0}")]
    Store(#[from] StoreError),
}

#[cfg(test)]
mod tests {
    use portcullis_memory::MemoryDocuments;

    use super::*;

    #[tokio::test]
    async fn of_two_pushers_one_is_refused() {
        let (store, key) = (MemoryDocuments::new(), SigningKey::from_seed([1; 32]));
        push(&store, "shop", &key, "{}", 7).await.unwrap();
        let seen = store.read("shop", HEADER).await.unwrap();
        assert_eq!(push(&store, "shop", &key, "{}", 0).await.unwrap().number(), 8);
        let late = Document::sign(&key, "shop", 8, "{ }").unwrap();
        assert!(!store.replace("shop", seen, late.to_bytes()).await.unwrap());
        assert_eq!(push(&store, "shop", &key, "{}", 3).await.unwrap().number(), 9);
    }

    #[tokio::test]
    async fn document_of_another_key_is_not_replaced() {
        let (store, key) = (MemoryDocuments::new(), SigningKey::from_seed([1; 32]));
        push(&store, "shop", &key, "{}", u64::MAX).await.unwrap();
        let other = SigningKey::from_seed([2; 32]);
        let foreign = push(&store, "shop", &other, "{}", 0).await;
        assert!(matches!(foreign, Err(PushError::Foreign(DocumentError::Signature { .. }))));
        assert!(matches!(push(&store, "shop", &key, "{}", 0).await, Err(PushError::LastNumber)));
        assert!(store.replace("text", Vec::new(), b"anything".to_vec()).await.unwrap());
        assert!(matches!(
            push(&store, "text", &key, "{}", 0).await,
            Err(PushError::Foreign(DocumentError::Form))
        ));
    }
}
