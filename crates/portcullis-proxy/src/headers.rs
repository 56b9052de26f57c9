//! The header fields that a proxy removes and writes.

pub(super) mod forwarded;
pub(super) mod hop_by_hop;
pub(super) mod trusted;

use http::{HeaderMap, HeaderName};

fn remove_all(headers: &mut HeaderMap, is_removed: impl Fn(&HeaderName) -> bool) {
    let removed: Vec<_> = headers.keys().filter(|name| is_removed(name)).cloned().collect();
    for name in removed {
        headers.remove(name);
    }
}
