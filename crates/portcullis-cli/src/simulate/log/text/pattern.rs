//! Formats that are written as nginx's `log_format`: text with variables.

use std::str::FromStr;

use http::HeaderName;

use crate::simulate::log::bad::{BadAt, offset};
use crate::simulate::log::meaning::{Found, Meaning};
use crate::simulate::log::{BadLine, Line, time};

/// A format as nginx's `log_format` writes it: text with variables such as `$remote_addr`.
///
/// The statement of the configuration is read as well as its text alone. Variables that are no part of a request are skipped, and what
/// follows the last one is ignored if there is text behind it.
///
/// ```
/// use portcullis_cli::simulate::Format;
///
/// let format = "log_format edge '$time_iso8601 $remote_addr \"$request\" '\n  '$status $http_x_api_key';";
/// assert!(format.parse::<Format>().is_ok());
/// let error = "[$time_local] \"$request\"".parse::<Format>().unwrap_err();
/// assert_eq!(error, "the format has no variable for the client: `$remote_addr` or `$http_x_forwarded_for`");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    start: Vec<u8>,
    parts: Vec<Variable>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Variable {
    /// `None` if it is skipped.
    meaning: Option<Meaning>,
    /// The text behind it. It is empty for the last variable, and in front of a path.
    end: Vec<u8>,
}

impl Pattern {
    pub(in crate::simulate::log) fn read(&self, text: &[u8], line: &mut Line) -> Result<(), BadAt> {
        let mut rest = text.strip_prefix(&*self.start).ok_or(BadAt(BadLine::Shape, 0))?;
        let mut found = Found::default();
        for (index, Variable { meaning, end }) in self.parts.iter().enumerate() {
            let next = self.parts.get(index + 1);
            let (value, behind) = if let (true, Some(_)) = (end.is_empty(), next) {
                // Nothing but its slash separates a path from a host in front of it.
                rest.split_at(position(rest, b"/").ok_or(BadLine::Shape.at(rest, text))?)
            } else {
                match split(rest, end, next) {
                    Some(found) => found,
                    // Variables at the end without a value leave spaces, which are trimmed.
                    None if end.trim_ascii().is_empty() => (rest, &rest[rest.len()..]),
                    None => return Err(BadLine::Shape.at(rest, text)),
                }
            };
            if let Some(meaning) = meaning {
                found.set(meaning, value, line).map_err(|error| BadAt(error, offset(value, text)))?;
            }
            rest = behind;
            if rest.is_empty() {
                break;
            }
        }
        let error = |error| match error {
            BadLine::Missing("client") => BadLine::Client,
            BadLine::Missing(_) => BadLine::Shape,
            other => other,
        };
        found.finish(line).map_err(|bad| BadAt(error(bad), text.len() - rest.len()))
    }
}

/// Splits a value from what follows its end. An escaped quote is no end. If a time follows, the end is where one can be read: a name of a
/// user may have a bracket.
fn split<'a>(rest: &'a [u8], end: &[u8], next: Option<&Variable>) -> Option<(&'a [u8], &'a [u8])> {
    if end.is_empty() {
        return Some((rest, &rest[rest.len()..]));
    }
    let mut from = 0;
    let mut candidate = None;
    for _ in 0..MAX_ENDS {
        let Some(at) = position(&rest[from..], end).map(|at| from + at) else { break };
        from = at + 1;
        let is_escaped =
            end[0] == b'"' && rest[..at].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1;
        if is_escaped {
            continue;
        }
        let found = (&rest[..at], &rest[at + end.len()..]);
        let Some(Variable { meaning: Some(Meaning::Time), end }) = next else { return Some(found) };
        let value = &found.1[..position(found.1, end).filter(|_| !end.is_empty()).unwrap_or(found.1.len())];
        if time::any(value.trim_ascii()).is_some() {
            return Some(found);
        }
        candidate = candidate.or(Some(found));
    }
    candidate
}

fn position(text: &[u8], part: &[u8]) -> Option<usize> {
    let (first, others) = part.split_first()?;
    let mut from = 0;
    loop {
        let at = from + memchr::memchr(*first, &text[from..])?;
        if text[at + 1..].starts_with(others) {
            return Some(at);
        }
        from = at + 1;
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = statement(text)?;
        let (start, mut rest) = text.split_at(text.find('$').unwrap_or(text.len()));
        let mut parts: Vec<Variable> = Vec::new();
        while let Some(variable) = rest.strip_prefix('$') {
            let (name, behind) = name(variable)?;
            let (end, next) = behind.split_at(behind.find('$').unwrap_or(behind.len()));
            rest = next;
            let meaning = meaning(name)?;
            match parts.last_mut() {
                // `$uri$is_args$args` is a target in three parts.
                Some(last)
                    if last.end.is_empty()
                        && last.meaning == Some(Meaning::Path)
                        && ["is_args", "args", "query_string"].contains(&name) =>
                {
                    last.end = end.into();
                }
                Some(last) if last.end.is_empty() && meaning != Some(Meaning::Path) => {
                    return Err(format!("nothing separates `${name}` from the variable in front of it"));
                }
                _ => parts.push(Variable { meaning, end: end.into() }),
            }
        }
        let has = |known: &[&Meaning]| {
            parts.iter().any(|part| part.meaning.as_ref().is_some_and(|one| known.contains(&one)))
        };
        let forwarded = Meaning::Header(HeaderName::from_static("x-forwarded-for"));
        for (meanings, what) in [
            (&[&Meaning::Time][..], "the time: `$time_local`, `$time_iso8601` or `$msec`"),
            (
                &[&Meaning::Client, &Meaning::ClientPort, &forwarded],
                "the client: `$remote_addr` or `$http_x_forwarded_for`",
            ),
            (&[&Meaning::Request, &Meaning::Path], "the request: `$request` or `$request_uri`"),
        ] {
            if !has(meanings) {
                return Err(format!("the format has no variable for {what}"));
            }
        }
        if let Some(last) = parts.last_mut() {
            last.end.truncate(last.end.trim_ascii_end().len());
        }
        Ok(Self { start: start.trim_start().into(), parts })
    }
}

/// Splits the name of a variable from what follows it.
fn name(text: &str) -> Result<(&str, &str), String> {
    if let Some(text) = text.strip_prefix('{') {
        return text.split_once('}').ok_or_else(|| format!("`${{{text}` has no `}}`"));
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match text.find(|c| !is_name(c)).unwrap_or(text.len()) {
        0 => Err("no name follows a `$`".to_owned()),
        end => Ok(text.split_at(end)),
    }
}

fn meaning(variable: &str) -> Result<Option<Meaning>, String> {
    let header = |name: &str| {
        let name = name.replace('_', "-").parse().map_err(|_| format!("`${variable}` names no header"))?;
        Ok::<_, String>(Some(Meaning::Header(name)))
    };
    Ok(Some(match variable {
        "remote_addr" => Meaning::Client,
        "haproxy_client" => Meaning::ClientPort,
        "time_local" | "time_iso8601" | "msec" => Meaning::Time,
        "request" => Meaning::Request,
        "request_method" => Meaning::Method,
        "request_uri" | "uri" | "document_uri" => Meaning::Path,
        "args" | "query_string" => Meaning::Query,
        "status" => Meaning::Status,
        "host" => return header("host"),
        _ => match (variable.strip_prefix("http_"), variable.strip_prefix("cookie_")) {
            (Some(name), _) => return header(name),
            (None, Some(name)) => Meaning::Cookie(name.to_owned()),
            (None, None) => return Ok(None),
        },
    }))
}

/// The text of `log_format main '..' '..';`, or of its strings alone; any other text is itself.
fn statement(text: &str) -> Result<String, String> {
    let text = text.trim();
    let strings = match text.strip_prefix("log_format") {
        Some(rest) => rest.find(['\'', '"']).map_or("", |start| &rest[start..]),
        None if text.starts_with('\'') => text,
        None => return Ok(text.to_owned()),
    };
    let (mut joined, mut quote, mut characters) = (String::new(), None, strings.chars());
    while let Some(c) = characters.next() {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (None, ';') => break,
            (None, c) if c.is_whitespace() => {}
            (None, c) => return Err(format!("`{c}` is outside of the strings of the format")),
            (Some(_), '\\') => joined.extend(characters.next()),
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => joined.push(c),
        }
    }
    if quote.is_some() || joined.is_empty() {
        return Err("a string of the format has no end".to_owned());
    }
    Ok(joined)
}

/// The places at which a value may end that are tried.
const MAX_ENDS: usize = 64;
