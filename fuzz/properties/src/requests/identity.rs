//! The identity of a request, parsed independently of the layer.

use super::message::Message;
use super::setup::KeyKind;

/// The identity that a policy charges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ExpectedKey {
    /// A text that differs from client to client.
    Found(String),
    Missing,
    Exempt,
    /// The request is rejected for it.
    Broken,
}

impl ExpectedKey {
    pub(super) fn of(message: &Message, kind: KeyKind) -> Self {
        match kind {
            KeyKind::MonitoringOrAddress if message.is_monitoring => Self::Exempt,
            KeyKind::Address | KeyKind::MonitoringOrAddress => address(message),
            KeyKind::ApiKey => api_key(message),
            KeyKind::Bearer => bearer(message),
            KeyKind::Cookie => cookie(message),
            KeyKind::Query => match message.target {
                "/?key=a" | "/?key=%61" => Self::Found("query a".to_owned()),
                "/?key=a&key=b" => Self::Broken,
                _ => Self::Missing,
            },
            KeyKind::User => user(message),
            KeyKind::Global => Self::Found("all".to_owned()),
            KeyKind::ApiKeyOrAddress => match api_key(message) {
                Self::Missing => address(message),
                found => found,
            },
            KeyKind::UserAndMethod => match user(message) {
                // Only known methods have their own name, which is the same in any case.
                Self::Found(user) => match message.method.as_str().to_ascii_uppercase().as_str() {
                    // Answered by the handler for `GET`.
                    "HEAD" | "CONNECT" => Self::Found(format!("{user} GET")),
                    method @ ("OPTIONS" | "GET" | "POST" | "PUT") => Self::Found(format!("{user} {method}")),
                    _ => Self::Found(format!("{user} by another method")),
                },
                other => other,
            },
            KeyKind::LookedUp => match values(message, "x-api-key").first().copied() {
                Some(b"k1") => Self::Found("tenant k1".to_owned()),
                Some(b"k2") => Self::Found("tenant k2".to_owned()),
                Some(b"k7" | b"k8" | b"hang") => Self::Broken,
                Some(b"k9") => Self::Exempt,
                _ => Self::Missing,
            },
        }
    }
}

fn address(message: &Message) -> ExpectedKey {
    message.peer.map_or(ExpectedKey::Broken, |peer| ExpectedKey::Found(format!("address {peer}")))
}

fn user(message: &Message) -> ExpectedKey {
    message.user.map_or(ExpectedKey::Missing, |user| ExpectedKey::Found(format!("user {user}")))
}

fn api_key(message: &Message) -> ExpectedKey {
    match values(message, "x-api-key")[..] {
        [] => ExpectedKey::Missing,
        [value] => match value.trim_ascii() {
            b"" => ExpectedKey::Missing,
            key => ExpectedKey::Found(format!("key {}", key.escape_ascii())),
        },
        _ => ExpectedKey::Broken,
    }
}

/// A scheme and a token of visible ASCII, with optional whitespace around them.
fn bearer(message: &Message) -> ExpectedKey {
    let [value] = values(message, "authorization")[..] else { return ExpectedKey::Missing };
    let mut words = value.split(|byte| is_blank(*byte)).filter(|word| !word.is_empty());
    if words.next().is_none_or(|scheme| !scheme.eq_ignore_ascii_case(b"bearer")) {
        return ExpectedKey::Missing;
    }
    match (words.next().map(str::from_utf8), words.next()) {
        (Some(Ok(token)), None) if token.chars().all(|letter| ('!'..='~').contains(&letter)) => {
            ExpectedKey::Found(format!("bearer {token}"))
        }
        _ => ExpectedKey::Missing,
    }
}

fn cookie(message: &Message) -> ExpectedKey {
    for line in values(message, "cookie") {
        for pair in line.split(|byte| *byte == b';') {
            let mut parts = pair.splitn(2, |byte| *byte == b'=');
            let (Some(name), Some(value)) = (parts.next(), parts.next()) else { continue };
            if name.trim_ascii() != b"sid" {
                continue;
            }
            return match value.trim_ascii() {
                b"" => ExpectedKey::Missing,
                value => ExpectedKey::Found(format!("cookie {}", value.escape_ascii())),
            };
        }
    }
    ExpectedKey::Missing
}

/// The lines of a header, as they were sent.
pub(super) fn values<'a>(message: &'a Message, name: &str) -> Vec<&'a [u8]> {
    message.headers.get_all(name).iter().map(http::HeaderValue::as_bytes).collect()
}

fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}
