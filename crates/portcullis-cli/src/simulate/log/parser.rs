//! Which format a line has, and what would read one that has none of them.

use std::borrow::Cow;
use std::str::FromStr;
use std::sync::Arc;

use super::bad::BadAt;
use super::json::{self, Fields};
use super::text::clf::{self, LastTime};
use super::text::pattern::Pattern;
use super::text::{PATTERNS, guess};
use super::w3c::Columns;
use super::{BadLine, Line, unwrap};

/// The format of an access log.
///
/// ```
/// use portcullis_cli::simulate::Format;
///
/// assert_eq!("combined".parse(), Ok(Format::Common));
/// assert_eq!("caddy".parse(), Ok(Format::Json));
/// assert!("haproxy".parse::<Format>().is_ok());
/// assert!("$remote_addr [$time_local] \"$request\" $status".parse::<Format>().is_ok());
/// assert!("squid".parse::<Format>().unwrap_err().contains("`haproxy`"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// The common log format; the combined one, which adds two headers; and these with a host in front or `X-Forwarded-For` at the end.
    Common,
    /// An object of JSON per line.
    Json,
    /// The extended log format of the W3C, whose columns a line `#Fields:` names.
    W3c,
    /// Text with variables, as nginx's `log_format` writes it.
    Pattern(Arc<Pattern>),
}

/// Reads lines of any format.
#[derive(Debug, Default)]
pub(super) struct Parser {
    pub(super) fields: Fields,
    pub(super) columns: Columns,
    last_time: LastTime,
    /// Whether the last line that was read had something in front that is no part of its format.
    is_prefixed: bool,
}

impl Parser {
    /// Reads a line in a format, or in any that is known. Returns which it is.
    pub(super) fn read<'f>(
        &mut self,
        format: Option<&'f Format>,
        text: &[u8],
        line: &mut Line,
    ) -> Result<Cow<'f, Format>, BadAt> {
        let mut read = |parser: &mut Self, text| match format {
            Some(format) => parser.read_as(format, text, line).map(|()| Cow::Borrowed(format)),
            None => parser.detect(text, line).map(Cow::Owned),
        };
        if !self.is_prefixed {
            match read(self, text) {
                Err(error) if unwrap::without_prefix(text).is_none() => return Err(error),
                Err(_) => {}
                // A time in front looks like the host of a virtual server.
                Ok(format) if *format == Format::Common && unwrap::without_prefix(text).is_some() => {}
                Ok(format) => return Ok(format),
            }
        }
        let Some(inner) = unwrap::without_prefix(text) else {
            self.is_prefixed = false;
            return read(self, text);
        };
        let shift = text.len() - inner.len();
        let result = read(self, inner);
        self.is_prefixed = result.is_ok();
        result.map_err(|BadAt(reason, at)| BadAt(reason, at + shift))
    }

    fn read_as(&mut self, format: &Format, text: &[u8], line: &mut Line) -> Result<(), BadAt> {
        line.clear();
        match format {
            Format::Common => clf::read(text, line, &mut self.last_time),
            Format::Json => json::read(text, &self.fields, line),
            Format::W3c => self.columns.read(text, line),
            Format::Pattern(pattern) => pattern.read(text, line),
        }
    }

    /// Of the formats that do not read the line, the error of the one that comes farthest is returned.
    fn detect(&mut self, text: &[u8], line: &mut Line) -> Result<Format, BadAt> {
        if text.starts_with(b"{") {
            return self.read_as(&Format::Json, text, line).map(|()| Format::Json);
        }
        if self.columns.is_known() || looks_like_w3c(text) {
            return self.read_as(&Format::W3c, text, line).map(|()| Format::W3c);
        }
        let patterns = PATTERNS.iter().map(|(_, pattern)| Format::Pattern(Arc::clone(pattern)));
        let mut farthest: Option<BadAt> = None;
        for format in std::iter::once(Format::Common).chain(patterns) {
            match self.read_as(&format, text, line) {
                Ok(()) => return Ok(format),
                Err(error)
                    if farthest.is_none_or(|BadAt(reason, at)| reason == BadLine::Shape && at < error.1) =>
                {
                    farthest = Some(error);
                }
                Err(_) => {}
            }
        }
        Err(farthest.unwrap_or(BadAt(BadLine::Shape, 0)))
    }

    /// What would read a line that `format` does not read.
    pub(super) fn advice(&mut self, format: Option<&Format>, text: &[u8], reason: BadLine) -> Option<String> {
        if matches!(reason, BadLine::TooLong | BadLine::Request | BadLine::Status) {
            return None;
        }
        let mut line = Line::default();
        let is_prefixed = self.is_prefixed;
        let other = format.and_then(|_| self.read(None, text, &mut line).ok());
        self.is_prefixed = is_prefixed;
        if let Some(other) = other {
            return Some(format!("--format {} reads it", other.name()));
        }
        let text = unwrap::without_prefix(text).unwrap_or(text);
        if text.starts_with(b"{") {
            return field_advice(text, reason);
        }
        match reason {
            BadLine::NoColumns => Some("put the line `#Fields: ..` of the file in front of it".to_owned()),
            BadLine::Client if !text.starts_with(b"[") => {
                Some("log addresses: the names of hosts have none, and `-` is none".to_owned())
            }
            _ => guess::guess(text).map(|format| format!("--format '{format}' reads it")),
        }
    }
}

impl Format {
    /// The name by which `--format` knows it.
    fn name(&self) -> &'static str {
        match self {
            Self::Common => "combined",
            Self::Json => "json",
            Self::W3c => "w3c",
            Self::Pattern(pattern) => {
                PATTERNS.iter().find(|(_, known)| known == pattern).map_or("'..'", |(name, _)| name)
            }
        }
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((_, pattern)) = PATTERNS.iter().find(|(name, _)| *name == text) {
            return Ok(Self::Pattern(Arc::clone(pattern)));
        }
        match text {
            "common" | "combined" | "vhost_combined" | "main" | "traefik" => Ok(Self::Common),
            "json" | "caddy" | "cloudflare" => Ok(Self::Json),
            "w3c" | "iis" | "cloudfront" => Ok(Self::W3c),
            text if text.contains('$') => text.parse().map(|pattern| Self::Pattern(Arc::new(pattern))),
            _ => Err(FORMATS.to_owned()),
        }
    }
}

/// Which fields of an object would be what is missing.
fn field_advice(text: &[u8], reason: BadLine) -> Option<String> {
    let names = json::names(text, MAX_NAMES);
    let BadLine::Missing(first) = reason else { return None };
    let (mut missing, mut given) = (first, String::new());
    for _ in 0..MAX_MISSING {
        let is_like = |value: &str| match missing {
            "client" => super::address(value.as_bytes()).is_ok(),
            "time" => value.len() >= 10 && super::time::any(value.as_bytes()).is_some(),
            _ => value.starts_with('/') || value.starts_with("http"),
        };
        let Some((name, _)) = names.iter().find(|(_, value)| is_like(value)) else { break };
        given = format!("{given}{}{missing}={name}", if given.is_empty() { "" } else { "," });
        let fields: Fields = given.parse().ok()?;
        match json::read(text, &fields, &mut Line::default()) {
            Ok(()) => return Some(format!("--fields {given} reads it")),
            Err(BadAt(BadLine::Missing(next), _)) => missing = next,
            Err(_) => break,
        }
    }
    let names: Vec<_> = names.into_iter().map(|(name, _)| name).collect();
    Some(format!("name it with --fields {first}=NAME; the line has {}", names.join(", ")))
}

/// Whether a line begins with a day and a time of the day, as only this format does.
fn looks_like_w3c(text: &[u8]) -> bool {
    matches!(
        text,
        [_, _, _, _, b'-', _, _, b'-', _, _, b'\t' | b' ', _, _, b':', _, _, b':', _, _, b'\t' | b' ', ..]
    )
}

const FORMATS: &str = "a format is `common`, `combined`, `vhost_combined`, `main`, `traefik`, `json`, `caddy`, `cloudflare`, `w3c`, `iis`, \
                       `cloudfront`, `envoy`, `istio`, `haproxy`, `alb`, `elb`, or the text of nginx's `log_format`";
/// The most fields that advice names.
const MAX_NAMES: usize = 30;
/// The time, the client and the path.
const MAX_MISSING: usize = 3;
