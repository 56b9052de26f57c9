//! Requests by the value of a header or of a parameter in the query.

use std::borrow::Cow;

use http::HeaderName;
use http::request::Parts;

use super::{RequestMatcher, Undecided};
use crate::{ClientIp, Trust, header_name, without_whitespace};

/// Matches requests by a header, or by a parameter of the query: whether it is there, and what it says.
///
/// A client writes both. So such a matcher may deny requests, and neither exempt nor limit them alone: `RateLimitLayer::except` and
/// `RateLimitLayer::only` panic, unless the header is [trusted](Self::trusted). In files it may add a limit or raise a cost.
///
/// A value that servers may read in different ways is [undecided](super::Undecided): one that comes several times, is empty, not
/// UTF-8 or longer than 1 KiB; one that differs in case alone from the text that it is compared with; a name that differs in case, or in `_`
/// for `-`; a parameter behind a `;`. Blanks around the value of a header do not count, and the query is form-decoded.
///
/// ```
/// use http::Request;
/// use portcullis::layer::{RequestMatcher, RequestValue, Undecided};
///
/// let mobile = RequestValue::header("x-client").begins_with(["mobile/"]);
/// let matches = |value: &str| {
///     let (parts, ()) = Request::builder().header("x-client", value).body(()).unwrap().into_parts();
///     mobile.matches(&parts)
/// };
/// assert_eq!(matches("mobile/7"), Ok(true));
/// assert_eq!(matches("desktop"), Ok(false));
/// assert_eq!(matches("MOBILE/7"), Err(Undecided::Ambiguous));
/// ```
#[derive(Clone, Debug)]
pub struct RequestValue {
    source: Source,
    test: Test,
    /// The peers of which it is believed. A client writes it, if `None`.
    proxies: Option<Trust>,
}

#[derive(Clone, Debug)]
enum Source {
    Header(HeaderName),
    Query(String),
}

#[derive(Clone, Debug)]
enum Test {
    Present,
    Absent,
    Equals(Box<[String]>),
    Prefix(Box<[String]>),
}

impl RequestValue {
    /// The most bytes of a value that is compared.
    pub const MAX_BYTES: usize = 1_024;

    /// Matches requests with the header of this name. A name from configuration or input is parsed to a `HeaderName` first.
    ///
    /// # Panics
    ///
    /// If `name` is a text that is not a valid header name.
    #[track_caller]
    pub fn header(name: &(impl AsRef<str> + ?Sized)) -> Self {
        Self { source: Source::Header(header_name(name.as_ref())), test: Test::Present, proxies: None }
    }

    /// Matches requests with the parameter of exactly this name.
    pub fn query(name: impl Into<String>) -> Self {
        Self { source: Source::Query(name.into()), test: Test::Present, proxies: None }
    }

    /// Matches requests without it instead.
    #[must_use]
    pub fn absent(self) -> Self {
        Self { test: Test::Absent, ..self }
    }

    /// Matches requests in which it is one of these texts.
    #[must_use]
    pub fn equals(self, texts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { test: Test::Equals(texts.into_iter().map(Into::into).collect()), ..self }
    }

    /// Matches requests in which it begins with one of these texts.
    #[must_use]
    pub fn begins_with(self, texts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { test: Test::Prefix(texts.into_iter().map(Into::into).collect()), ..self }
    }

    /// Believes the header of peers in the networks that `clients` names, which have to overwrite it. From any other peer it counts as
    /// absent.
    ///
    /// # Panics
    ///
    /// If `clients` [names no proxies](ClientIp::named_proxies), or this is a parameter of the query, which the client writes.
    #[track_caller]
    #[must_use]
    pub fn trusted(self, clients: &ClientIp) -> Self {
        assert!(
            matches!(self.source, Source::Header(_)),
            "a parameter of the query is written by the client"
        );
        Self { proxies: Some(clients.trust_of_headers()), ..self }
    }

    fn read<'p>(&self, parts: &'p Parts) -> Read<'p> {
        match &self.source {
            Source::Header(_) if self.proxies.as_ref().is_some_and(|proxies| !proxies.trusts_peer(parts)) => {
                Read::Absent
            }
            Source::Header(name) => header(parts, name),
            Source::Query(name) => {
                let query = parts.uri.query().unwrap_or_default();
                let found = parameter(query, name);
                let is_split_alike =
                    !query.contains(';') || found == parameter(&query.replace(';', "&"), name);
                if is_split_alike { found } else { Read::Irregular }
            }
        }
    }
}

/// What a request has.
#[derive(Debug, PartialEq, Eq)]
enum Read<'p> {
    Absent,
    One(Cow<'p, str>),
    /// Servers may read it in different ways.
    Irregular,
}

impl<'p> Read<'p> {
    /// `is_exact` is whether the name is written as the other one.
    fn add(self, is_exact: bool, value: Option<Cow<'p, str>>) -> Self {
        let is_regular = |value: &Cow<'_, str>| !value.is_empty() && value.len() <= RequestValue::MAX_BYTES;
        match (self, value.filter(is_regular)) {
            (Self::Absent, Some(value)) if is_exact => Self::One(value),
            _ => Self::Irregular,
        }
    }
}

fn header<'p>(parts: &'p Parts, name: &HeaderName) -> Read<'p> {
    let lines = parts.headers.iter().filter(|(other, _)| folded_header(other).eq(folded_header(name)));
    lines.fold(Read::Absent, |read, (other, line)| {
        read.add(other == name, std::str::from_utf8(without_whitespace(line)).ok().map(Cow::Borrowed))
    })
}

/// The name with `-` in place of `_`, because CGI and its successors cannot tell them apart.
pub fn folded_header(name: &HeaderName) -> impl Iterator<Item = u8> {
    name.as_str().bytes().map(|byte| if byte == b'_' { b'-' } else { byte })
}

fn parameter<'q>(query: &'q str, name: &str) -> Read<'q> {
    let pairs = form_urlencoded::parse(query.as_bytes());
    pairs.filter(|(other, _)| other.eq_ignore_ascii_case(name)).fold(Read::Absent, |read, (other, value)| {
        let is_text = !value.contains(char::REPLACEMENT_CHARACTER);
        read.add(other == name, is_text.then_some(value))
    })
}

impl RequestMatcher for RequestValue {
    fn matches(&self, parts: &Parts) -> Result<bool, Undecided> {
        let read = self.read(parts);
        let compare = |texts: &[String], is: fn(&str, &str) -> bool| {
            let Read::One(value) = &read else { return Ok(false) };
            if texts.iter().any(|text| is(value, text)) {
                return Ok(true);
            }
            let lower = value.to_ascii_lowercase();
            let may_be = texts.iter().any(|text| is(&lower, &text.to_ascii_lowercase()));
            if may_be { Err(Undecided::Ambiguous) } else { Ok(false) }
        };
        match &self.test {
            _ if read == Read::Irregular => Err(Undecided::Ambiguous),
            Test::Present => Ok(read != Read::Absent),
            Test::Absent => Ok(read == Read::Absent),
            Test::Equals(texts) => compare(texts, |value, text| value == text),
            Test::Prefix(texts) => compare(texts, |value, text| value.starts_with(text)),
        }
    }

    fn is_chosen_by_client(&self) -> bool {
        self.proxies.is_none()
    }
}

#[cfg(test)]
mod tests;
