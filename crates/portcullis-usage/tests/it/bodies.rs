use portcullis_usage::Count::{AtLeast, Total};
use portcullis_usage::{Count, Unreadable, UsageReader};

use crate::{EVENTS, JSON, read, read_bytes, scan};

/// Reads a body at once and byte by byte.
#[track_caller]
fn check(reader: &UsageReader, content_type: &'static str, body: &str, expected: Option<Count>) {
    assert_eq!(read(reader, content_type, body), expected, "{reader}: {body}");
    assert_eq!(read_bytes(reader, content_type, body.as_bytes()), expected, "{reader}: {body}, byte by byte");
}

/// Streams as the providers' documentation shows them, shortened.
const OPENAI_STREAM: &str = r#"data: {"id":"c","choices":[{"delta":{"content":"\"usage\":{\"total_tokens\":9}"}}],"usage":null}

data: {"id":"c","choices":[],"usage":{"prompt_tokens":8,"completion_tokens":3,"total_tokens":11,"prompt_tokens_details":{"total_tokens":7}}}

data: [DONE]

"#;
const RESPONSES_STREAM: &str = r#"event: response.created
data: {"type":"response.created","response":{"id":"r","usage":null}}

event: response.completed
data: {"type":"response.completed","response":{"id":"r","usage":{"input_tokens":8,"output_tokens":4,"total_tokens":12}}}

"#;
const ANTHROPIC_STREAM: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"m","content":[],"usage":{"input_tokens":25,"cache_creation_input_tokens":100,"cache_read_input_tokens":1000,"output_tokens":1}}}

event: ping
data: {"type": "ping"}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":15}}

event: message_stop
data: {"type":"message_stop"}

"#;
const GEMINI_STREAM: &str = "data: {\"candidates\": [], \"usageMetadata\": {\"promptTokenCount\": 4, \"totalTokenCount\": 6}}\r\n\r\n\
    data: {\"candidates\": [], \"usageMetadata\": {\"promptTokenCount\": 4, \"totalTokenCount\": 30}}\r\n\r\n";

#[test]
fn streams_of_providers_are_read() {
    check(&UsageReader::OPENAI, EVENTS, OPENAI_STREAM, Some(Total(11)));
    check(&UsageReader::OPENAI, EVENTS, RESPONSES_STREAM, Some(Total(12)));
    check(&UsageReader::ANTHROPIC, EVENTS, ANTHROPIC_STREAM, Some(Total(1_140)));
    check(&UsageReader::GEMINI, "Text/Event-Stream;charset=utf-8", GEMINI_STREAM, Some(Total(30)));
}

#[test]
fn documents_of_providers_are_read() {
    let openai = r#"{"choices": [{"message": {"content": "hi"}}], "usage": {"total_tokens": 21}, "service_tier": "default"}"#;
    check(&UsageReader::OPENAI, JSON, openai, Some(Total(21)));
    let anthropic =
        r#"{"type":"message","usage":{"input_tokens":10,"cache_read_input_tokens":null,"output_tokens":25}}"#;
    check(&UsageReader::ANTHROPIC, JSON, anthropic, Some(Total(35)));
    let gemini = r#"[{"usageMetadata": {"totalTokenCount": 5}}
        , {"usageMetadata": {"promptTokenCount": 1}}, {"usageMetadata": {"totalTokenCount": 8}}]"#;
    check(&UsageReader::GEMINI, JSON, gemini, Some(Total(8)));
    check(&UsageReader::GEMINI, JSON, gemini.split_once(", ").unwrap().1, Some(Total(8)));
}

#[test]
fn truncated_streams_have_what_was_stated() {
    let before = |stream: &'static str, end: &str| stream.split_once(end).unwrap().0;
    check(&UsageReader::OPENAI, EVENTS, before(OPENAI_STREAM, r#"1,"prompt_tokens_details"#), None);
    check(&UsageReader::OPENAI, EVENTS, before(OPENAI_STREAM, "data: [DONE]"), Some(Total(11)));
    check(&UsageReader::ANTHROPIC, EVENTS, before(ANTHROPIC_STREAM, "event: ping"), Some(AtLeast(1_126)));
    check(
        &UsageReader::ANTHROPIC,
        EVENTS,
        before(ANTHROPIC_STREAM, "5}}\n\nevent: message_stop"),
        Some(AtLeast(1_126)),
    );
    check(&UsageReader::GEMINI, EVENTS, before(GEMINI_STREAM, "0}}\r\n\r\n"), Some(Total(6)));
}

#[test]
fn only_whole_numbers_count() {
    let reader = UsageReader::pointer("/n").unwrap();
    for number in ["0", "7", "18446744073709551615"] {
        check(&reader, JSON, &format!("{{\"n\":{number}}}"), Some(Total(number.parse().unwrap())));
    }
    for other in [
        "18446744073709551616",
        "99999999999999999999999",
        "1.0",
        "1e2",
        "1E+2",
        "-1",
        "-0",
        "01",
        "null",
        "true",
        "\"7\"",
        "[7]",
        "{}",
    ] {
        check(&reader, JSON, &format!("{{\"n\":{other}}}"), None);
    }
    // It may have further digits.
    check(&reader, JSON, r#"{"n":12"#, None);
}

#[test]
fn pointers_name_members_and_elements() {
    let body = r#"{"a": [{"n": 1}, {"n": 2}, 3], "b": {"a/b": {"~": 4, "": 5}, "\u0061\ud834\udd1e\"": 6}, "0": 7, "n": 8}"#;
    for (pointer, number) in [
        ("/a/1/n", Some(2)),
        ("/a/2", Some(3)),
        ("/a/02", None),
        ("/a/-", None),
        ("/a/n", None),
        ("/a", None),
        ("/b/a~1b/~0", Some(4)),
        ("/b/a~1b/", Some(5)),
        ("/b/a𝄞\"", Some(6)),
        ("/b/a𝄞", None),
        ("/0", Some(7)),
        ("/n", Some(8)),
        ("/m", None),
    ] {
        check(&UsageReader::pointer(pointer).unwrap(), JSON, body, number.map(Total));
    }
    check(&UsageReader::pointer("/1/n").unwrap(), JSON, r#"[{"n": 1}, {"n": 2}]"#, Some(Total(2)));
}

#[test]
fn names_with_half_a_pair_are_of_no_place() {
    for name in [r"\ud834", r"\udd1e", r"\ud834n", r"\ud834\n", r"\ud834\u006e", r"n\ud834"] {
        check(&UsageReader::pointer("/n").unwrap(), JSON, &format!("{{\"{name}\": 1}}"), None);
    }
}

#[test]
fn last_document_counts() {
    let reader = UsageReader::pointer("/n").unwrap();
    check(&reader, "application/x-ndjson", "{\"n\":1}\n{\"n\":2}\n{\"m\":3}\n", Some(Total(2)));
    check(&reader, "application/vnd.api+json", r#"{"n":1}{"n":2}"#, Some(Total(2)));
    check(&reader, JSON, r#"{"n":1,"n":2}"#, Some(Total(2)));
}

#[test]
fn events_are_those_of_the_standard() {
    let reader = UsageReader::pointer("/n").unwrap();
    for (stream, number) in [
        ("data:{\"n\":1}\n\n", Some(1)),
        ("data: {\"n\"\ndata: :1\ndata\ndata:}\n\n", Some(1)),
        ("data: {\"n\":1}\r\rdata: {\"n\":2}\r\r", Some(2)),
        ("data: {\"n\":\r\ndata: 2}\r\n\r\n", Some(2)),
        ("\u{feff}data: {\"n\":1}\n\n", Some(1)),
        (": data: {\"n\":1}\n\n", None),
        (" data: {\"n\":1}\n\n", None),
        ("dat: {\"n\":1}\ndatas: {\"n\":1}\nDATA: {\"n\":1}\n\n", None),
        ("event: x\nid: 1\ndata: {\"n\":1}\nretry: 9\n\n", Some(1)),
        // An event ends a document that does not.
        ("data: {\"a\": [\"\n\ndata: {\"n\":1}\n\n", Some(1)),
        ("data: [DONE]\n\ndata: {\"n\":1}\n\n", Some(1)),
        ("data: {\"n\":1}\n", Some(1)),
    ] {
        check(&reader, EVENTS, stream, number.map(Total));
    }
}

#[test]
fn what_is_no_json_has_no_usage() {
    let reader = UsageReader::pointer("/n").unwrap();
    for body in [
        "",
        "<html>{\"n\":1}",
        "{n:1}",
        "{\"a\" 1, \"n\":1}",
        "{\"n\":1x}",
        "{\"n\":tru1}",
        "]{\"n\":1}",
        "{\"\\x\":0,\"n\":1}",
    ] {
        check(&reader, JSON, body, None);
    }
    check(&reader, JSON, r#"{"n":1, oops, "n":2}"#, Some(Total(1)));
}

#[test]
fn other_contents_are_not_read() {
    for (content_type, unread) in [
        ("text/plain", Unreadable::ContentType),
        ("application/vnd.amazon.eventstream", Unreadable::ContentType),
    ] {
        let mut scan = scan(&UsageReader::OPENAI, content_type);
        assert_eq!((scan.push(br#"{"usage":{"total_tokens":1}}"#), scan.unreadable()), (None, Some(unread)));
    }
    let nothing = UsageReader::OPENAI.scan(&http::HeaderMap::new());
    assert_eq!(nothing.unreadable(), Some(Unreadable::ContentType));
}
