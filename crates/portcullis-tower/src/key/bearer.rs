//! Keys by bearer token.

use std::borrow::Cow;

use http::HeaderValue;
use http::header::AUTHORIZATION;
use http::request::Parts;
use portcullis_core::KeyWriter;

use super::only_line::{OnlyLine, only_line};
use super::{Identity, KeyError, KeyExtractor, without_whitespace};

/// The token of `Authorization: Bearer <token>`.
///
/// Without the header, or with another scheme, the identity is missing. Several `Authorization` headers, a scheme without a
/// token, a token with invalid characters, and one that is longer than a key may be are errors of the client. The response to a
/// missing identity that is rejected, and to a malformed one, is 401 with `WWW-Authenticate: Bearer`, in gRPC
/// `UNAUTHENTICATED`.
///
/// The client chooses a token that is not verified: put the layer inside of authentication, or add a policy by
/// [`ClientIp`](super::ClientIp).
///
/// The scheme is matched case-insensitively, and whitespace around the scheme and the token is removed. The token is used byte
/// for byte, including its padding: a verifier that treats `t`, `t=` and `t==` as one token has to reject all but one of
/// them, or to insert the verified identity into the request, for [`Extension`](super::Extension).
///
/// Source: RFC 6750, sections 2.1 and 3.
///
/// ```
/// use http::Request;
/// use portcullis_core::Secret;
/// use portcullis_tower::{Bearer, Identity, KeyExtractor};
///
/// let mut hasher = Secret::published().hasher();
/// let (mut parts, ()) = Request::builder().header("authorization", "bearer abc.def").body(())?.into_parts();
/// assert_eq!(Bearer.extract(&parts, &mut hasher.writer()), Ok(Identity::Found));
/// parts.headers.insert("authorization", "Basic YTpi".parse()?);
/// assert_eq!(Bearer.extract(&parts, &mut hasher.writer()), Ok(Identity::Missing));
/// parts.headers.insert("authorization", "Bearer abc def".parse()?);
/// assert!(Bearer.extract(&parts, &mut hasher.writer()).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Bearer;

impl KeyExtractor for Bearer {
    fn extract(&self, parts: &Parts, key: &mut KeyWriter<'_>) -> Result<Identity, KeyError> {
        let value = match only_line(&parts.headers, &AUTHORIZATION) {
            OnlyLine::One(value) => without_whitespace(value),
            OnlyLine::None => return Ok(Identity::Missing),
            OnlyLine::Several => return Err(invalid("header authorization was sent more than once")),
        };
        let end = value.iter().position(|byte| matches!(byte, b' ' | b'\t')).unwrap_or(value.len());
        let (scheme, rest) = value.split_at(end);
        if !scheme.eq_ignore_ascii_case(b"bearer") {
            return Ok(Identity::Missing);
        }
        let token = rest.trim_ascii();
        if !is_token68(token) {
            return Err(invalid("the bearer token is malformed"));
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

    fn description(&self) -> Cow<'static, str> {
        Cow::Borrowed("bearer")
    }
}

fn invalid(message: &'static str) -> KeyError {
    KeyError::unauthenticated(message, HeaderValue::from_static("Bearer error=\"invalid_token\""))
}

/// `1*( ALPHA / DIGIT / "-" / "." / "_" / "~" / "+" / "/" ) *"="`
fn is_token68(token: &[u8]) -> bool {
    let end = token.iter().rposition(|byte| *byte != b'=').map_or(0, |last| last + 1);
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(byte);
    end > 0 && token[..end].iter().all(allowed)
}
