//! One request of an access log.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;

use http::HeaderName;

/// One request of an access log. Its memory is reused from line to line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The instant, in microseconds since the Unix epoch.
    pub micros: u64,
    /// The address at the other end of the connection.
    pub peer: IpAddr,
    /// The status that the server has answered with, 200 if the log has none.
    pub status: u16,
    text: Vec<u8>,
    method: Range<usize>,
    target: Range<usize>,
    headers: Vec<(HeaderName, Range<usize>)>,
}

impl Line {
    /// Makes it a line without a request, and keeps its memory.
    pub fn clear(&mut self) {
        let (mut text, mut headers) = (std::mem::take(&mut self.text), std::mem::take(&mut self.headers));
        text.clear();
        headers.clear();
        *self = Self { text, headers, ..Self::default() };
    }

    /// Sets the method.
    pub fn set_method(&mut self, method: &[u8]) {
        self.method = self.append(method);
    }

    /// Sets the target: the path with its query, or a whole URI.
    pub fn set_target(&mut self, target: &[u8]) {
        self.target = self.append(target);
    }

    /// Adds a header, unless the value is what a server writes for one that is absent or hidden: nothing, a dash, `(null)`, or
    /// `REDACTED`. Otherwise all requests without it would be one client.
    pub fn add_header(&mut self, name: HeaderName, value: &[u8]) {
        if matches!(value.trim_ascii(), b"" | b"-" | b"(null)" | b"REDACTED") {
            return;
        }
        let value = self.append(value);
        self.headers.push((name, value));
    }

    /// The method, empty if the log has none.
    pub fn method(&self) -> &[u8] {
        &self.text[self.method.clone()]
    }

    /// The target, empty if the log has none.
    pub fn target(&self) -> &[u8] {
        &self.text[self.target.clone()]
    }

    /// The headers, in the order of the log.
    pub fn headers(&self) -> impl Iterator<Item = (&HeaderName, &[u8])> {
        self.headers.iter().map(|(name, value)| (name, &self.text[value.clone()]))
    }

    fn append(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.text.len();
        self.text.extend_from_slice(bytes);
        start..self.text.len()
    }
}

impl Default for Line {
    /// A line without a request.
    fn default() -> Self {
        Self {
            micros: 0,
            peer: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            status: 200,
            text: Vec::new(),
            method: 0..0,
            target: 0..0,
            headers: Vec::new(),
        }
    }
}
