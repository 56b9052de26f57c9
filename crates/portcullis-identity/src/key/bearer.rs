//! Keys by bearer token.

use std::borrow::Cow;

use http::HeaderValue;
use http::header::AUTHORIZATION;
use http::request::Parts;
use portcullis_core::KeyWriter;

use super::only_line::{OnlyLine, only_line};
use super::{Identity, KeyError, KeyExtractor, KeyForms, NamedPart, without_whitespace};

/// The token of `Authorization: Bearer <token>`.
///
/// A token has 1 to 4 096 bytes of visible ASCII. Without one, with another scheme and with several `Authorization` headers the identity is
/// missing. The response to a missing identity that is rejected is 401 with `WWW-Authenticate: Bearer`, in gRPC `UNAUTHENTICATED`.
///
/// The client chooses a token that is not verified: put the layer inside of authentication, or add a policy by
/// [`ClientIp`](super::ClientIp).
///
/// The scheme is matched case-insensitively, and whitespace around the scheme and the token is removed. The token is used byte
/// for byte, including its padding: a verifier that treats `t`, `t=` and `t==` as one token has to reject all but one of
/// them, or to insert the verified identity into the request, for [`Extension`](super::Extension).
///
/// Source: RFC 6750, sections 2.1 and 3. Its `token68` is narrower than what services issue, such as `5|abc`.
///
/// ```
/// use http::Request;
/// use portcullis::Secret;
/// use portcullis::key::{Bearer, Identity, KeyExtractor};
///
/// let mut hasher = Secret::published().hasher();
/// let (mut parts, ()) = Request::builder().header("authorization", "bearer abc.def").body(())?.into_parts();
/// assert_eq!(Bearer.extract(&parts, &mut hasher.writer()), Ok(Identity::Found));
/// parts.headers.insert("authorization", "Basic YTpi".parse()?);
/// assert_eq!(Bearer.extract(&parts, &mut hasher.writer()), Ok(Identity::Missing));
/// parts.headers.insert("authorization", "Bearer 5|abc".parse()?);
/// assert_eq!(Bearer.extract(&parts, &mut hasher.writer()), Ok(Identity::Found));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Bearer;

impl KeyExtractor for Bearer {
    fn extract(&self, parts: &Parts, key: &mut KeyWriter<'_>) -> Result<Identity, KeyError> {
        let value = match only_line(&parts.headers, &AUTHORIZATION) {
            OnlyLine::One(value) => without_whitespace(value),
            OnlyLine::None | OnlyLine::Several => return Ok(Identity::Missing),
        };
        let end = value.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(value.len());
        let (scheme, rest) = value.split_at(end);
        if !scheme.eq_ignore_ascii_case(b"bearer") {
            return Ok(Identity::Missing);
        }
        let token = rest.trim_ascii();
        if !is_token(token) {
            return Ok(Identity::Missing);
        }
        key.part("bearer", token);
        Ok(Identity::Found)
    }

    fn challenge(&self) -> Option<HeaderValue> {
        Some(HeaderValue::from_static("Bearer"))
    }

    fn is_chosen_by_client(&self) -> bool {
        true
    }

    fn expected(&self, _: &Parts) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed("a bearer token"))
    }

    fn description(&self) -> Cow<'static, str> {
        Cow::Borrowed("bearer")
    }

    fn forms(&self) -> KeyForms {
        KeyForms::of(*self)
    }
}

impl NamedPart for Bearer {
    fn name(&self) -> Cow<'_, str> {
        "bearer".into()
    }

    fn example(&self) -> Cow<'_, str> {
        "abc.def".into()
    }

    fn tags(&self) -> Vec<&str> {
        vec!["bearer"]
    }

    fn write(&self, value: &[u8], key: &mut KeyWriter<'_>) -> Result<(), KeyError> {
        match value.trim_ascii() {
            token if is_token(token) => {
                key.part("bearer", token);
                Ok(())
            }
            _ => Err(KeyError::client("must be a token, without the word `Bearer`")),
        }
    }
}

fn is_token(token: &[u8]) -> bool {
    (1..=MAX_TOKEN).contains(&token.len()) && token.iter().all(u8::is_ascii_graphic)
}

/// The longest token, in bytes: twice as long as a signed token with many claims.
const MAX_TOKEN: usize = 4_096;
