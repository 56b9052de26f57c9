//! The header fields that rules believe of named proxies.

use http::{HeaderMap, HeaderName};
use portcullis::rules::Rules;

use super::remove_all;

/// Removes them from what another peer has sent, and what servers may take for one of them, such as `X_Consumer_Id`, in any case: a proxy that
/// overwrites the field passes that on.
pub(crate) fn clean(headers: &mut HeaderMap, rules: &Rules, is_from_proxy: bool) {
    let is_own = |name: &HeaderName| is_from_proxy && rules.trusted_headers().any(|trusted| trusted == name);
    remove_all(headers, |name| rules.is_trusted_header(name) && !is_own(name));
}
