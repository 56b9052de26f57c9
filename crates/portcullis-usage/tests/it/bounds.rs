use portcullis_usage::Count::{AtLeast, Total};
use portcullis_usage::{MOST_READ, Unreadable, UsageReader};

use crate::{EVENTS, JSON, scan};

/// Reads a body in pieces of 8 KiB, as they come from a socket.
fn read(content_type: &'static str, body: &[u8]) -> (Option<portcullis_usage::Count>, Option<Unreadable>) {
    let mut scan = scan(&UsageReader::OPENAI, content_type);
    for piece in body.chunks(8_192) {
        scan.push(piece);
    }
    (scan.count(), scan.unreadable())
}

/// A document of so many bytes, with its usage in front or at the end.
fn document(size: usize, is_in_front: bool) -> String {
    let usage = r#""usage":{"total_tokens":5}"#;
    let text = "x".repeat(size - usage.len() - r#"{"a":"",}"#.len());
    if is_in_front {
        format!("{{{usage},\"a\":\"{text}\"}}")
    } else {
        format!("{{\"a\":\"{text}\",{usage}}}")
    }
}

#[test]
fn event_of_a_megabyte_is_read() {
    let event = format!("data: {}\n\n", document(1_000_000, false));
    assert_eq!(read(EVENTS, event.as_bytes()), (Some(Total(5)), None));
    assert_eq!(read(JSON, document(1_000_000, false).as_bytes()), (Some(Total(5)), None));
}

#[test]
fn larger_document_is_not_read_to_its_end() {
    assert_eq!(read(JSON, document(MOST_READ, false).as_bytes()), (Some(Total(5)), None));
    let too_large = Some(Unreadable::TooLarge);
    assert_eq!(read(JSON, document(MOST_READ + 30, false).as_bytes()), (None, too_large));
    assert_eq!(read(JSON, document(MOST_READ + 30, true).as_bytes()), (Some(AtLeast(5)), too_large));
    let event = format!("data: {}\n\n", document(MOST_READ + 30, false));
    assert_eq!(read(EVENTS, event.as_bytes()), (None, too_large));
    // Nothing is read behind it.
    let event = format!("{event}data: {}\n\n", document(100, false));
    assert_eq!(read(EVENTS, event.as_bytes()), (None, too_large));
}

#[test]
fn many_documents_may_be_larger_together() {
    let documents = document(1_000_000, false).repeat(20);
    assert_eq!(read(JSON, documents.as_bytes()), (Some(Total(5)), None));
    let events = format!("data: {}\n\n", document(1_000_000, false)).repeat(20);
    assert_eq!(read(EVENTS, events.as_bytes()), (Some(Total(5)), None));
}

#[test]
fn deep_documents_are_read() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let body = format!("{{\"a\":{deep},\"usage\":{{\"total_tokens\":5}}}}");
    assert_eq!(read(JSON, body.as_bytes()), (Some(Total(5)), None));
}
