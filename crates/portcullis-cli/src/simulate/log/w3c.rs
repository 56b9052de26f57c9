//! The extended log format of the W3C: a line `#Fields:` names the columns. IIS and `CloudFront` write it.
//!
//! Source: W3C, "Extended Log File Format", and the manuals of both.

use std::borrow::Cow;

use http::HeaderName;

use super::bad::{BadAt, offset};
use super::meaning::{Found, Meaning};
use super::{BadLine, Line};

/// The columns of the lines. `None` for one that is not read.
#[derive(Clone, Debug, Default)]
pub(super) struct Columns(Vec<Option<Meaning>>);

impl Columns {
    /// Reads a line that begins with `#`. Returns whether it is a directive of the format.
    pub(super) fn read_directive(&mut self, text: &[u8]) -> bool {
        let Some(names) = text.strip_prefix(b"#Fields:") else {
            return DIRECTIVES.iter().any(|name| text.starts_with(name.as_bytes()));
        };
        let names: Vec<_> =
            String::from_utf8_lossy(names).split_ascii_whitespace().map(str::to_owned).collect();
        let has_viewer_host = names.iter().any(|name| name == "x-host-header");
        let meaning = |name: &String| match meaning(name)? {
            // CloudFront writes its own host there.
            Meaning::Header(name) if name == http::header::HOST && has_viewer_host => None,
            meaning => Some(meaning),
        };
        self.0 = names
            .iter()
            .map(|name| if name == "x-host-header" { Meaning::from_name("host") } else { meaning(name) })
            .collect();
        true
    }

    pub(super) fn is_known(&self) -> bool {
        !self.0.is_empty()
    }

    /// Reads a line, with tabs or spaces between the columns.
    pub(super) fn read(&self, text: &[u8], line: &mut Line) -> Result<(), BadAt> {
        if !self.is_known() {
            return Err(BadAt(BadLine::NoColumns, 0));
        }
        let has_tabs = text.contains(&b'\t');
        let mut found = Found::default();
        let separator = if has_tabs { b'\t' } else { b' ' };
        let mut values = text.split(|byte| *byte == separator);
        for column in &self.0 {
            let value = values.next().ok_or(BadAt(BadLine::Shape, text.len()))?;
            let Some(meaning) = column else { continue };
            let decoded = match meaning {
                Meaning::Header(_) if has_tabs => percent_decoded(value),
                Meaning::Header(_) => {
                    Cow::Owned(value.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect())
                }
                _ => Cow::Borrowed(value),
            };
            found.set(meaning, &decoded, line).map_err(|error| BadAt(error, offset(value, text)))?;
        }
        found.finish(line).map_err(|error| BadAt(error, 0))
    }
}

fn meaning(name: &str) -> Option<Meaning> {
    Some(match name {
        "date" => Meaning::Date,
        "time" => Meaning::Time,
        "c-ip" => Meaning::Client,
        "cs-method" => Meaning::Method,
        "cs-uri" | "cs-uri-stem" => Meaning::Path,
        "cs-uri-query" => Meaning::Query,
        "sc-status" => Meaning::Status,
        "cs-host" => Meaning::Header(http::header::HOST),
        "x-forwarded-for" | "X-Forwarded-For" => Meaning::Header(HeaderName::from_static("x-forwarded-for")),
        _ => {
            let header = name.strip_prefix("cs(")?.strip_suffix(')')?;
            Meaning::Header(HeaderName::from_bytes(header.as_bytes()).ok()?)
        }
    })
}

/// What is no escape stays as it is.
fn percent_decoded(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.contains(&b'%') {
        return Cow::Borrowed(text);
    }
    let digit =
        |byte: Option<&u8>| char::from(*byte?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut decoded = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let escaped = digit(text.get(at + 1)).zip(digit(text.get(at + 2))).filter(|_| byte == b'%');
        decoded.push(escaped.map_or(byte, |(high, low)| 16 * high + low));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    Cow::Owned(decoded)
}

const DIRECTIVES: [&str; 6] = ["#Version:", "#Software:", "#Date:", "#Start-Date:", "#End-Date:", "#Remark:"];
