//! What the parts of a line mean, in any format that names them.

use http::HeaderName;
use http::header::COOKIE;

use super::{BadLine, Line, address, set_request, status, time};

/// What a field of a line is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The instant, or the time of the [day](Self::Date).
    Time,
    /// The day, in formats that have it beside the time.
    Date,
    Client,
    /// The address with a port behind it, without brackets.
    ClientPort,
    Method,
    /// The target, or a path without its query.
    Path,
    Query,
    /// The request line: `GET /search HTTP/1.1`.
    Request,
    Status,
    Header(HeaderName),
    /// The value of one cookie.
    Cookie(String),
}

/// What a line has. The first field of each kind wins.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a part of a request")]
pub(super) struct Found {
    time: bool,
    client: bool,
    method: bool,
    path: bool,
    status: bool,
    date: Option<[u8; 10]>,
    query: Vec<u8>,
}

impl Found {
    /// Takes a field. One that is empty or a dash is absent.
    pub(super) fn set(&mut self, meaning: &Meaning, text: &[u8], line: &mut Line) -> Result<(), BadLine> {
        let is_new = |flag: &mut bool| !std::mem::replace(flag, true);
        match meaning {
            Meaning::Request if is_new(&mut self.path) => {
                self.method = true;
                set_request(line, text)?;
            }
            _ if matches!(text.trim_ascii(), b"" | b"-") => {}
            Meaning::Time if is_new(&mut self.time) => {
                line.micros = self.instant(text.trim_ascii()).ok_or(BadLine::Time)?;
            }
            Meaning::Date => self.date = text.try_into().ok(),
            Meaning::Client if is_new(&mut self.client) => line.peer = address(text)?,
            Meaning::ClientPort if is_new(&mut self.client) => {
                let end = text.iter().rposition(|byte| *byte == b':').unwrap_or(text.len());
                line.peer = address(&text[..end])?;
            }
            Meaning::Method if is_new(&mut self.method) => line.set_method(text),
            Meaning::Path if is_new(&mut self.path) => line.set_target(text),
            Meaning::Query => text.clone_into(&mut self.query),
            Meaning::Status if is_new(&mut self.status) => line.status = status(text)?,
            Meaning::Header(name) => line.add_header(name.clone(), text),
            Meaning::Cookie(name) => line.add_header(COOKIE, &[name.as_bytes(), b"=", text].concat()),
            Meaning::Time
            | Meaning::Client
            | Meaning::ClientPort
            | Meaning::Method
            | Meaning::Path
            | Meaning::Request
            | Meaning::Status => {}
        }
        Ok(())
    }

    /// Checks that the line has what a request needs. A client that has no field is the last address of `X-Forwarded-For`, which the
    /// proxy that has written the line has added.
    pub(super) fn finish(self, line: &mut Line) -> Result<(), BadLine> {
        if !self.client {
            let forwarded = line.headers().find(|(name, _)| name.as_str() == "x-forwarded-for");
            let last = forwarded.and_then(|(_, list)| list.rsplit(|byte| *byte == b',').next());
            line.peer = address(last.ok_or(BadLine::Missing("client"))?)?;
        }
        if !self.time {
            return Err(BadLine::Missing("time"));
        }
        if !self.path {
            return Err(BadLine::Missing("path"));
        }
        if !self.query.is_empty() && !line.target().contains(&b'?') {
            let target = [line.target(), b"?", &self.query].concat();
            line.set_target(&target);
        }
        Ok(())
    }

    fn instant(&self, text: &[u8]) -> Option<u64> {
        match self.date {
            Some(date) if text.get(2) == Some(&b':') => time::any(&[&date, &b"T"[..], text, b"Z"].concat()),
            _ => time::any(text),
        }
    }
}

impl Meaning {
    /// Reads the name by which `--fields` knows it.
    pub(super) fn from_name(text: &str) -> Option<Self> {
        Some(match text {
            "time" => Self::Time,
            "date" => Self::Date,
            "client" => Self::Client,
            "method" => Self::Method,
            "path" => Self::Path,
            "query" => Self::Query,
            "request" => Self::Request,
            "status" => Self::Status,
            "host" => Self::Header(http::header::HOST),
            _ => return None,
        })
    }
}
