//! Reads the bodies of requests that are answered before, and discards them.
//!
//! A server that drops a body unread resets its stream, which HTTP/2 allows a limited number of times for a connection that others may
//! share, or closes a connection of HTTP/1 while the client still writes, which loses the response.

mod read;
mod room;
mod unread;

use std::cell::Cell;

use http::header::EXPECT;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Version};
use http_body::Body;
use portcullis_core::Key;

use portcullis_identity::peer;
use room::Sender;
pub use unread::Unread;

/// The bytes that are read of a body, by default.
pub const BYTES: u64 = 16 << 20;

/// Reads the body of a request that is answered already, in the background and within bounds. `key` is that of the client, if it has one.
#[inline]
pub fn discard<B>(parts: &Parts, body: B, key: Option<Key>, bytes: u64)
where
    B: Body + Send + 'static,
{
    if body.is_end_stream() {
        return;
    }
    if bytes == 0 || awaits_continue(parts.version, &parts.headers) {
        return drop_unread(body);
    }
    let peer = || peer(&parts.extensions).map(|peer| peer.ip());
    read::spawn(body, key.map_or_else(|| Sender::of_peer(peer()), Sender::of_key), bytes);
}

/// Whether the client sends its body only when a server starts to read it. In HTTP/2 reading tells a client nothing.
fn awaits_continue(version: Version, headers: &HeaderMap) -> bool {
    let expects = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"100-continue");
    version == Version::HTTP_11 && headers.get_all(EXPECT).iter().any(expects)
}

thread_local! {
    /// Whether a body is dropped of which enough is read.
    static IS_OVER: Cell<bool> = const { Cell::new(false) };
}

/// Drops a body, or what is around it, of which no more is read.
fn drop_unread<B>(body: B) {
    /// Also if the drop of the body panics.
    struct Reset(bool);

    impl Drop for Reset {
        fn drop(&mut self) {
            IS_OVER.set(self.0);
        }
    }

    let _reset = Reset(IS_OVER.replace(true));
    drop(body);
}
