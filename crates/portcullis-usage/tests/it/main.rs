//! What is read of responses, whole and in pieces.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod bodies;
mod bounds;
mod compressed;
mod oracle;

use http::{HeaderMap, HeaderValue, header};
use portcullis_usage::{Count, UsageReader, UsageScan};

const JSON: &str = "application/json; charset=utf-8";
const EVENTS: &str = "text/event-stream";

/// The headers of a response with this type of content.
fn headers(content_type: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(content_type))])
}

fn scan(reader: &UsageReader, content_type: &'static str) -> UsageScan {
    reader.scan(&headers(content_type))
}

/// What a body is found to use.
fn read(reader: &UsageReader, content_type: &'static str, body: &str) -> Option<Count> {
    scan(reader, content_type).push(body.as_bytes())
}

/// What a body is found to use that comes byte by byte.
fn read_bytes(reader: &UsageReader, content_type: &'static str, body: &[u8]) -> Option<Count> {
    let mut scan = scan(reader, content_type);
    for byte in body {
        scan.push(&[*byte]);
    }
    scan.count()
}
