//! Rules that are kept in a store, so that a fleet changes together.
//!
//! The local file stays the base: a [`Document`] changes fields of its policies, by default `limit`, `burst` and `mode`, if
//! `[remote]` in the local file names the key that has to have signed it. Each document has a number, which never goes backwards.
//! [`push`] writes a document, and [`RemoteWatch`] follows it.
//!
//! The local file is the authority: a document that it no longer fits is discarded, and its own values apply until one fits.
//!
//! What a process has seen ends with it: after a restart it accepts any signed document whose number is at least `minimum_number`,
//! also one that is older than what it had before.

mod push;
mod resolve;
#[cfg(feature = "watch")]
mod watch;

pub use crate::overlay::RemoteSettings;
pub use crate::signed::{Document, DocumentError, KeyError, SigningKey, VerifyingKey};
pub use push::{PushError, push};
pub use resolve::resolve;
#[cfg(feature = "watch")]
pub use watch::{RemoteError, RemoteHandle, RemoteWatch};
