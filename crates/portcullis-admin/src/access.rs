//! Who may use the API: the function that authorizes each request, and what it returns.

pub(crate) mod hosts;

use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use http::header::AUTHORIZATION;
use http::request::Parts;

/// Who makes a request of the admin API. The name stands in the audit event of each change.
///
/// ```
/// use portcullis::admin::Actor;
///
/// assert_eq!(Actor::new("ada").name(), "ada");
/// // A name cannot begin a line of its own in a log.
/// assert_eq!(Actor::new("ada\nadmin").name(), "ada?admin");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor(String);

impl Actor {
    /// The highest number of characters of a name that are kept.
    pub const MAX_LEN: usize = 128;

    /// An actor of this name, such as the user that authentication has found. Characters beyond
    /// [`MAX_LEN`](Self::MAX_LEN) are cut off, and control characters, and those that change the direction
    /// of text, are replaced by `?`.
    pub fn new(name: impl AsRef<str>) -> Self {
        let plain = |c: char| if c.is_control() || is_invisible(c) { '?' } else { c };
        Self(name.as_ref().chars().take(Self::MAX_LEN).map(plain).collect())
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.0
    }
}

/// Separators of lines, and marks of direction.
const fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Why a request of the admin API is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// The request has no valid credential: 401, with `www-authenticate: Bearer`.
    Unauthenticated,
    /// The caller is known, and may not use the API: 403.
    Forbidden,
}

/// Whether a request has `authorization: Bearer <token>` with exactly this token. The time that the comparison takes depends on
/// the length of the token only. An empty token matches no request.
///
/// ```
/// use http::Request;
/// use portcullis::admin::has_bearer_token;
///
/// let (parts, ()) = Request::builder().header("authorization", "Bearer s3cret").body(())?.into_parts();
/// assert!(has_bearer_token(&parts, "s3cret"));
/// assert!(!has_bearer_token(&parts, "guess") && !has_bearer_token(&parts, ""));
/// # Ok::<(), http::Error>(())
/// ```
pub fn has_bearer_token(parts: &Parts, token: &str) -> bool {
    let mut values = parts.headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return false };
    let Some((scheme, given)) = value.as_bytes().split_at_checked("Bearer ".len()) else { return false };
    if token.is_empty() || !scheme.eq_ignore_ascii_case(b"Bearer ") || given.len() != token.len() {
        return false;
    }
    given.iter().zip(token.bytes()).fold(0, |differences, (one, other)| differences | (one ^ other)) == 0
}

/// The function that authorizes each request.
#[derive(Clone)]
pub(crate) struct Authorize(pub(crate) Arc<AuthorizeFn>);

type AuthorizeFn = dyn Fn(&Parts) -> Authorized + Send + Sync;
pub(crate) type Authorized = Pin<Box<dyn Future<Output = Result<Actor, Refused>> + Send>>;

impl Authorize {
    /// Who makes the request; `None` if the function has panicked. Without that, a panic would end a connection, with other requests on it.
    pub(crate) async fn actor(&self, parts: &Parts) -> Option<Result<Actor, Refused>> {
        let mut actor = catch_unwind(AssertUnwindSafe(|| (self.0)(parts))).ok()?;
        poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| actor.as_mut().poll(cx))) {
            Ok(polled) => polled.map(Some),
            Err(_) => Poll::Ready(None),
        })
        .await
    }
}

impl fmt::Debug for Authorize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorize").finish_non_exhaustive()
    }
}
