//! The live page: one file, and a policy by which a browser runs nothing that is not in it.

use std::sync::LazyLock;

use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderName, HeaderValue};
use sha2::{Digest as _, Sha256};

/// The page. It contains no data, and reads all of them from the stream, with the token that a person enters.
const PAGE: &str = include_str!("page.html");

/// Returns the live page, which is static and needs no token.
pub(crate) fn page() -> Response {
    /// Computed once: the page is part of the program.
    static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
        HeaderValue::from_str(&content_security_policy(PAGE)).expect("base64 and ASCII are valid in a header")
    });
    let headers: [(HeaderName, HeaderValue); 5] = [
        (CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8")),
        (CONTENT_SECURITY_POLICY, POLICY.clone()),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ];
    (headers, PAGE).into_response()
}

/// Allows the style and the script of `page` by their hashes, and requests to the page's own origin. `require-trusted-types-for`
/// makes a browser refuse to parse text as HTML, also if the script tried to.
fn content_security_policy(page: &str) -> String {
    let (style, script) = (hash(element(page, "style")), hash(element(page, "script")));
    format!(
        "default-src 'none'; script-src '{script}'; style-src '{style}'; connect-src 'self'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'; require-trusted-types-for 'script'"
    )
}

/// The hash of the text of an inline element, as a source of a Content-Security-Policy.
fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text.as_bytes())))
}

/// The text of the only element of that name, which has no attributes.
fn element<'a>(page: &'a str, name: &str) -> &'a str {
    let (_, after) = page.split_once(&format!("<{name}>")).expect("the page has the element");
    after.split_once(&format!("</{name}>")).expect("the element ends").0
}

#[cfg(test)]
mod tests;
