//! Signed documents, and the keys for them.

mod document;
mod hex;
mod keys;

pub(crate) use document::HEADER;
pub use document::{Document, DocumentError};
pub use keys::{KeyError, SigningKey, VerifyingKey};
